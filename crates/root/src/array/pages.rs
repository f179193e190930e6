//! Requests the memory pages of large buffers before values are written.
//!
//! Pages that are provided one by one, each through an interrupt at its first touch, cost more than decoding their
//! values. They are therefore requested many at a time. A large page (2 MB) costs a seventh of its small pages if the
//! system has it available. It costs seven times as much if the host of a virtual machine has taken the memory back.
//! [`LargePages`] finds out which is the case.
//!
//! Most columns are smaller than a large page. The buffers of a reading are adjacent in memory, so that they share large
//! pages: each one is requested for all columns in it.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a small page.
const PAGE: usize = 4096;
/// Bytes of a large page.
const LARGE: usize = 2 << 20;
/// Smaller ranges are provided page by page.
const SMALLEST_PROVIDED: usize = 16 << 10;
/// Minimum size of a range that is checked for being in memory already.
const SMALLEST_CHECKED: usize = 64 << 10;
/// A reading with a buffer of this size tries a large page: a million numbers of 32 bits.
const TRIED: usize = 3500 << 10;
/// Otherwise one is tried for this many bytes of small pages, on a virtual machine: they take fifty times as long as
/// a slow large page, with the decoding of their values.
const TRIED_VIRTUAL: usize = 512 << 20;
/// The same on a machine without a host.
const TRIED_REAL: usize = 16 << 20;
/// The spare room of growing buffers is one part in this many, an eighth of the rest. It has no large pages, because
/// large pages would be in memory although nothing uses them.
const SPARE: usize = 9;
/// Pause of large pages after a slow request.
const PAUSE: Duration = Duration::from_secs(10);
/// Maximum processor time of a quick request; small pages of 2 MB take 0.6 to 1 ms.
const QUICK: Duration = Duration::from_micros(1500);
/// Time for which a quick request shows that others are quick.
const TRUSTED: Duration = Duration::from_secs(2);

/// The present knowledge about large pages.
static STATE: State = State { paused: AtomicU64::new(0), quick: AtomicU64::new(0), small: AtomicU64::new(0) };

/// Whether buffers may have large pages that were not requested at once.
static GROWING: AtomicBool = AtomicBool::new(false);

struct State {
    /// End of the pause, in milliseconds since the first query.
    paused: AtomicU64,
    /// End of the time in which they are quick, in milliseconds since the first query.
    quick: AtomicU64,
    /// Bytes of the buffers with small pages since the last trial.
    small: AtomicU64,
}

