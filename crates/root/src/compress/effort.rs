//! How hard a codec searches.
//!
//! A higher level makes a codec search longer for repeated bytes. In numbers with many random bits there is little to
//! find: a level of Zstandard that takes an eighth of the time often makes pages that are less than 1 % larger. A
//! writer therefore compresses a sample of each column at several levels, and uses the quickest level whose result is at
//! most 1 % larger than that of the requested level.

use super::encode::{Algorithm, Compression, compress, compress_at};
use crate::error::Result;
use std::borrow::Cow;
use std::ops::Range;

/// Maximum bytes of a sample.
const SAMPLE: usize = 128 << 10;
/// The same for the slowest levels of Zstandard. For up to 256 KiB they have other methods than for a page of usual size.
const SAMPLE_SLOW: usize = 260 << 10;
/// The slowest levels of Zstandard's library start here.
const SLOW: i32 = 14;
/// Minimum bytes of a sample.
const SMALLEST: usize = 16 << 10;
/// Bytes of a column before its first sample. A sample of a smaller column would cost more than it saves.
const FIRST: usize = 512 << 10;
/// Bytes of a column from one sample to the next.
const INTERVAL: usize = 32 << 20;
/// A quicker level is used if its result is larger by at most one part in this many.
const PARTS: usize = 100;

/// The level of a codec's library for the pages of one column.
#[derive(Debug, Default)]
pub struct Effort {
    /// The requested compression, and the library's level for it.
    measured: Option<(Compression, i32)>,
    /// Bytes since the last sample.
    bytes: usize,
}

impl Effort {
    /// As [`compress`], at the chosen level.
    pub fn compress(
        &self,
        compression: Compression,
        from: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        match (compression, self.level(compression)) {
            (Compression::Level(algorithm, _), Some(level)) => compress_at(algorithm, level, from, out),
            _ => compress(compression, from, out),
        }
    }

    /// Returns the chosen level of the library, once measured for this compression.
    fn level(&self, compression: Compression) -> Option<i32> {
        self.measured.filter(|(of, _)| *of == compression).map(|(_, level)| level)
    }

    /// Prepares to compress `bytes` of a column. From time to time it chooses a level for them and for the next bytes:
    /// `sample` returns the bytes of a range as they would be compressed.
    pub fn prepare<'a>(
        &mut self,
        compression: Compression,
        bytes: usize,
        sample: impl FnOnce(Range<usize>) -> Result<Cow<'a, [u8]>>,
    ) -> Result<()> {
        let Compression::Level(algorithm, level) = compression else { return Ok(()) };
        if !self.is_due(compression, bytes) {
            return Ok(());
        }
        let length = most_of_sample(algorithm, algorithm.native_level(level)).min(bytes);
        let start = (bytes - length) / 2;
        self.bytes = 0;
        let chosen = choose(algorithm, algorithm.native_level(level), &sample(start..start + length)?)?;
        self.measured = Some((compression, chosen));
        Ok(())
    }

    /// Counts bytes that are about to be compressed. Returns whether to choose a level first.
    fn is_due(&mut self, compression: Compression, bytes: usize) -> bool {
        let Compression::Level(algorithm, level) = compression else { return false };
        if level == 1 || quicker(algorithm).is_empty() {
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let due = if self.level(compression).is_some() { INTERVAL } else { FIRST };
        self.bytes >= due && bytes >= SMALLEST
    }
}

const fn most_of_sample(algorithm: Algorithm, level: i32) -> usize {
    if matches!(algorithm, Algorithm::Zstd) && level >= SLOW { SAMPLE_SLOW } else { SAMPLE }
}

/// Returns the quickest level whose result for a sample is hardly larger than that of the requested level.
fn choose(algorithm: Algorithm, requested: i32, sample: &[u8]) -> Result<i32> {
    let mut out = Vec::new();
    let mut size =
        |level| compress_at(algorithm, level, sample, &mut out).map(|used| used.unwrap_or(sample.len()));
    let most = size(requested)?;
    for level in quicker(algorithm).iter().copied().filter(|level| *level < requested) {
        if size(level)? <= most + most / PARTS {
            return Ok(level);
        }
    }
    Ok(requested)
}

