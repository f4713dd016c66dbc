//! The allocator of this binary: the system's, and it counts.
//!
//! Counted is what an allocation takes up (`malloc_usable_size`), not what was asked for: rounding
//! up to a size class is a cost of the peer that allocates. The 8 bytes of header that glibc keeps
//! before each block are not in it; they show in the process's resident bytes.
//!
//! Each thread counts for itself and adds to the sum when it is [`GRAIN`] away from it, so that
//! counting shares no line. A thread that ends without [`flush`] takes at most that much with it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// How far a thread's own count may be from the sum, bytes.
const GRAIN: i64 = 64 << 10;

/// The system's allocator with a count of the bytes in use.
pub struct Counting;

static IN_USE: AtomicI64 = AtomicI64::new(0);

thread_local! {
    // Constant and without a destructor, so that using it allocates nothing.
    static OWN: Cell<i64> = const { Cell::new(0) };
}

/// Bytes allocated and not freed, of all threads; off by at most [`GRAIN`] for each that has not
/// called [`flush`] since.
pub fn bytes_in_use() -> u64 {
    flush();
    IN_USE.load(Relaxed).max(0) as u64
}

/// Adds what this thread has counted to the sum.
pub fn flush() {
    IN_USE.fetch_add(OWN.with(Cell::take), Relaxed);
}

#[inline]
fn count(bytes: i64) {
    OWN.with(|own| {
        let now = own.get() + bytes;
        if now.abs() < GRAIN {
            own.set(now);
        } else {
            own.set(0);
            IN_USE.fetch_add(now, Relaxed);
        }
    });
}

/// What the block at `block`, null or from [`System`], takes up.
///
/// # Safety
/// `block` is null, or was allocated and is not yet freed.
#[inline]
unsafe fn size_of(block: *mut u8) -> i64 {
    // SAFETY: `System` is malloc on this platform, and the caller says that the block is one of
    // its.
    unsafe { libc::malloc_usable_size(block.cast()) as i64 }
}

// SAFETY: every call goes to `System` unchanged; counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s contract; `size_of` takes what came of it, null
        // included.
        unsafe {
            let block = System.alloc(layout);
            count(size_of(block));
            block
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe {
            let block = System.alloc_zeroed(layout);
            count(size_of(block));
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract; the block is measured before it is gone.
        unsafe {
            count(-size_of(block));
            System.dealloc(block, layout);
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps `realloc`'s contract. Where it fails, the old block stays, and
        // counts.
        unsafe {
            let before = size_of(block);
            let moved = System.realloc(block, layout, size);
            if !moved.is_null() {
                count(size_of(moved) - before);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_counted_until_it_is_freed() {
        const BYTES: usize = 64 << 20;
        // Other tests allocate at the same time, but not by so much.
        let slack = (BYTES / 4) as u64;
        let before = bytes_in_use();
        let mut block: Vec<u8> = Vec::with_capacity(BYTES / 2);
        block.reserve_exact(BYTES);
        assert!(bytes_in_use() >= before + BYTES as u64 - slack);
        drop(block);
        assert!(bytes_in_use() <= before + slack);
    }
}
