//! Loops compiled twice: for processors that compute four doubles at once, and for all processors.

/// A loop.
pub trait Wide {
    /// Runs the loop. Must be inlined, to be compiled for the processor of its caller.
    fn work(self);
}

/// Whether the processor has the wider instructions.
pub fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide(work: impl Wide) {
    work.work();
}

/// Runs a loop with the widest instructions available. Results are the same to the last bit.
pub fn run(work: impl Wide) {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        #[allow(unsafe_code, reason = "a processor that has more instructions than the build assumes")]
        // SAFETY: the processor has both features; the function has no other precondition.
        return unsafe { wide(work) };
    }
    work.work();
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Squares<'a> {
        of: &'a [f64],
        to: &'a mut Vec<f64>,
    }

    impl Wide for Squares<'_> {
        #[inline]
        fn work(self) {
            self.to.extend(self.of.iter().map(|x| x * x + 0.1));
        }
    }

    #[test]
    fn results_are_the_same_on_all_processors() {
        let of: Vec<f64> = (0..101).map(|i| f64::from(i) / 7.0 - 5.0).collect();
        let (mut found, mut plain) = (Vec::new(), Vec::new());
        run(Squares { of: &of, to: &mut found });
        Squares { of: &of, to: &mut plain }.work();
        assert_eq!(found.len(), of.len());
        assert!(found.iter().zip(&plain).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
