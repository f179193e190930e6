//! Large buffers on large pages.

#![allow(
    unsafe_code,
    reason = "madvise changes no byte and no mapping, only how pages come; zeroed memory that may be refused has no safe form"
)]

use crate::error::{Error, Result};
use std::alloc::Layout;

/// Below this size a buffer is left alone.
const LARGE: usize = 4 << 20;

/// Asks for large pages for memory that is about to be filled: faults on small ones cost as much as decoding.
pub fn advise(buffer: &Vec<u8>) {
    if buffer.capacity() < LARGE {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        let page = 4096usize;
        let start = (buffer.as_ptr() as usize).next_multiple_of(page);
        let end = (buffer.as_ptr() as usize + buffer.capacity()) / page * page;
        // SAFETY: the pages lie wholly inside the vector's own allocation; the advice does not touch their content. A
        // kernel that knows nothing of it says so, which is as good.
        unsafe { libc::madvise(start as *mut libc::c_void, end.saturating_sub(start), libc::MADV_HUGEPAGE) };
    }
}

/// A buffer with room for `bytes`, or for none when there is no memory for that many.
pub fn with_capacity(bytes: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    if buffer.try_reserve_exact(bytes).is_ok() {
        advise(&buffer);
    }
    buffer
}

/// A buffer of zeros; the pages come when they are written.
pub fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    let refused = || Error::limit(format!("no memory for a column of {bytes} bytes"));
    let layout = Layout::array::<u8>(bytes).map_err(|_| refused())?;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout has a size above zero; the vector gets memory of the global allocator with the layout that
    // a vector of that capacity has, all of it initialized to zero.
    let buffer = unsafe {
        let start = std::alloc::alloc_zeroed(layout);
        if start.is_null() {
            return Err(refused());
        }
        Vec::from_raw_parts(start, bytes, bytes)
    };
    advise(&buffer);
    Ok(buffer)
}
