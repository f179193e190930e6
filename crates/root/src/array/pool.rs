//! Large buffers, used again.
//!
//! Memory that the system hands out is zeroed page by page when it is first touched, which costs as much as decoding.
//! Buffers of columns that are no longer wanted (a step of an iteration) are kept for the next ones, up to 64 MB, or all
//! of them while there is a [`Hold`]; and never so many that together with those in use they are more than have been in
//! use at once.

use crate::error::{Error, Result};
use arrow_buffer::Buffer;
use bytes::Bytes;
use sapwood_io::PerProcess;
use std::mem::{MaybeUninit, take as empty};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes kept at most, unless there is a [`Hold`].
const KEEP: usize = 64 << 20;
/// Smaller buffers are the allocator's own business.
const SMALLEST: usize = 64 << 10;
/// How many times larger a kept buffer may be than what is asked for: whoever gets it may keep it.
const WASTE: usize = 2;
/// The same while there is a [`Hold`].
const HELD_WASTE: usize = 4;

#[derive(Default)]
struct Pool {
    buffers: Vec<Vec<u8>>,
    /// Bytes of these.
    kept: usize,
    /// Bytes that were lent and are being filled, as far as is known: buffers grow, and may be dropped elsewhere.
    filling: usize,
    /// Bytes of finished buffers that somebody looks at.
    shared: usize,
    /// The most there have been of both.
    most: usize,
    holds: usize,
}

fn pool() -> MutexGuard<'static, Pool> {
    static POOL: PerProcess<Mutex<Pool>> = PerProcess::empty();
    POOL.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn lent(&self) -> usize {
        self.filling + self.shared
    }
    /// Counts a buffer that is lent; gives those that go for it.
    #[must_use]
    fn lend(&mut self, size: usize) -> Vec<Vec<u8>> {
        self.filling += size;
        self.most = self.most.max(self.lent());
        self.make_room(0)
    }
    /// The most bytes to keep.
    fn limit(&self) -> usize {
        let room = self.most.saturating_sub(self.lent());
        if self.holds > 0 { room } else { room.min(KEEP) }
    }
    /// Takes out the oldest until `more` bytes can be kept too: sizes change slowly from step to step. They are to be
    /// dropped when nobody waits for the pool.
    #[must_use]
    fn make_room(&mut self, more: usize) -> Vec<Vec<u8>> {
        let limit = self.limit();
        let mut count = 0;
        for buffer in &self.buffers {
            if self.kept + more <= limit {
                break;
            }
            self.kept -= buffer.capacity();
            count += 1;
        }
        self.buffers.drain(..count).collect()
    }
    /// Keeps a buffer, if it may; gives those that go.
    #[must_use]
    fn keep(&mut self, buffer: Vec<u8>) -> Vec<Vec<u8>> {
        let size = buffer.capacity();
        let mut gone = self.make_room(size);
        if self.kept + size <= self.limit() {
            self.kept += size;
            self.buffers.push(buffer);
        } else {
            gone.push(buffer);
        }
        gone
    }
}

/// While there is one, buffers that are no longer wanted are all kept for the next ones: as many as were in use at once
/// since the first hold was taken.
pub struct Hold(());

impl Hold {
    /// A hold, until it is dropped.
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

/// A buffer with room for `bytes`, empty; with less room when there is no memory for that many.
pub fn with_capacity(bytes: usize) -> Vec<u8> {
    let mut buffer = take(bytes);
    buffer.clear();
    if buffer.capacity() < bytes {
        // Refusal is no error yet: the estimate may be too large, and growing fails by itself.
        let _ = buffer.try_reserve_exact(roomy(bytes));
        count(&buffer);
    }
    buffer
}

/// Somewhat more than `bytes`, so that a buffer serves again where the next step takes a little more. Pages that are
/// never touched cost nothing.
fn roomy(bytes: usize) -> usize {
    if bytes < SMALLEST { bytes } else { bytes.saturating_add(bytes / 8) }
}

/// Bytes that are meant to be overwritten.
pub struct Filled {
    /// May be longer: zeroing the end of a kept buffer again would cost for nothing.
    buffer: Vec<u8>,
    bytes: usize,
}

impl Filled {
    /// So many bytes.
    pub fn new(bytes: usize) -> Result<Self> {
        let mut buffer = take(bytes);
        if buffer.capacity() == 0 {
            buffer = zeroed(roomy(bytes))?;
            count(&buffer);
        } else if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        Ok(Self { buffer, bytes })
    }
    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.buffer.get(..self.bytes).unwrap_or_default()
    }
    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.bytes).unwrap_or_default()
    }
    /// The buffer, with at least so many bytes.
    pub fn into_inner(self) -> Vec<u8> {
        self.buffer
    }
    /// As [`share`].
    pub fn share(self) -> Buffer {
        share(self.buffer).slice_with_length(0, self.bytes)
    }
}

/// The smallest kept buffer with that much room that would not waste too much of it, or none.
fn take(bytes: usize) -> Vec<u8> {
    if bytes < SMALLEST {
        return Vec::new();
    }
    let mut pool = pool();
    let largest = bytes.saturating_mul(if pool.holds > 0 { HELD_WASTE } else { WASTE });
    let fits = pool.buffers.iter().enumerate().filter(|(_, b)| (bytes..=largest).contains(&b.capacity()));
    let best = fits.min_by_key(|(_, b)| b.capacity()).map(|(place, _)| place);
    let Some(place) = best else { return Vec::new() };
    let buffer = pool.buffers.swap_remove(place);
    pool.kept -= buffer.capacity();
    let gone = pool.lend(buffer.capacity());
    drop(pool);
    drop(gone);
    buffer
}

