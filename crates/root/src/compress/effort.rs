//! How hard a codec searches.
//!
//! A higher level makes a codec search longer for repeated bytes. In numbers with many random bits there is little to
//! find: a level of Zstandard that takes an eighth of the time often makes pages that are less than 1 % larger. A
//! writer therefore compresses a sample of each column at several levels, and uses the quickest level whose result is
//! not notably larger than that of the requested level.

use super::encode::{Algorithm, Compression, compress, compress_at};
use crate::error::Result;

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

    /// Maximum bytes of a sample.
    pub fn sample(compression: Compression) -> usize {
        match compression {
            Compression::Level(Algorithm::Zstd, level) if Algorithm::Zstd.native_level(level) >= SLOW => {
                SAMPLE_SLOW
            }
            _ => SAMPLE,
        }
    }

    /// Counts bytes that are about to be compressed. Returns whether to [measure](Self::measure) a sample first.
    pub fn is_due(&mut self, compression: Compression, bytes: usize) -> bool {
        let Compression::Level(algorithm, level) = compression else { return false };
        if level == 1 || quicker(algorithm).is_empty() {
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let due = if self.level(compression).is_some() { INTERVAL } else { FIRST };
        self.bytes >= due && bytes >= SMALLEST
    }

    /// Compresses a sample at the requested level and at quicker ones, and chooses one for the next pages.
    pub fn measure(&mut self, compression: Compression, sample: &[u8]) -> Result<()> {
        let Compression::Level(algorithm, level) = compression else { return Ok(()) };
        self.bytes = 0;
        let requested = algorithm.native_level(level);
        let mut out = Vec::new();
        let mut size = |level| -> Result<usize> {
            Ok(compress_at(algorithm, level, sample, &mut out)?.unwrap_or(sample.len()))
        };
        let most = size(requested)?;
        let mut chosen = requested;
        for other in quicker(algorithm).iter().copied().filter(|other| *other < requested) {
            if size(other)? <= most + most / PARTS {
                chosen = other;
                break;
            }
        }
        self.measured = Some((compression, chosen));
        Ok(())
    }
}

/// Levels of a library from the quickest on, each about twice as quick as the next.
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

    fn chosen(compression: Compression, data: &[u8]) -> Option<i32> {
        let mut effort = Effort::default();
        assert!(effort.is_due(compression, FIRST));
        effort.measure(compression, &data[..data.len().min(Effort::sample(compression))]).unwrap();
        effort.level(compression)
    }

    #[test]
    fn random_bits_are_not_searched() {
        for level in 2..=9 {
            let zstd = Compression::Level(Algorithm::Zstd, level);
            assert_eq!(chosen(zstd, &split(&numbers(SAMPLE_SLOW / 4, 24))), Some(1), "{level}");
        }
    }

    #[test]
    fn the_requested_level_stays_where_it_makes_pages_smaller() {
        // Text: phrases at random places, which only a long search finds again.
        let mut state = 1_u64;
        let mut text = Vec::new();
        let phrases = split(&numbers(20_000, 20));
        while text.len() < 2 * SAMPLE_SLOW {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let from = (state >> 40) as usize % (phrases.len() - 40);
            text.extend_from_slice(&phrases[from..from + 7 + (state >> 35) as usize % 20]);
        }
        let zstd = Compression::Level(Algorithm::Zstd, 9);
        let level = chosen(zstd, &text).unwrap();
        let size = |level| {
            compress_at(Algorithm::Zstd, level, &text[..SAMPLE_SLOW], &mut Vec::new()).unwrap().unwrap()
        };
        assert!(level > 1, "{level}");
        assert!(size(level) <= size(18) + size(18) / PARTS);
    }

    #[test]
    fn columns_are_measured_once_in_a_while() {
        let zstd = Compression::Level(Algorithm::Zstd, 5);
        let mut effort = Effort::default();
        assert!(!effort.is_due(zstd, FIRST - SMALLEST), "too small to gain");
        assert!(effort.is_due(zstd, SMALLEST), "large enough together");
        effort.measure(zstd, &split(&numbers(10_000, 24))).unwrap();
        assert!(!effort.is_due(zstd, INTERVAL - SMALLEST));
        assert!(effort.is_due(zstd, SMALLEST));
        // Another setting has no level yet.
        let zlib = Compression::Level(Algorithm::Zlib, 6);
        assert_eq!(effort.level(zlib), None);
        assert!(effort.is_due(zlib, FIRST));
        assert!(!effort.is_due(Compression::None, usize::MAX));
        assert!(
            !Effort::default().is_due(Compression::Level(Algorithm::Zlib, 1), usize::MAX),
            "the quickest level"
        );
    }

    #[test]
    fn pages_are_at_most_one_percent_larger() {
        for random in [0, 4, 9, 14, 20, 28] {
            let numbers = numbers(200_000, random);
            let data = split(&numbers);
            for level in [2, 5, 9] {
                for algorithm in [Algorithm::Zstd, Algorithm::Zlib] {
                    let compression = Compression::Level(algorithm, level);
                    let full = compress(compression, &data, &mut Vec::new()).unwrap().unwrap_or(data.len());
                    let mut effort = Effort::default();
                    let sample = &numbers[80_000..80_000 + Effort::sample(compression) / 4];
                    effort.measure(compression, &split(sample)).unwrap();
                    let level = effort.level(compression).unwrap();
                    let quick =
                        compress_at(algorithm, level, &data, &mut Vec::new()).unwrap().unwrap_or(data.len());
                    assert!(quick <= full + full / 80, "{random} {compression:?} {level}: {quick} {full}");
                }
            }
        }
    }
}
