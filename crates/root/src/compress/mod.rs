//! The block codecs.
//!
//! A compressed object is a row of blocks of at most 16 MB, each with nine bytes before it: two letters for the
//! algorithm, one for its version, three bytes each (little-endian) for the compressed and the original size
//! (`R__unzip`).

pub mod decode;
pub mod effort;
pub mod encode;
mod lz4hc;
mod noise;

/// Bytes before each block.
pub const HEADER: usize = 9;
/// Bytes that a block can hold before or after compression (`kMAXZIPBUF`).
pub const MAX_BLOCK: usize = 0x00ff_ffff;