/// Levels of a library that are tried, the quickest first.
const fn quicker(algorithm: Algorithm) -> &'static [i32] {
    match algorithm {
        Algorithm::Zstd => &[1, 3, 6, 10, 14],
        Algorithm::Zlib => &[2, 5, 7],
        Algorithm::Lz4 | Algorithm::Lzma => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of which the lowest `random` bits are random (a linear congruential generator).
    fn numbers(count: usize, random: u32) -> Vec<u32> {
        let mut state = 1_u64;
        let next = |i: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((i / 1000) as u32) << random | (state >> 33) as u32 & ((1 << random) - 1)
        };
        (0..count).map(next).collect()
    }

    /// All first bytes of numbers, then all second bytes, and so on.
    fn split(numbers: &[u32]) -> Vec<u8> {
        (0..4).flat_map(|byte| numbers.iter().map(move |n| n.to_le_bytes()[byte])).collect()
    }

    #[test]
    fn random_bits_are_not_searched() {
        let sample = split(&numbers(SAMPLE_SLOW / 4, 24));
        for level in 2..=9 {
            assert_eq!(choose(Algorithm::Zstd, 2 * level, &sample).unwrap(), 1, "{level}");
        }
    }

    #[test]
    fn repeats_are_searched() {
        // Phrases at random places, which only a long search finds again.
        let mut state = 1_u64;
        let mut text = Vec::new();
        let phrases = split(&numbers(20_000, 20));
        while text.len() < SAMPLE_SLOW {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let from = (state >> 40) as usize % (phrases.len() - 40);
            text.extend_from_slice(&phrases[from..from + 7 + (state >> 35) as usize % 20]);
        }
        let level = choose(Algorithm::Zstd, 18, &text).unwrap();
        assert!(level > 1, "{level}");
    }

    #[test]
    fn levels_are_chosen_once_in_a_while_from_the_middle() {
        let zstd = Compression::Level(Algorithm::Zstd, 5);
        let mut effort = Effort::default();
        assert!(!effort.is_due(zstd, FIRST - SMALLEST), "too small to gain");
        let mut asked = None;
        let sample = |range: Range<usize>| {
            asked = Some(range);
            Ok(split(&numbers(10_000, 24)).into())
        };
        effort.prepare(zstd, 2 * SAMPLE, sample).unwrap();
        assert_eq!((asked, effort.level(zstd)), (Some(SAMPLE / 2..3 * SAMPLE / 2), Some(1)));
        assert!(!effort.is_due(zstd, INTERVAL - SMALLEST));
        assert!(effort.is_due(zstd, SMALLEST));
        // Another setting has no level yet.
        let zlib = Compression::Level(Algorithm::Zlib, 6);
        assert_eq!(effort.level(zlib), None);
        assert!(effort.is_due(zlib, FIRST));
        assert!(!effort.is_due(Compression::None, usize::MAX));
        let quickest = Compression::Level(Algorithm::Zlib, 1);
        assert!(!Effort::default().is_due(quickest, usize::MAX));
    }

    #[test]
    fn a_page_is_hardly_larger_if_its_sample_is_at_most_one_percent_larger() {
        for random in [0, 4, 9, 14, 20, 28] {
            let numbers = numbers(200_000, random);
            let data = split(&numbers);
            for algorithm in [Algorithm::Zstd, Algorithm::Zlib] {
                for requested in [2, 5, 9].map(|level| algorithm.native_level(level)) {
                    let count = most_of_sample(algorithm, requested) / 4;
                    let level =
                        choose(algorithm, requested, &split(&numbers[80_000..80_000 + count])).unwrap();
                    let size = |level| {
                        let used = compress_at(algorithm, level, &data, &mut Vec::new()).unwrap();
                        used.unwrap_or(data.len())
                    };
                    let (quick, full) = (size(level), size(requested));
                    assert!(
                        quick <= full + full / 80,
                        "{random} {algorithm:?} {requested} {level}: {quick} {full}"
                    );
                }
            }
        }
    }
}
