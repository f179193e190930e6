//! Memory for small allocations while the system has none.
//!
//! An allocation that fails aborts the process if its caller cannot return an error: that of a name, of a node in a
//! map, of an error's own text. [`Reserve`] is an allocator that takes such small blocks from memory of fixed size, which is
//! set aside from the start. Code that makes many of them asks [`memory_left`] and ends with an error, so the blocks are
//! released before the reserve is used up. Larger blocks still fail: their callers use `try_reserve`.

#![allow(unsafe_code, reason = "an allocator deals in raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// Blocks of this size, in bytes, and larger ones are not taken from the reserve. The strings of a key are smaller.
pub const LARGE: usize = 64 << 10;
/// Bytes set aside. They are no resident memory before they are used. Miri would take minutes for all of them.
const SIZE: usize = if cfg!(miri) { 128 << 10 } else { 4 << 20 };
/// Alignment of the memory set aside, and maximum alignment of its blocks.
const PAGE: usize = 4096;

#[repr(align(4096))]
struct Aside(UnsafeCell<[u8; SIZE]>);

// SAFETY: only pointers to it are made. Each block is given to one owner at a time.
unsafe impl Sync for Aside {}

static ASIDE: Aside = Aside(UnsafeCell::new([0; SIZE]));

/// Bytes that were taken (low half), and the number of blocks in use (high half).
///
/// Blocks are taken one after another. The last one is free again at once when it is returned, all of the memory when no
/// block is in use. Both numbers change together and without a lock, which another thread could hold when the process
/// forks.
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn halves(taken: u64) -> (usize, u64) {
    ((taken & u64::from(u32::MAX)) as usize, taken >> 32)
}

fn start() -> *mut u8 {
    ASIDE.0.get().cast()
}

fn is_aside(block: *mut u8) -> bool {
    block.addr().wrapping_sub(start().addr()) < SIZE
}

/// Takes a block; null if the layout is large, or if nothing is left.
fn take(layout: Layout) -> *mut u8 {
    if layout.size() >= LARGE || layout.align() > PAGE {
        return ptr::null_mut();
    }
    let mut place = 0;
    let more = TAKEN.fetch_update(AcqRel, Acquire, |taken| {
        let (bytes, blocks) = halves(taken);
        place = bytes.next_multiple_of(layout.align());
        let end = place + layout.size();
        (end <= SIZE).then_some((blocks + 1) << 32 | end as u64)
    });
    match more {
        // SAFETY: the place and the end of the block are within the memory.
        Ok(_) => unsafe { start().add(place) },
        Err(_) => ptr::null_mut(),
    }
}

fn give_back(block: *mut u8, size: usize) {
    let place = block.addr().wrapping_sub(start().addr());
    // The closure always returns a value.
    let _ = TAKEN.fetch_update(AcqRel, Acquire, |taken| {
        let (bytes, blocks) = halves(taken);
        let bytes = if place + size == bytes { place } else { bytes };
        let left = blocks.saturating_sub(1);
        Some(if left == 0 { 0 } else { left << 32 | bytes as u64 })
    });
}

/// An allocator that takes small blocks from the reserve if another allocator has no memory.
pub struct Reserve<A>(pub A);

// SAFETY: a block is either from the memory set aside, and is recognized by its address, or from the other allocator.
// Blocks from the memory set aside are as large and as aligned as requested, and nobody else's until they are returned.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Reserve<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { self.0.alloc(layout) };
        if block.is_null() { take(layout) } else { block }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { self.0.alloc_zeroed(layout) };
        if !block.is_null() {
            return block;
        }
        let block = take(layout);
        if !block.is_null() {
            // An earlier owner may have written to it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_aside(block) {
            give_back(block, layout.size());
        } else {
            unsafe { self.0.dealloc(block, layout) }
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let aside = is_aside(block);
        if !aside {
            let moved = unsafe { self.0.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
        unsafe {
            let moved = if aside { self.alloc(wanted) } else { take(wanted) };
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Returns whether the system has memory: true unless blocks of the reserve are in use and a large one still fails.
#[inline]
pub fn memory_left() -> bool {
    TAKEN.load(Relaxed) == 0 || is_back()
}

#[cold]
fn is_back() -> bool {
    Vec::<u8>::new().try_reserve_exact(2 * LARGE).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Fails while it is told to.
    struct Sometimes(AtomicBool);

    // SAFETY: a null pointer says that there is no memory; everything else is the system's.
    unsafe impl GlobalAlloc for Sometimes {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.0.load(Relaxed) { ptr::null_mut() } else { unsafe { std::alloc::System.alloc(layout) } }
        }
        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            unsafe { std::alloc::System.dealloc(block, layout) }
        }
    }

    #[test]
    fn small_blocks_are_taken_from_the_reserve_and_all_of_it_is_free_again() {
        let reserve = Reserve(Sometimes(AtomicBool::new(false)));
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        // SAFETY: blocks are used within their sizes and freed once, with their last layout.
        unsafe {
            let first = reserve.alloc(layout(100));
            first.write_bytes(7, 100);
            assert!(!is_aside(first));
            reserve.0.0.store(true, Relaxed);
            // A block of the system that cannot grow moves to the reserve.
            let moved = reserve.realloc(first, layout(100), 3000);
            assert!(is_aside(moved) && moved.addr().is_multiple_of(16));
            assert!((0..100).all(|i| moved.add(i).read() == 7));
            assert!(reserve.alloc(layout(LARGE)).is_null(), "large blocks fail");
            assert!(reserve.realloc(moved, layout(3000), LARGE).is_null());
            let mut blocks = Vec::with_capacity(SIZE / 1000 + 1);
            loop {
                let block = reserve.alloc_zeroed(layout(1000));
                if block.is_null() {
                    break;
                }
                assert!((0..1000).all(|i| block.add(i).read() == 0));
                block.write_bytes(9, 1000);
                blocks.push(block);
            }
            assert!(blocks.len() > SIZE / 1010 - 4, "{}", blocks.len());
            assert!((0..100).all(|i| moved.add(i).read() == 7));
            let last = blocks.pop().unwrap();
            reserve.dealloc(last, layout(1000));
            assert_eq!(reserve.alloc(layout(1000)), last, "the last block is free again");
            blocks.push(last);
            for block in blocks {
                reserve.dealloc(block, layout(1000));
            }
            // Memory is back: a block moves to the system.
            reserve.0.0.store(false, Relaxed);
            let moved = reserve.realloc(moved, layout(3000), LARGE);
            assert!(!moved.is_null() && !is_aside(moved));
            assert_eq!(TAKEN.load(Relaxed), 0);
            reserve.dealloc(moved, layout(LARGE));
        }
        assert!(memory_left());
    }
}
