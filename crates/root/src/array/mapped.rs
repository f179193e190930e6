//! An allocator whose large blocks are mapped from the system and returned to it.
//!
//! Some allocators keep freed blocks of all sizes in one heap; glibc does after the first large block was freed. This
//! leaves holes between columns whose sizes differ from step to step, and the process grows.

#![allow(
    unsafe_code,
    reason = "an allocator deals in raw memory; each block is mapped and unmapped with one size"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

/// Minimum size of a block with a mapping of its own; smaller blocks are left to the system's allocator.
const LARGE: usize = 64 << 10;
/// Alignment of every mapping.
const PAGE: usize = 4096;

/// The allocator of the Rust code in the Python module. Python itself and other libraries keep theirs.
pub struct Mapped;

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

// SAFETY: the layout alone determines how a block was allocated, and Rust passes it back unchanged with the block. The
// system returns zeroed mappings of whole pages, or null if it has no memory.
unsafe impl GlobalAlloc for Mapped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe { if is_large(layout) { map(layout.size()) } else { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { if is_large(layout) { map(layout.size()) } else { System.alloc_zeroed(layout) } }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe {
            if is_large(layout) {
                libc::munmap(block.cast(), layout.size());
            } else {
                System.dealloc(block, layout);
            }
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe {
            let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return ptr::null_mut() };
            let moved = match (is_large(layout), is_large(wanted)) {
                (false, false) => return System.realloc(block, layout, size),
                (true, true) => mapped(libc::mremap(block.cast(), layout.size(), size, libc::MREMAP_MAYMOVE)),
                _ => ptr::null_mut(),
            };
            if !moved.is_null() {
                return moved;
            }
            // The system does not move a mapping that was split by large-page advice for a part of it.
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

unsafe fn map(bytes: usize) -> *mut u8 {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    mapped(unsafe {
        libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    })
}

fn mapped(start: *mut libc::c_void) -> *mut u8 {
    if start == libc::MAP_FAILED { ptr::null_mut() } else { start.cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_advice_for_a_part_of_it_grows_and_shrinks() {
        let layout = Layout::from_size_align(64 * PAGE, 8).unwrap();
        // SAFETY: the block is used within its current size and freed once.
        unsafe {
            let mut block = Mapped.alloc(layout);
            for (place, number) in (0..64u8).enumerate() {
                block.add(place * PAGE).write(number);
            }
            #[cfg(not(miri))] // which does not know this call
            libc::madvise(block.add(16 * PAGE).cast(), 16 * PAGE, libc::MADV_NOHUGEPAGE);
            let sizes = [64, 200, 40].map(|pages| Layout::from_size_align(pages * PAGE, 8).unwrap());
            for (before, after) in sizes.iter().zip(&sizes[1..]) {
                block = Mapped.realloc(block, *before, after.size());
                assert!(!block.is_null());
                for (place, number) in (0..40u8).enumerate() {
                    assert_eq!(block.add(place * PAGE).read(), number);
                }
            }
            Mapped.dealloc(block, sizes[2]);
        }
    }
}