impl State {
    fn is_before(end: &AtomicU64) -> bool {
        let until = end.load(Ordering::Relaxed);
        until > 0 && now() < until
    }
    fn is_paused(&self) -> bool {
        Self::is_before(&self.paused)
    }
    fn is_quick(&self) -> bool {
        Self::is_before(&self.quick)
    }
    /// Records the processor time of a request.
    fn took(&self, time: Duration) {
        if time > QUICK {
            self.paused.store(now() + PAUSE.as_millis() as u64, Ordering::Relaxed);
        }
    }
    /// Records that of the request for a large page.
    fn took_large(&self, time: Duration) {
        self.took(time);
        if time <= QUICK {
            self.quick.store(now() + TRUSTED.as_millis() as u64, Ordering::Relaxed);
        }
    }
    /// Whether a trial is worth its time, for buffers of this many bytes.
    fn may_try(&self, largest: usize, all: usize) -> bool {
        let small = self.small.fetch_add(all as u64, Ordering::Relaxed) + all as u64;
        let wanted = if system::is_virtual() { TRIED_VIRTUAL } else { TRIED_REAL };
        let may = largest >= TRIED || small >= wanted as u64;
        if may {
            self.small.store(0, Ordering::Relaxed);
        }
        may
    }
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Makes the system provide the pages of `values` in one request.
pub fn provide<T>(values: &mut [T]) {
    provide_range(values.as_ptr().addr(), size_of_val(values));
}

fn provide_range(start: usize, bytes: usize) {
    if bytes < SMALLEST_PROVIDED || is_reused(start, bytes) {
        return;
    }
    let (mut start, end) = (start & !(PAGE - 1), start + bytes);
    if !GROWING.load(Ordering::Relaxed) {
        system::request(start, end - start);
        return;
    }
    while start < end {
        let next = (start + 1).next_multiple_of(LARGE).min(end);
        if STATE.is_paused() {
            system::refuse_large(start, next - start);
            system::request(start, next - start);
        } else {
            STATE.took(system::timed_request(start, next - start));
        }
        start = next;
    }
}

/// Returns whether the middle page of a range is in memory: the range is part of a buffer that is used again, or of a
/// large page.
///
/// The pages at both ends do not show this: they may also hold values of the neighbours.
fn is_reused(start: usize, bytes: usize) -> bool {
    bytes >= SMALLEST_CHECKED && system::is_resident((start + bytes / 2) & !(PAGE - 1))
}

/// Address range of memory that will be filled.
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
    /// The range of the bytes of a buffer.
    pub fn filled(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr().addr(), bytes: bytes.len() }
    }
    /// Number of bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
    /// Makes the system provide the pages of a fraction of the range, while another thread works.
    pub fn provide(self, from: f64, to: f64) {
        let place =
            |share: f64| (self.start + (self.bytes as f64 * share.clamp(0.0, 1.0)) as usize) & !(PAGE - 1);
        provide_range(place(from), place(to).saturating_sub(place(from)));
    }
    fn first_page(&self) -> usize {
        self.start & !(PAGE - 1)
    }
    fn end_page(&self) -> usize {
        self.start.saturating_add(self.bytes).next_multiple_of(PAGE)
    }
}

/// The large pages of new buffers that will be filled; none if these are slow.
pub struct LargePages {
    /// Addresses of neighbouring buffers, each with its end.
    ranges: Vec<(usize, usize)>,
    /// Addresses of the pages.
    pages: Vec<usize>,
}

impl LargePages {
    /// Finds the large pages of new buffers that will be filled, and of others that will grow if they are new. The first
    /// page is requested if it is not known how long that takes.
    #[must_use]
    pub fn of(mut filled: Vec<Room>, growing: &[Room]) -> Self {
        let none = Self { ranges: Vec::new(), pages: Vec::new() };
        let largest = filled.iter().map(|room| room.bytes).max().unwrap_or(0);
        filled.sort_unstable_by_key(|room| room.start);
        let growing = growing.iter().filter(|room| !is_reused(room.start, room.bytes));
        let growing = growing.map(|room| Room { bytes: room.bytes - room.bytes / SPARE, ..*room });
        let all_rooms: Vec<Room> = filled.iter().copied().chain(growing).collect();
        let grows = all_rooms.len() > filled.len();
        let mut ranges = together(all_rooms);
        ranges.retain(|&(start, end)| start.next_multiple_of(LARGE) + LARGE <= end);
        let mut pages: Vec<usize> = ranges.iter().flat_map(large_in).collect();
        let all = pages.len() * LARGE;
        pages.retain(|&page| {
            let next = filled.get(filled.partition_point(|room| room.end_page() <= page));
            next.is_some_and(|room| room.start < page + LARGE)
        });
        let first = pages.first().or_else(|| ranges.first().map(|(start, _)| start)).copied();
        let Some(first) = first.filter(|_| !STATE.is_paused()) else { return none };
        if !STATE.is_quick() {
            if !STATE.may_try(largest, all) {
                return none;
            }
            let first = first.next_multiple_of(LARGE);
            system::allow_large(first, LARGE);
            STATE.took_large(system::timed_request(first, LARGE));
            if STATE.is_paused() {
                return none;
            }
        }
        for &(start, end) in &ranges {
            system::allow_large(start, end - start);
        }
        GROWING.fetch_or(grows, Ordering::Relaxed);
        Self { ranges, pages }
    }
    /// The addresses of those that will be filled, for [`Self::request`].
    #[must_use]
    pub fn addresses(&self) -> &[usize] {
        &self.pages
    }
    /// Makes the system provide one of them, unless another one was slow.
    pub fn request(&self, page: usize) {
        if !STATE.is_paused() {
            STATE.took_large(system::timed_request(page, LARGE));
        }
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        if STATE.is_paused() {
            for &(start, end) in &self.ranges {
                system::refuse_large(start, end - start);
            }
        }
    }
}

