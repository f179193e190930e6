//! LZ4's slower levels with tables that are set up once.
//!
//! The library's plain call sets 256 KiB of tables to zero for each block, four times the block itself.

#![allow(unsafe_code, reason = "calls of the C library that the lz4 crate links but does not declare")]

use crate::error::Result;
use crate::wire::grow;
use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC_fastReset(
        state: *mut c_void,
        from: *const c_char,
        to: *mut c_char,
        size: c_int,
        room: c_int,
        level: c_int,
    ) -> c_int;
}

/// The tables, of words so that they are aligned.
pub struct Tables(Vec<u64>);

impl Tables {
    /// Empty tables: the library's own are zeros, too.
    pub fn new() -> Result<Self> {
        // SAFETY: returns a number.
        let size = unsafe { LZ4_sizeofStateHC() };
        grow::filled((size.unsigned_abs() as usize).div_ceil(8), 0).map(Self)
    }

    /// Compresses `from` into the start of `to`; returns the number of bytes, or `None` if they do not fit.
    pub fn compress(&mut self, from: &[u8], to: &mut [u8], level: c_int) -> Option<usize> {
        let (size, room) = (c_int::try_from(from.len()).ok()?, c_int::try_from(to.len()).ok()?);
        // SAFETY: the tables are aligned, as large as the library asks, and as it left them; the other pointers are to
        // as many bytes as the numbers beside them say.
        let used = unsafe {
            LZ4_compress_HC_extStateHC_fastReset(
                self.0.as_mut_ptr().cast(),
                from.as_ptr().cast(),
                to.as_mut_ptr().cast(),
                size,
                room,
                level,
            )
        };
        usize::try_from(used).ok().filter(|used| *used > 0)
    }
}
