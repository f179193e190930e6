//! Reuse of large buffers.
//!
//! The system zeroes memory page by page at its first touch, which costs as much as decoding. Unused buffers of columns
//! (after a step of an iteration, or when Python frees an array) are therefore kept for reuse: for some seconds and up
//! to [`set_most_kept`] bytes, or all of them during a [`Hold`]. Kept buffers and buffers in use together never exceed
//! the maximum that was in use at once.

use super::pages::{LargePages, Room};
use crate::error::{Error, Result};
use arrow_buffer::{ArrowNativeType, Buffer, ToByteSlice};
use bytes::Bytes;
use sapwood_io::{PerProcess, lock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of bytes kept, unless there is a [`Hold`].
static KEEP: AtomicUsize = AtomicUsize::new(256 << 20);
/// Time that an unused buffer is kept.
const KEPT_FOR: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 3000 });
/// If fewer bytes are kept, old buffers are freed at the next use of the pool. Otherwise a thread frees them; it runs
/// as long as any are kept.
const WATCHED: usize = 4 << 20;
/// Smaller buffers are left to the allocator.
pub const SMALLEST: usize = 64 << 10;
/// Maximum ratio of a kept buffer to the requested size, because its new owner may hold it for long.
const WASTE: usize = 2;
/// The same during a [`Hold`].
const HELD_WASTE: usize = 4;
/// A kept buffer that lacks at most this part of the requested size grows.
const SHORT: usize = 9;
/// Ratio of a kept buffer's size to the missing room above which other buffers, if any, are removed instead of it.
const MANY_TIMES: usize = 4;

/// A buffer of bytes, or of numbers if these need alignment.
enum Memory {
    Bytes(Vec<u8>),
    Rows(Vec<u32>),
    Words(Vec<i64>),
}

impl Memory {
    /// Capacity in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Bytes(buffer) => room(buffer),
            Self::Rows(buffer) => room(buffer),
            Self::Words(buffer) => room(buffer),
        }
    }
}

/// Element type of buffers.
pub trait Item: Copy + Sized {
    #[allow(private_interfaces, reason = "no other crate makes buffers of its own kind")]
    /// Wraps a buffer of this type.
    fn wrap(buffer: Vec<Self>) -> Memory;
    #[allow(private_interfaces, reason = "as above")]
    /// Returns a buffer of this type.
    fn of(memory: Memory) -> Option<Vec<Self>>;
    #[allow(private_interfaces, reason = "as above")]
    /// Whether the buffer is of this type.
    fn is(memory: &Memory) -> bool;
}

macro_rules! items {
    ($($type:ty: $kind:ident),*) => {$(
        #[allow(private_interfaces, reason = "as in the trait")]
        impl Item for $type {
            fn wrap(buffer: Vec<Self>) -> Memory {
                Memory::$kind(buffer)
            }
            fn of(memory: Memory) -> Option<Vec<Self>> {
                if let Memory::$kind(buffer) = memory { Some(buffer) } else { None }
            }
            fn is(memory: &Memory) -> bool {
                matches!(memory, Memory::$kind(_))
            }
        }
    )*};
}
items!(u8: Bytes, u32: Rows, i64: Words);

/// Capacity of a buffer in bytes.
fn room<T>(buffer: &Vec<T>) -> usize {
    buffer.capacity() * size_of::<T>()
}

#[derive(Default)]
struct Pool {
    /// Kept buffers, oldest first, with their times of arrival.
    buffers: Vec<(Instant, Memory)>,
    /// Bytes of the kept buffers.
    kept: usize,
    /// Approximate bytes of lent buffers being filled: buffers may grow, or be dropped elsewhere.
    filling: usize,
    /// Bytes of finished buffers in use.
    shared: usize,
    /// Maximum of the sum of both.
    most: usize,
    holds: usize,
    /// Whether a thread frees old buffers.
    watched: bool,
}

/// Sets the maximum number of bytes of freed buffers to keep; returns the previous one.
pub fn set_most_kept(bytes: usize) -> usize {
    let before = KEEP.swap(bytes, Ordering::Relaxed);
    let gone = pool().make_room(0);
    drop(gone);
    before
}

/// Maximum number of bytes of freed buffers to keep.
pub fn most_kept() -> usize {
    KEEP.load(Ordering::Relaxed)
}

/// Bytes of freed buffers kept now.
pub fn kept() -> usize {
    pool().kept
}

