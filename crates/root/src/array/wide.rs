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
