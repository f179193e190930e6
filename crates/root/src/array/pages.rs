//! Large buffers on large pages.

#![allow(unsafe_code, reason = "madvise is advice: it changes no byte and no mapping, only how pages come")]

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

/// A buffer with room for `bytes`.
pub fn with_capacity(bytes: usize) -> Vec<u8> {
    let buffer = Vec::with_capacity(bytes);
    advise(&buffer);
    buffer
}

/// A buffer of zeros; the pages come when they are written.
pub fn zeroed(bytes: usize) -> Vec<u8> {
    let buffer = vec![0; bytes];
    advise(&buffer);
    buffer
}