fn pool() -> MutexGuard<'static, Pool> {
    static POOL: PerProcess<Mutex<Pool>> = PerProcess::empty();
    lock(POOL.get(|_| Mutex::default()))
}

impl Pool {
    fn lent(&self) -> usize {
        self.filling + self.shared
    }
    /// Counts a lent buffer; returns the buffers to drop for it.
    #[must_use]
    fn lend(&mut self, size: usize) -> Vec<Memory> {
        self.filling += size;
        self.most = self.most.max(self.lent());
        self.make_room(0)
    }
    /// Maximum number of bytes to keep.
    fn limit(&self) -> usize {
        let room = self.most.saturating_sub(self.lent());
        if self.holds > 0 { room } else { room.min(most_kept()) }
    }
    /// Removes buffers until `more` bytes can be kept, too. The caller drops them outside the lock of the pool.
    ///
    /// The oldest go first, because sizes change slowly from step to step. A buffer of many times the size that is needed
    /// is only removed if there are no others: a small read would otherwise cost the next large one its memory.
    #[must_use]
    fn make_room(&mut self, more: usize) -> Vec<Memory> {
        let mut excess = (self.kept + more).saturating_sub(self.limit());
        let mut gone = Vec::new();
        for largest in [excess.saturating_mul(MANY_TIMES), usize::MAX] {
            let goes = |(_, buffer): &mut (Instant, Memory)| {
                let goes = excess > 0 && buffer.size() <= largest;
                excess = excess.saturating_sub(if goes { buffer.size() } else { 0 });
                goes
            };
            gone.extend(self.buffers.extract_if(.., goes).map(|(_, buffer)| buffer));
        }
        self.kept -= gone.iter().map(Memory::size).sum::<usize>();
        gone
    }
    /// Removes buffers that arrived before a given time, unless there is a [`Hold`].
    #[must_use]
    fn sweep(&mut self, before: Option<Instant>) -> Vec<Memory> {
        let Some(before) = before.filter(|_| self.holds == 0) else { return Vec::new() };
        let count = self.buffers.iter().take_while(|(since, _)| *since < before).count();
        self.let_go(count)
    }
    /// Removes the oldest buffers.
    fn let_go(&mut self, count: usize) -> Vec<Memory> {
        let gone: Vec<Memory> = self.buffers.drain(..count).map(|(_, buffer)| buffer).collect();
        self.kept -= gone.iter().map(Memory::size).sum::<usize>();
        gone
    }
    /// Keeps a buffer if the limit allows; returns the buffers to drop.
    #[must_use]
    fn keep(&mut self, buffer: Memory) -> Vec<Memory> {
        let size = buffer.size();
        let now = Instant::now();
        let mut gone = self.sweep(now.checked_sub(KEPT_FOR));
        gone.extend(self.make_room(size));
        if self.kept + size <= self.limit() {
            self.kept += size;
            self.buffers.push((now, buffer));
        } else {
            gone.push(buffer);
        }
        gone
    }
}

/// Keeps a buffer that `uncount` subtracts from the counts, if the limit allows.
fn keep(buffer: Memory, uncount: impl FnOnce(&mut Pool, usize)) {
    let mut pool = pool();
    uncount(&mut pool, buffer.size());
    let gone = pool.keep(buffer);
    let watch = pool.kept >= WATCHED && !pool.watched;
    pool.watched |= watch;
    drop(pool);
    drop(gone);
    if watch {
        let started = thread::Builder::new().name("sapwood-memory".to_owned()).spawn(give_back_old);
        // Without the thread, buffers are freed at the next use of the pool.
        self::pool().watched = started.is_ok();
    }
}

/// Frees buffers that were unused for long, until none are left.
fn give_back_old() {
    loop {
        thread::sleep(KEPT_FOR);
        let mut pool = pool();
        let gone = pool.sweep(Instant::now().checked_sub(KEPT_FOR));
        let done = pool.buffers.is_empty();
        pool.watched = !done;
        drop(pool);
        drop(gone);
        if done {
            return;
        }
    }
}

/// While a hold exists, all unused buffers are kept for reuse, up to the maximum in use at once since the first hold.
pub struct Hold(());

impl Hold {
    /// Creates a hold, which lasts until it is dropped.
    #[must_use]
    pub fn new() -> Self {
        let mut pool = pool();
        if pool.holds == 0 {
            pool.most = pool.lent() + pool.kept;
        }
        pool.holds += 1;
        Self(())
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut pool = pool();
        pool.holds = pool.holds.saturating_sub(1);
        let gone = pool.make_room(0);
        drop(pool);
        drop(gone);
    }
}

