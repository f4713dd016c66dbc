//! The global allocator of this binary: the system's, with a byte counter.
//!
//! The counter adds the usable size of each block (`malloc_usable_size`), not the requested size:
//! rounding up to a size class is a cost of the peer that allocates. It leaves out glibc's 8-byte
//! header before each block; resident bytes include that.
//!
//! Each thread keeps its own counter and adds it to the sum once it reaches [`GRAIN`], so counting
//! shares no cache line. A thread that ends without [`flush`] loses at most that much.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// How far a thread's own counter may be from the sum, bytes.
const GRAIN: i64 = 64 << 10;

/// The system's allocator, which also counts the bytes in use.
pub struct Counting;

static IN_USE: AtomicI64 = AtomicI64::new(0);

thread_local! {
    // Const-initialized and without a destructor, so an access allocates nothing.
    static OWN: Cell<i64> = const { Cell::new(0) };
}

/// Bytes allocated and not freed, of all threads. Off by at most [`GRAIN`] for each thread that has
/// not called [`flush`] since.
pub fn bytes_in_use() -> u64 {
    flush();
    IN_USE.load(Relaxed).max(0) as u64
}

/// Adds this thread's counter to the sum.
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

/// The usable size of the block at `block`, which is null or from [`System`].
///
/// # Safety
/// `block` is null, or allocated and not freed yet.
#[inline]
unsafe fn size_of(block: *mut u8) -> i64 {
    // SAFETY: `System` is malloc on this platform, and the caller guarantees that `block` is one of
    // its blocks.
    unsafe { libc::malloc_usable_size(block.cast()) as i64 }
}

// SAFETY: every call goes to `System` unchanged; counting allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `alloc`'s contract; `size_of` accepts its result, null included.
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
        // SAFETY: the caller keeps `dealloc`'s contract; the size is read before the block is
        // freed.
        unsafe {
            count(-size_of(block));
            System.dealloc(block, layout);
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps `realloc`'s contract. If it fails, the old block stays allocated
        // and counted.
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
        // Other tests allocate at the same time, but far less than this.
        let slack = (BYTES / 4) as u64;
        let before = bytes_in_use();
        let mut block: Vec<u8> = Vec::with_capacity(BYTES / 2);
        block.reserve_exact(BYTES);
        assert!(bytes_in_use() >= before + BYTES as u64 - slack);
        drop(block);
        assert!(bytes_in_use() <= before + slack);
    }
}
