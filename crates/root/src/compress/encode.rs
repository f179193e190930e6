//! Compression.

use super::lz4hc::Tables;
use super::noise::is_noise;
use super::{HEADER, MAX_BLOCK};
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use std::cell::RefCell;
use twox_hash::XxHash64;

/// A codec; the numbers are those of the hundreds in `fCompress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Deflate with a zlib frame.
    Zlib,
    /// LZMA2 in an xz frame.
    Lzma,
    /// LZ4 blocks with a checksum.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Algorithm {
    /// The level of the codec's library for one of ROOT's levels.
    pub(super) fn native_level(self, level: u8) -> i32 {
        match self {
            // The library's level 1 makes larger files than ROOT's; its level 2 takes no longer.
            Self::Zlib => i32::from(level.clamp(2, 9)),
            Self::Zstd => 2 * i32::from(level.min(9)),
            Self::Lz4 => i32::from(level),
            Self::Lzma => i32::from(level.min(9)),
        }
    }
}

/// A codec and its level, or none at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Bytes are stored as they are.
    None,
    /// Level 1 (fast) to 9 (small); what a level means to its codec is as ROOT has it.
    Level(Algorithm, u8),
}

impl Compression {
    /// From ROOT's setting: algorithm × 100 + level; level 0 means no compression whatever the algorithm.
    pub fn from_code(code: u32) -> Result<Self> {
        let level = (code % 100) as u8;
        let algorithm = match code / 100 {
            _ if level == 0 => return Ok(Self::None),
            // 0 stands for ROOT's default algorithm, which is zlib.
            0 | 1 => Algorithm::Zlib,
            2 => Algorithm::Lzma,
            4 => Algorithm::Lz4,
            5 => Algorithm::Zstd,
            other => {
                return Err(Error::argument(format!(
                    "compression algorithm {other} is not one of 1, 2, 4, 5"
                )));
            }
        };
        // Larger levels exist for LZ4 (to 12) alone; the others read them as 9.
        if level > 12 {
            return Err(Error::argument(format!("compression level {level} is not within 0 to 12")));
        }
        Ok(Self::Level(algorithm, level))
    }
    /// ROOT's setting (`fCompress`).
    pub const fn code(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Level(algorithm, level) => {
                let hundreds = match algorithm {
                    Algorithm::Zlib => 100,
                    Algorithm::Lzma => 200,
                    Algorithm::Lz4 => 400,
                    Algorithm::Zstd => 500,
                };
                hundreds + level as u32
            }
        }
    }
}

/// Levels of LZ4 from this one on search longer (`LZ4_compress_HC`).
const LZ4_HIGH: i32 = 4;
/// Bytes of a block for these.
const LZ4_BLOCK: usize = 128 << 10;
/// Bytes that LZMA looks back at levels below 8.
const LZMA_DICTIONARY: u32 = 4 << 10;

/// More bytes than the library's compressor of zlib takes.
const ZLIB_BYTES: usize = 1 << 20;
/// The library's name of the error for a failed allocation.
const ZSTD_NO_MEMORY: &str = "Allocation error : not enough memory";

