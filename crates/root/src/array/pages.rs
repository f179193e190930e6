//! Requests the memory pages of large buffers before values are written.
//!
//! Pages that are provided one by one, each through an interrupt at its first touch, cost more than decoding their
//! values. They are therefore requested many at a time. Large pages (2 MB) cost a fifth as much if the system has them
//! available. They cost ten times as much if the host of a virtual machine has taken their memory back. Each request
//! for large pages is therefore timed, and a slow one disables them for some seconds.

use std::mem::MaybeUninit;

/// Makes the system provide the pages of `values` in one request.
pub fn provide<T>(values: &mut [T]) {
    system::provide(values.as_ptr().addr(), size_of_val(values));
}

/// Allows the system to use large pages for a new buffer that will be filled.
pub fn allow_large(buffer: &mut [u8]) {
    system::allow_large(buffer.as_ptr().addr(), buffer.len());
}

/// Address range of memory that another thread will fill.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    start: usize,
    bytes: usize,
}

impl Room {
    /// The range of uninitialized values.
    pub fn of<T>(values: &[MaybeUninit<T>]) -> Self {
        Self { start: values.as_ptr().addr(), bytes: size_of_val(values) }
    }
    /// Makes the system provide the pages of a fraction of the range, while the other thread works.
    pub fn provide(self, from: f64, to: f64) {
        let place =
            |share: f64| (self.start + (self.bytes as f64 * share.clamp(0.0, 1.0)) as usize) & !(PAGE - 1);
        system::provide(place(from), place(to).saturating_sub(place(from)));
    }
}

const PAGE: usize = 4096;

#[cfg(not(target_os = "linux"))]
mod system {
    pub fn provide(_start: usize, _bytes: usize) {}
    pub fn allow_large(_start: usize, _bytes: usize) {}
}

#[cfg(target_os = "linux")]
mod system {
    use super::PAGE;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    /// Smaller ranges are provided page by page.
    const SMALLEST_PROVIDED: usize = 16 << 10;
    /// Minimum size of a range that is checked for being in memory already.
    const SMALLEST_CHECKED: usize = 64 << 10;
    /// Bytes of a large page.
    const LARGE: usize = 2 << 20;
    /// Minimum size of a buffer with large pages.
    const SMALLEST_LARGE: usize = 4 << 20;
    /// Pause of large pages after a slow request.
    const PAUSE: Duration = Duration::from_secs(10);
    /// Maximum processor time of a quick request; small pages of 2 MB take about 1 ms.
    const QUICK: Duration = Duration::from_micros(1500);

    /// Whether buffers may have large pages.
    static ALLOWED: AtomicBool = AtomicBool::new(false);
    /// End of the pause, in milliseconds since the first query.
    static PAUSED: AtomicU64 = AtomicU64::new(0);

    fn now() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as u64
    }

    fn paused() -> bool {
        let until = PAUSED.load(Ordering::Relaxed);
        until > 0 && now() < until
    }

    pub fn allow_large(start: usize, bytes: usize) {
        let first = start.next_multiple_of(LARGE);
        let end = (start + bytes) & !(LARGE - 1);
        if bytes >= SMALLEST_LARGE && first < end && !paused() {
            advise(first, end - first, libc::MADV_HUGEPAGE);
            ALLOWED.store(true, Ordering::Relaxed);
        }
    }

    pub fn provide(start: usize, bytes: usize) {
        if bytes < SMALLEST_PROVIDED || is_reused(start, bytes) {
            return;
        }
        let (mut start, end) = (start & !(PAGE - 1), start + bytes);
        if !ALLOWED.load(Ordering::Relaxed) {
            advise(start, end - start, libc::MADV_POPULATE_WRITE);
            return;
        }
        while start < end {
            let next = (start + 1).next_multiple_of(LARGE).min(end);
            if paused() {
                advise(start, next - start, libc::MADV_NOHUGEPAGE);
                advise(start, next - start, libc::MADV_POPULATE_WRITE);
            } else {
                let before = processor_time();
                advise(start, next - start, libc::MADV_POPULATE_WRITE);
                if processor_time().saturating_sub(before) > QUICK {
                    PAUSED.store(now() + PAUSE.as_millis() as u64, Ordering::Relaxed);
                }
            }
            start = next;
        }
    }

    /// Returns whether the middle page of a range is in memory: the range is part of a buffer that is used again.
    ///
    /// The pages at both ends do not tell: they may also hold values of the neighbours.
    pub(super) fn is_reused(start: usize, bytes: usize) -> bool {
        bytes >= SMALLEST_CHECKED && is_resident((start + bytes / 2) & !(PAGE - 1))
    }

    /// Returns whether the page at an address is in memory.
    #[allow(unsafe_code, reason = "a question to the system about memory")]
    pub(super) fn is_resident(page: usize) -> bool {
        let mut state = 0u8;
        // SAFETY: the system reads its own tables only, and writes one byte for one page. It refuses addresses where
        // nothing is mapped.
        let failed = unsafe { libc::mincore(std::ptr::without_provenance_mut(page), PAGE, &raw mut state) };
        failed == 0 && state & 1 == 1
    }

    #[allow(unsafe_code, reason = "advice to the system about memory")]
    fn advise(start: usize, bytes: usize, advice: libc::c_int) {
        // SAFETY: none of the advice changes the content of memory, whoever owns it by now. If nothing is mapped, or
        // the system does not know the advice, it is refused, and pages are provided at their first touch.
        unsafe {
            libc::madvise(std::ptr::without_provenance_mut(start), bytes, advice);
        }
    }

    /// Processor time of this thread; time when other threads have the processor does not count.
    #[allow(unsafe_code, reason = "a clock that the standard library does not offer")]
    fn processor_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes to the given location only.
        unsafe {
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        }
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn only_memory_that_was_not_used_before_is_requested() {
        // Larger than what the allocator keeps: fresh from the system, with no page of it in memory.
        let mut buffer: Vec<u8> = Vec::with_capacity(64 << 20);
        let room = Room::of(buffer.spare_capacity_mut());
        let (start, bytes) = (room.start.next_multiple_of(PAGE), 1 << 20);
        assert!(!system::is_reused(start, bytes));
        system::provide(start, bytes);
        for page in [start, start + bytes / 2, start + bytes - PAGE] {
            assert!(system::is_resident(page));
        }
        assert!(system::is_reused(start, bytes));
        // The page where one range ends and the next one begins does not make the next one count as used.
        let next = start + bytes - PAGE;
        assert!(!system::is_reused(next, bytes));
        system::provide(next, bytes);
        assert!(system::is_resident(next + bytes - PAGE));
    }
}
