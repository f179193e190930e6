//! Bytes in which a search for repeats finds nothing.

use crate::error::Result;
use crate::wire::grow::Grow;

/// Fewer repeats than one in this many bytes are not worth a search.
const RARE: usize = 256;

/// Whether almost no four bytes of a block of up to 128 KiB occur in it twice, as in the lowest bytes of real numbers.
///
/// Blocks of unevenly distributed bytes are recognized by counting; only others are searched for repeats. `known` is a
/// buffer that is reused.
pub fn is_noise(block: &[u8], known: &mut Vec<u32>) -> Result<bool> {
    let mut counts = [0_u32; 256];
    for byte in block {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    // The probability that two bytes are equal, if they are independent; four bytes must be, anywhere in the block.
    let length = block.len().max(1) as f64;
    let equal: f64 = counts.iter().map(|count| (f64::from(*count) / length).powi(2)).sum();
    Ok(length * equal.powi(4) < 1.0 / RARE as f64 && repeats(block, known)? < block.len() / RARE)
}

/// Counts places whose four bytes occurred before. A place that is forgotten because of another may be missed.
fn repeats(block: &[u8], known: &mut Vec<u32>) -> Result<usize> {
    known.clear();
    known.try_fill(1 << 16, 0)?;
    let mut found = 0;
    for word in block.windows(4) {
        let word = word.first_chunk().copied().map_or(0, u32::from_le_bytes);
        if let Some(known) = known.get_mut((word.wrapping_mul(0x9e37_79b1) >> 16) as usize) {
            found += usize::from(*known == word);
            *known = word;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::is_noise as with_room;

    fn is_noise(block: &[u8]) -> bool {
        with_room(block, &mut Vec::new()).unwrap()
    }

    fn random(length: usize, mask: u8) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8 & mask
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn only_bytes_without_repeats_are_noise() {
        let noise = random(65_536, 0xff);
        assert!(is_noise(&noise));
        assert!(!is_noise(&random(65_536, 0x1f)), "few different bytes");
        assert!(!is_noise(&vec![7; 65_536]), "one byte");
        let counter: Vec<u8> = (0..65_536_u32).map(|i| i as u8).collect();
        assert!(!is_noise(&counter), "all bytes equally often, in one order");
        let twice = [&noise[..32_768], &noise[..32_768]].concat();
        assert!(!is_noise(&twice), "the second half repeats the first");
        let partly = [&noise[..60_000], &noise[..2000]].concat();
        assert!(!is_noise(&partly), "3 % are a repeat");
        assert!(!is_noise(&[]));
    }
}