/// One thread's compressors, made when first needed: they are large, and setting them up takes longer than a block.
#[derive(Default)]
struct Contexts {
    zlib: Option<(i32, libdeflater::Compressor)>,
    zstd: Option<zstd_safe::CCtx<'static>>,
    lz4: Option<Tables>,
    noise: Vec<u32>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Compresses `from` into the start of `out`, which grows as needed and never shrinks, so that it can be used again.
///
/// Returns the number of bytes, or nothing if they would not be fewer than those of `from`; then it must be stored
/// as it is, which is how readers tell (`fObjlen` equals `fNbytes - fKeylen`).
pub fn compress(compression: Compression, from: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>> {
    match compression {
        Compression::None => Ok(None),
        Compression::Level(algorithm, level) => {
            compress_at(algorithm, algorithm.native_level(level), from, out)
        }
    }
}

/// As [`compress`], with a level of the codec's library.
pub fn compress_at(
    algorithm: Algorithm,
    level: i32,
    from: &[u8],
    out: &mut Vec<u8>,
) -> Result<Option<usize>> {
    let mut used = 0;
    for block in from.chunks(block_bytes(algorithm, level)) {
        let body = used + HEADER;
        let end = from.len().min(body + MAX_BLOCK);
        out.try_fill(end.saturating_sub(out.len()), 0)?;
        let Some(room) = out.get_mut(body..end) else { return Ok(None) };
        let packed =
            CONTEXTS.with_borrow_mut(|contexts| encode_block(contexts, algorithm, level, block, room))?;
        let Some(packed) = packed else { return Ok(None) };
        let name = match algorithm {
            Algorithm::Zlib => b"ZL\x08",
            Algorithm::Lzma => b"XZ\0",
            Algorithm::Lz4 => b"L4\x01",
            Algorithm::Zstd => b"ZS\x01",
        };
        let (packed_size, size) = ((packed as u32).to_le_bytes(), (block.len() as u32).to_le_bytes());
        let header = name.iter().chain(packed_size.iter().take(3)).chain(size.iter().take(3));
        for (to, from) in out.iter_mut().skip(used).zip(header) {
            *to = *from;
        }
        used = body + packed;
    }
    Ok((used < from.len()).then_some(used))
}

/// Bytes that are compressed as one block. LZ4's slower levels search through all that came before in the block, up to
/// 64 KiB: the shorter the block, the sooner they are done. A page of ROOT has 32 kB at first and up to 256 kB later.
fn block_bytes(algorithm: Algorithm, level: i32) -> usize {
    if algorithm == Algorithm::Lz4 && level >= LZ4_HIGH { LZ4_BLOCK } else { MAX_BLOCK }
}

/// Compresses one block; nothing if it does not fit into `room`.
fn encode_block(
    contexts: &mut Contexts,
    algorithm: Algorithm,
    level: i32,
    block: &[u8],
    room: &mut [u8],
) -> Result<Option<usize>> {
    match algorithm {
        Algorithm::Zlib => {
            if contexts.zlib.as_ref().is_none_or(|(known, _)| *known != level) {
                let made = libdeflater::CompressionLvl::new(level)
                    .map_err(|_| Error::argument(format!("zlib has no level {level}")))?;
                // It panics without memory.
                grow::with_room::<u8>(ZLIB_BYTES)?;
                contexts.zlib = Some((level, libdeflater::Compressor::new(made)));
            }
            // The one error there is means that the room is too small.
            Ok(contexts.zlib.as_mut().and_then(|(_, zlib)| zlib.zlib_compress(block, room).ok()))
        }
        Algorithm::Zstd => {
            if contexts.zstd.is_none() {
                contexts.zstd = zstd_safe::CCtx::try_create();
            }
            let no_memory = || Error::limit("zstd: no memory");
            let zstd = contexts.zstd.as_mut().ok_or_else(no_memory)?;
            match zstd.compress(room, block, level) {
                Ok(packed) => Ok(Some(packed)),
                Err(code) if zstd_safe::get_error_name(code) == ZSTD_NO_MEMORY => Err(no_memory()),
                // The room is too small.
                Err(_) => Ok(None),
            }
        }
        Algorithm::Lz4 => {
            let Some((sum, body)) = room.split_first_chunk_mut::<8>() else { return Ok(None) };
            let packed = if level < LZ4_HIGH || is_noise(block, &mut contexts.noise)? {
                let mode = lz4::block::CompressionMode::DEFAULT;
                lz4::block::compress_to_buffer(block, Some(mode), false, body).ok()
            } else {
                if contexts.lz4.is_none() {
                    contexts.lz4 = Some(Tables::new()?);
                }
                contexts.lz4.as_mut().and_then(|tables| tables.compress(block, body, level))
            };
            let Some(packed) = packed else { return Ok(None) };
            let data = body.get(..packed).unwrap_or_default();
            *sum = XxHash64::oneshot(0, data).to_be_bytes();
            Ok(Some(packed + 8))
        }
        Algorithm::Lzma => lzma(level.unsigned_abs(), block, room),
    }
}

fn lzma(level: u32, block: &[u8], room: &mut [u8]) -> Result<Option<usize>> {
    use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
    let fail = |e| Error::new(crate::ErrorKind::Limit, format!("lzma: {e}"));
    let mut options = LzmaOptions::new_preset(level).map_err(fail)?;
    // How far back it looks decides how long it takes. ROOT looks back a quarter of a page: 8 kB in those that a file
    // begins with, up to 64 kB later on.
    options.dict_size(if level < 8 { LZMA_DICTIONARY } else { (block.len() as u32 / 4).max(4096) });
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let mut stream = Stream::new_stream_encoder(&filters, Check::Crc32).map_err(fail)?;
    match stream.process(block, room, Action::Finish) {
        Ok(Status::StreamEnd) => Ok(Some(stream.total_out() as usize)),
        // The room is full.
        Ok(_) | Err(liblzma::stream::Error::MemLimit) => Ok(None),
        Err(e) => Err(fail(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::decode::decompress;

    const ALL: [Algorithm; 4] = [Algorithm::Zlib, Algorithm::Lzma, Algorithm::Lz4, Algorithm::Zstd];

    /// Bytes without a pattern (a linear congruential generator).
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn every_codec_and_level_comes_back() {
        let data: Vec<u8> = (0..100_000_u32).flat_map(|i| (i / 7).to_be_bytes()).collect();
        let mut out = Vec::new();
        for algorithm in ALL {
            for level in 1..=9 {
                let used = compress(Compression::Level(algorithm, level), &data, &mut out).unwrap().unwrap();
                assert!(used < data.len() / 2, "{algorithm:?} {level}: {used}");
                let mut back = vec![0; data.len()];
                decompress(&out[..used], &mut back).unwrap();
                assert_eq!(back, data, "{algorithm:?} {level}");
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        for algorithm in ALL {
            for data in [&noise(50_000)[..], b"", b"x", b"0123456789"] {
                let result = compress(Compression::Level(algorithm, 5), data, &mut Vec::new()).unwrap();
                assert_eq!(result, None, "{algorithm:?} {} bytes", data.len());
            }
        }
        assert_eq!(compress(Compression::None, &[0; 1000], &mut Vec::new()).unwrap(), None);
    }

    #[test]
    fn noise_among_the_rest_is_no_reason_to_give_up() {
        for algorithm in ALL {
            let data = [vec![7; 200_000], noise(200_000), vec![9; 200_000]].concat();
            let mut out = Vec::new();
            let used = compress(Compression::Level(algorithm, 5), &data, &mut out).unwrap().unwrap();
            assert!(used < 220_000, "{algorithm:?}: {used}");
            let mut back = vec![0; data.len()];
            decompress(&out[..used], &mut back).unwrap();
            assert!(back == data, "{algorithm:?}");
        }
    }

    #[test]
    fn over_16_mb_takes_several_blocks() {
        let mut data = vec![7; MAX_BLOCK];
        data.extend(noise(1000));
        data.extend(vec![9; MAX_BLOCK]);
        for algorithm in [Algorithm::Zlib, Algorithm::Lz4, Algorithm::Zstd] {
            let mut out = Vec::new();
            let used = compress(Compression::Level(algorithm, 1), &data, &mut out).unwrap().unwrap();
            let mut back = vec![0; data.len()];
            decompress(&out[..used], &mut back).unwrap();
            assert!(back == data, "{algorithm:?}");
        }
    }

    #[test]
    fn settings_have_roots_numbers() {
        for code in [101, 109, 207, 404, 412, 505] {
            assert_eq!(Compression::from_code(code).unwrap().code(), code);
        }
        assert_eq!(Compression::from_code(500).unwrap(), Compression::None);
        assert_eq!(Compression::from_code(1).unwrap().code(), 101);
        for code in [301, 601, 513] {
            assert!(Compression::from_code(code).is_err(), "{code}");
        }
    }
}