/// Returns an empty buffer with room for this many items, or with less room if there is not enough memory.
pub fn with_capacity<T: Item>(items: usize) -> Vec<T> {
    let bytes = items.saturating_mul(size_of::<T>());
    let mut buffer: Vec<T> = take(bytes, bytes);
    buffer.clear();
    if buffer.capacity() < items {
        // A failed reservation is not an error here: the estimate may be too large, and growing reports its own
        // failure.
        let _ = buffer.try_reserve_exact(roomy(bytes) / size_of::<T>());
        count(&buffer);
    }
    buffer
}

/// Rounds the likely size of a growing buffer up, so that it can be reused if the next step needs a little more.
/// Untouched pages cost nothing.
fn roomy(bytes: usize) -> usize {
    if bytes < SMALLEST { bytes } else { bytes.saturating_add(bytes / 8) }
}

/// Bytes to be overwritten. They return to the pool unless they are shared.
pub struct Filled {
    /// May be longer: clearing the end of a reused buffer would be wasted work.
    buffer: Vec<u8>,
    bytes: usize,
    /// First byte, after those that place it at a boundary.
    start: usize,
    /// Whether its memory was not used before.
    fresh: bool,
}

/// Boundary of [`Filled::aligned`]: JAX copies arrays once more if they start at other addresses.
const BOUNDARY: usize = 64;

impl Filled {
    /// Creates a buffer of this many bytes.
    pub fn new(bytes: usize) -> Result<Self> {
        let filled = Self::among_others(bytes)?;
        let large = LargePages::of(filled.room().into_iter().collect(), &[]);
        large.addresses().iter().for_each(|&page| large.request(page));
        Ok(filled)
    }
    /// Creates a buffer of this many bytes, whose byte at `place` is at an address divisible by 64.
    pub fn aligned(bytes: usize, place: usize) -> Result<Self> {
        let mut filled = Self::new(bytes.saturating_add(BOUNDARY))?;
        let address = filled.buffer.as_ptr().addr().wrapping_add(place);
        (filled.start, filled.bytes) = (address.wrapping_neg() % BOUNDARY, bytes);
        Ok(filled)
    }
    /// Creates one of several buffers that share [`LargePages`].
    ///
    /// It has no spare room for a larger step, because with large pages that would be in memory. The next step grows it
    /// instead: the allocator of the Python module moves its pages, and only those of the new end are fresh.
    pub fn among_others(bytes: usize) -> Result<Self> {
        let mut buffer = take(bytes, bytes - bytes / SHORT);
        let fresh = buffer.capacity() == 0;
        if fresh {
            buffer = zeroed(bytes)?;
            count(&buffer);
        } else if buffer.len() < bytes {
            buffer = grown(buffer, bytes)?;
            buffer.resize(bytes, 0);
        }
        Ok(Self { buffer, bytes, start: 0, fresh })
    }
    /// Its memory, if that was not used before and is not left to the allocator.
    pub fn room(&self) -> Option<Room> {
        (self.fresh && room(&self.buffer) >= SMALLEST).then(|| Room::filled(&self.buffer))
    }
    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.buffer.get(self.start..self.start + self.bytes).unwrap_or_default()
    }
    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..self.start + self.bytes).unwrap_or_default()
    }
    /// Returns the buffer, with at least this many bytes.
    pub fn into_inner(mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }
    /// Like [`share`].
    pub fn share(mut self) -> Buffer {
        share(std::mem::take(&mut self.buffer)).slice_with_length(self.start, self.bytes)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.buffer));
    }
}

/// Makes room for this many bytes in a lent buffer.
fn grown(mut buffer: Vec<u8>, bytes: usize) -> Result<Vec<u8>> {
    let before = room(&buffer);
    if buffer.try_reserve_exact(bytes.saturating_sub(buffer.len())).is_err() {
        give_back(buffer);
        return Err(no_memory(bytes));
    }
    if room(&buffer) > before {
        let gone = pool().lend(room(&buffer) - before);
        drop(gone);
    }
    Ok(buffer)
}