/// Counts a new buffer among those that are lent.
fn count(buffer: &Vec<u8>) {
    if buffer.capacity() >= SMALLEST {
        let gone = pool().lend(buffer.capacity());
        drop(gone);
    }
}

/// Gives a buffer back that was not shared.
pub fn give_back(buffer: Vec<u8>) {
    let size = buffer.capacity();
    if size < SMALLEST {
        return;
    }
    let mut pool = pool();
    pool.filling = pool.filling.saturating_sub(size);
    let gone = pool.keep(buffer);
    drop(pool);
    drop(gone);
}

struct Pooled(Vec<u8>);

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let buffer = empty(&mut self.0);
        let mut pool = pool();
        pool.shared = pool.shared.saturating_sub(buffer.capacity());
        let gone = pool.keep(buffer);
        drop(pool);
        drop(gone);
    }
}

/// A finished buffer, which comes back here when nobody looks at it any more.
pub fn share(buffer: Vec<u8>) -> Buffer {
    let size = buffer.capacity();
    if size < SMALLEST {
        return Buffer::from_vec(buffer);
    }
    let mut pool = pool();
    pool.filling = pool.filling.saturating_sub(size);
    pool.shared += size;
    pool.most = pool.most.max(pool.lent());
    drop(pool);
    Buffer::from(Bytes::from_owner(Pooled(buffer)))
}

/// Has the system provide the pages of `values` in one go.
///
/// Pages that come one by one, each by an interrupt at its first touch, cost more than decoding what is put there.
pub fn provide<T>(values: &mut [T]) {
    #[cfg(target_os = "linux")]
    if size_of_val(values) >= SMALLEST_PROVIDED {
        populate(values.as_ptr().addr(), size_of_val(values));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = values;
}

/// Where memory lies that another thread will fill.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    start: usize,
    bytes: usize,
}

impl Room {
    /// Of values that are not there yet.
    pub fn of<T>(values: &[MaybeUninit<T>]) -> Self {
        Self { start: values.as_ptr().addr(), bytes: size_of_val(values) }
    }
    /// Has the system provide the pages from one share of it to another, while the other thread does something else.
    pub fn provide(self, from: f64, to: f64) {
        let place =
            |share: f64| (self.start + (self.bytes as f64 * share.clamp(0.0, 1.0)) as usize) & !(PAGE - 1);
        #[cfg(target_os = "linux")]
        populate(place(from), place(to) - place(from).min(place(to)));
        #[cfg(not(target_os = "linux"))]
        let _ = place;
    }
}

/// Less than this is left to come page by page.
#[cfg(target_os = "linux")]
const SMALLEST_PROVIDED: usize = 16 << 10;

const PAGE: usize = 4096;

/// Has the system provide the pages from an address on.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "advice to the system about memory")]
fn populate(start: usize, bytes: usize) {
    let before = start % PAGE;
    // SAFETY: populating pages changes the content of none, whoever has them by now; where nothing is mapped, or the
    // system does not know the advice, it is refused, and pages come at their first touch.
    unsafe {
        let page = std::ptr::without_provenance_mut(start - before);
        libc::madvise(page, before + bytes, libc::MADV_POPULATE_WRITE);
    }
}

#[allow(
    unsafe_code,
    clippy::same_length_and_capacity,
    reason = "zeroed memory that may be refused has no safe form, and all of it is initialized"
)]
fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    use std::alloc::Layout;
    let refused = || Error::limit(format!("no memory for a column of {bytes} bytes"));
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).map_err(|_| refused())?;
    // SAFETY: the layout has a size above zero; the vector gets memory of the global allocator with the layout that
    // a vector of that capacity has, all of it initialized to zero.
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
        // A size that no other test uses.
        let size = (1 << 20) + 12_345;
        let mut first = Filled::new(size).unwrap();
        let place = first.bytes().as_ptr();
        drop(first.share());
        let mut again = Filled::new(size - 8).unwrap();
        assert_eq!((again.bytes().len(), again.bytes().as_ptr()), (size - 8, place));
        assert_eq!(again.share().len(), size - 8);
        assert!(Filled::new(usize::MAX / 2).is_err());
    }

    #[test]
    fn all_that_was_in_use_at_once_is_kept_while_it_is_held() {
        let buffers = |count: usize| -> Vec<Vec<u8>> { (0..count).map(|_| vec![0; 1 << 20]).collect() };
        let mut pool = Pool { holds: 1, ..Pool::default() };
        for _ in 0..100 {
            assert!(pool.lend(1 << 20).is_empty());
        }
        let keep = |pool: &mut Pool| {
            for buffer in buffers(100) {
                pool.filling -= 1 << 20;
                assert!(pool.keep(buffer).is_empty());
            }
        };
        keep(&mut pool);
        assert_eq!((pool.kept, pool.buffers.len()), (100 << 20, 100));
        // Those that are of no use go for the ones that are lent instead.
        assert_eq!(pool.lend(30 << 20).len(), 30);
        pool.holds = 0;
        assert_eq!(pool.make_room(0).len(), 6);
        assert_eq!(pool.kept, KEEP);
    }
}