/// Returns the addresses of the large pages that lie in a range.
fn large_in(&(start, end): &(usize, usize)) -> impl Iterator<Item = usize> + use<> {
    (start.next_multiple_of(LARGE)..(end & !(LARGE - 1))).step_by(LARGE)
}

/// Returns the address ranges of the pages of neighbouring buffers, each with its end.
fn together(mut rooms: Vec<Room>) -> Vec<(usize, usize)> {
    rooms.sort_unstable_by_key(|room| room.start);
    let touch = |a: &Room, b: &Room| b.first_page() <= a.end_page();
    let range = |rooms: &[Room]| Some((rooms.first()?.first_page(), rooms.last()?.end_page()));
    rooms.chunk_by(touch).filter_map(range).collect()
}

// Miri does not know these calls.
#[cfg(any(not(target_os = "linux"), miri))]
mod system {
    use std::time::Duration;
    pub fn request(_start: usize, _bytes: usize) {}
    pub fn timed_request(_start: usize, _bytes: usize) -> Duration {
        Duration::MAX
    }
    pub fn allow_large(_start: usize, _bytes: usize) {}
    pub fn refuse_large(_start: usize, _bytes: usize) {}
    pub fn is_resident(_page: usize) -> bool {
        false
    }
    pub fn is_virtual() -> bool {
        true
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use super::PAGE;
    use std::time::Duration;

    /// Makes the system provide pages.
    pub fn request(start: usize, bytes: usize) {
        advise(start, bytes, libc::MADV_POPULATE_WRITE);
    }

    /// The same; returns the processor time that it took.
    pub fn timed_request(start: usize, bytes: usize) -> Duration {
        let before = processor_time();
        request(start, bytes);
        processor_time().saturating_sub(before)
    }

    pub fn allow_large(start: usize, bytes: usize) {
        advise(start, bytes, libc::MADV_HUGEPAGE);
    }

    pub fn refuse_large(start: usize, bytes: usize) {
        advise(start, bytes, libc::MADV_NOHUGEPAGE);
    }

    /// Returns whether the page at an address is in memory.
    #[allow(unsafe_code, reason = "a question to the system about memory")]
    pub fn is_resident(page: usize) -> bool {
        let mut state = 0u8;
        // SAFETY: the system reads its own tables only, and writes one byte for one page. It refuses addresses where
        // nothing is mapped.
        let failed = unsafe { libc::mincore(std::ptr::without_provenance_mut(page), PAGE, &raw mut state) };
        failed == 0 && state & 1 == 1
    }

    /// Returns whether the machine may have a host that takes memory back: bit 31 of ECX after function 1 of `cpuid`.
    pub fn is_virtual() -> bool {
        #[cfg(target_arch = "x86_64")]
        return core::arch::x86_64::__cpuid(1).ecx >> 31 == 1;
        #[cfg(not(target_arch = "x86_64"))]
        true
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
        assert!(!is_reused(start, bytes));
        provide_range(start, bytes);
        for page in [start, start + bytes / 2, start + bytes - PAGE] {
            assert!(system::is_resident(page));
        }
        assert!(is_reused(start, bytes));
        // The page where one range ends and the next one begins does not make the next one count as used.
        let next = start + bytes - PAGE;
        assert!(!is_reused(next, bytes));
        provide_range(next, bytes);
        assert!(system::is_resident(next + bytes - PAGE));
    }

    /// Tests that change the knowledge about large pages take turns.
    fn alone() -> std::sync::MutexGuard<'static, ()> {
        static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let guard = sapwood_io::lock(&ALONE);
        for time in [&STATE.paused, &STATE.quick, &STATE.small] {
            time.store(0, Ordering::Relaxed);
        }
        guard
    }