/// Returns the kept buffer of `least` bytes or more whose size is nearest to `bytes`, if that does not waste much;
/// otherwise an empty buffer.
fn take<T: Item>(bytes: usize, least: usize) -> Vec<T> {
    if bytes < SMALLEST {
        return Vec::new();
    }
    let mut pool = pool();
    let largest = bytes.saturating_mul(if pool.holds > 0 { HELD_WASTE } else { WASTE });
    let suits = |buffer: &Memory| T::is(buffer) && (least..=largest).contains(&buffer.size());
    let suitable = pool.buffers.iter().enumerate().filter(|(_, (_, buffer))| suits(buffer));
    let best = suitable.min_by_key(|(_, (_, buffer))| buffer.size().abs_diff(bytes)).map(|(place, _)| place);
    let Some(place) = best else { return Vec::new() };
    let (_, buffer) = pool.buffers.remove(place);
    pool.kept -= buffer.size();
    let gone = pool.lend(buffer.size());
    drop(pool);
    drop(gone);
    T::of(buffer).unwrap_or_default()
}

/// Counts a new buffer as lent.
fn count<T>(buffer: &Vec<T>) {
    if room(buffer) >= SMALLEST {
        let gone = pool().lend(room(buffer));
        drop(gone);
    }
}

/// Returns an unshared buffer to the pool.
pub fn give_back<T: Item>(buffer: Vec<T>) {
    if room(&buffer) < SMALLEST {
        return;
    }
    keep(T::wrap(buffer), |pool, size| pool.filling = pool.filling.saturating_sub(size));
}

struct Pooled(Memory);

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Memory::Bytes(buffer) => buffer,
            Memory::Rows(buffer) => buffer.to_byte_slice(),
            Memory::Words(buffer) => buffer.to_byte_slice(),
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        keep(std::mem::replace(&mut self.0, Memory::Bytes(Vec::new())), |pool, size| {
            pool.shared = pool.shared.saturating_sub(size);
        });
    }
}

/// Finishes a buffer; it returns to the pool when it is no longer used.
pub fn share<T: Item + ArrowNativeType>(buffer: Vec<T>) -> Buffer {
    let size = room(&buffer);
    if size < SMALLEST {
        return Buffer::from_vec(buffer);
    }
    let mut pool = pool();
    pool.filling = pool.filling.saturating_sub(size);
    pool.shared += size;
    pool.most = pool.most.max(pool.lent());
    drop(pool);
    Buffer::from(Bytes::from_owner(Pooled(T::wrap(buffer))))
}

fn no_memory(bytes: usize) -> Error {
    Error::no_memory(format!("no memory for a column of {bytes} bytes"))
}

/// Returns this many zeros. Memory pages are provided when they are touched.
#[allow(
    unsafe_code,
    clippy::same_length_and_capacity,
    reason = "zeroed memory that may be refused has no safe form, and all of it is initialized"
)]
pub fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    use std::alloc::Layout;
    let refused = || no_memory(bytes);
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).map_err(|_| refused())?;
    // SAFETY: the layout has a size above zero. The vector gets memory of the global allocator with the layout of a
    // vector of that capacity, all of it initialized to zero.
    unsafe {
        let start = std::alloc::alloc_zeroed(layout);
        if start.is_null() {
            return Err(refused());
        }
        Ok(Vec::from_raw_parts(start, bytes, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_found_again_and_what_is_too_large_is_refused() {
        // No other test uses this size.
        let size = (1 << 20) + 12_345;
        let mut first = Filled::new(size).unwrap();
        let place = first.bytes().as_ptr();
        drop(first.share());
        let mut again = Filled::new(size - 8).unwrap();
        assert_eq!((again.bytes().len(), again.bytes().as_ptr()), (size - 8, place));
        assert_eq!(again.share().len(), size - 8);
        drop(Filled::new(size).unwrap());
        assert!(pool().buffers.iter().any(|(_, buffer)| buffer.size() == size));
        assert!(Filled::new(usize::MAX / 2).is_err());
    }

    #[test]
    fn a_place_of_a_buffer_is_aligned() {
        for place in [0, 1, 4, 63, 64, 1000] {
            for size in [0, 1, 100, 1 << 17] {
                let mut filled = Filled::aligned(size, place).unwrap();
                filled.bytes().fill(7);
                assert_eq!((filled.bytes().as_ptr().addr() + place) % 64, 0);
                assert_eq!(filled.as_slice(), vec![7; size]);
                let address = filled.as_slice().as_ptr();
                let shared = filled.share();
                assert_eq!((shared.as_ptr(), shared.as_slice()), (address, vec![7; size].as_slice()));
            }
        }
        assert!(Filled::aligned(usize::MAX, 0).is_err());
    }

    #[test]
    fn a_buffer_that_is_a_little_too_small_grows() {
        // No other test uses this size.
        let size = (3 << 20) + 54_321;
        let _hold = Hold::new();
        let has = |size: usize| pool().buffers.iter().any(|(_, buffer)| buffer.size() == size);
        let mut first = Filled::new(size).unwrap();
        first.bytes().fill(1);
        drop(first.share());
        assert!(has(size), "no spare room is kept");
        let more = size + size / 9;
        let mut again = Filled::new(more).unwrap();
        assert!(!has(size) && again.room().is_none(), "its memory was used before");
        assert_eq!((again.bytes().len(), again.bytes()[size - 1], again.bytes()[more - 1]), (more, 1, 0));
        drop(again);
        assert!(has(more));
        // A buffer that lacks more does not.
        assert!(Filled::new(more + more / 3).unwrap().room().is_some());
        // The nearest one is taken, also if another one need not grow: that one may be just right for another column.
        let (small, large) = ((7 << 20) + 54_321, (8 << 20) + 54_321);
        drop([1 << 20, small, large].map(|size| Filled::new(size).unwrap()));
        let _taken = Filled::new(small + 1000).unwrap();
        assert!(!has(small) && has(large));
    }

    #[test]
    fn buffers_of_words_are_found_again_by_words_only() {
        // No other test uses this size.
        let words = (1 << 17) + 1_357;
        let mut first: Vec<i64> = with_capacity(words);
        first.extend([1, -2]);
        let place = first.as_ptr().addr();
        let shared = share(first);
        assert_eq!(shared.typed_data::<i64>(), [1, -2]);
        drop(shared);
        let again: Vec<i64> = with_capacity(words - 3);
        assert_eq!((again.as_ptr().addr(), again.len()), (place, 0));
        give_back(again);
        assert_ne!(Filled::new(8 * words).unwrap().bytes().as_ptr().addr(), place);
    }

    #[test]
    fn all_that_was_in_use_at_once_is_kept_while_it_is_held() {
        let buffers =
            |count: usize| -> Vec<Memory> { (0..count).map(|_| Memory::Bytes(vec![0; 1 << 20])).collect() };
        let mut pool = Pool { holds: 1, ..Pool::default() };
        for _ in 0..300 {
            assert!(pool.lend(1 << 20).is_empty());
        }
        for buffer in buffers(300) {
            pool.filling -= 1 << 20;
            assert!(pool.keep(buffer).is_empty());
        }
        assert_eq!((pool.kept, pool.buffers.len()), (300 << 20, 300));
        // Buffers that are too small are dropped in favour of the lent ones.
        assert_eq!(pool.lend(30 << 20).len(), 30);
        assert!(pool.sweep(Some(Instant::now())).is_empty());
        pool.holds = 0;
        assert_eq!(pool.make_room(0).len(), 14);
        assert_eq!(pool.kept, most_kept());
        let before = Instant::now();
        pool.filling = 0;
        assert_eq!(pool.let_go(1).len(), 1);
        drop(pool.keep(Memory::Bytes(vec![0; 1 << 20])));
        drop(pool.sweep(Some(before)));
        assert_eq!((pool.kept, pool.buffers.len()), (1 << 20, 1));
    }

    #[test]
    fn a_small_buffer_takes_no_room_of_a_large_one() {
        let mut pool = Pool { most: 100 << 20, ..Pool::default() };
        for megabytes in [60, 2, 3, 35] {
            assert!(pool.keep(Memory::Bytes(vec![0; megabytes << 20])).is_empty());
        }
        let sizes = |gone: Vec<Memory>| gone.iter().map(|one| one.size() >> 20).collect::<Vec<_>>();
        assert_eq!(sizes(pool.lend(1 << 20)), [2]);
        assert_eq!(sizes(pool.lend(2 << 20)), [3]);
        // Only large ones are left.
        assert_eq!(sizes(pool.lend(4 << 20)), [60]);
        assert_eq!((pool.kept >> 20, pool.buffers.len()), (35, 1));
    }

    #[test]
    fn unused_buffers_are_returned() {
        let size = (5 << 20) + 4_321;
        drop(Filled::new(size).unwrap().share());
        let is_kept = || pool().buffers.iter().any(|(_, buffer)| buffer.size() == size);
        let end = Instant::now() + 10 * KEPT_FOR;
        while is_kept() && Instant::now() < end {
            thread::sleep(KEPT_FOR / 4);
        }
        assert!(!is_kept());
    }
}