    /// Whether all of a range may have large pages.
    fn is_advised(start: usize, bytes: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let mut inside = false;
        maps.lines().any(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let address = |word: &str| usize::from_str_radix(word, 16).ok();
            if let Some((from, to)) = range.and_then(|(from, to)| address(from).zip(address(to))) {
                inside = from <= start && start + bytes <= to;
            }
            inside && line.starts_with("VmFlags:") && line.contains(" hg")
        })
    }

    /// New memory: its first large page, and `count` neighbouring buffers in it of three quarters of a large page.
    fn neighbours(memory: &mut Vec<u8>, count: usize) -> (usize, Vec<Room>) {
        let start = Room::of(memory.spare_capacity_mut()).start.next_multiple_of(LARGE);
        let bytes = 3 * LARGE / 4;
        (start, (0..count).map(|number| Room { start: start + number * bytes, bytes }).collect())
    }

    #[test]
    fn adjacent_buffers_are_one_range() {
        let room = |start: usize, bytes: usize| Room { start: PAGE * start + 8, bytes };
        let rooms = vec![room(10, PAGE), room(1, PAGE), room(3, 3 * PAGE - 8), room(20, 8)];
        assert_eq!(together(rooms), [(1, 6), (10, 12), (20, 21)].map(|(a, b)| (a * PAGE, b * PAGE)));
    }

    #[test]
    fn buffers_share_large_pages_that_are_quick() {
        let _alone = alone();
        STATE.took_large(Duration::from_micros(90));
        let mut memory: Vec<u8> = Vec::with_capacity(64 << 20);
        let (start, mut rooms) = neighbours(&mut memory, 6);
        // The last one grows: pages that it alone has are not requested.
        let mut growing = rooms.split_off(5);
        growing.iter_mut().for_each(|room| room.bytes = 3 * LARGE);
        let large = LargePages::of(rooms, &growing);
        assert_eq!(large.addresses(), [0, 1, 2, 3].map(|page| start + page * LARGE));
        assert!(is_advised(start, 25 * LARGE / 4) && !is_advised(start, 13 * LARGE / 2));
        large.request(start + LARGE);
        assert!(system::is_resident(start + LARGE) && system::is_resident(start + 2 * LARGE - PAGE));
        assert!(!system::is_resident(start + 9 * LARGE / 2));
    }

    #[test]
    fn after_a_slow_large_page_there_are_only_small_ones() {
        let _alone = alone();
        STATE.took_large(Duration::from_micros(90));
        let mut memory: Vec<u8> = Vec::with_capacity(64 << 20);
        let (start, rooms) = neighbours(&mut memory, 4);
        let large = LargePages::of(rooms.clone(), &[]);
        STATE.took_large(Duration::from_millis(5));
        large.request(start + LARGE);
        assert!(!system::is_resident(start + LARGE));
        drop(large);
        assert!(!is_advised(start, PAGE));
        assert!(LargePages::of(rooms, &[]).addresses().is_empty());
    }

    #[test]
    fn a_trial_waits_until_it_is_worth_its_time() {
        let state = State { paused: AtomicU64::new(0), quick: AtomicU64::new(0), small: AtomicU64::new(0) };
        assert!(state.may_try(TRIED, TRIED));
        assert!(!state.may_try(TRIED - 1, TRIED_REAL - 1));
        let times = 2 * TRIED_VIRTUAL / (TRIED_REAL - 1);
        let tried = (0..times).filter(|_| state.may_try(0, TRIED_REAL - 1)).count();
        assert_eq!(tried, if system::is_virtual() { 1 } else { times / 2 });
    }
}
