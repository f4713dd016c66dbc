//! What AddressSanitizer is told of slots. It knows the heap; arenas are mappings of our own, in which every address may be accessed
//! for as long as they live. So in a build for it (`--cfg asan`, by `cargo xtask sanitize address`) the arenas' memory is poisoned but
//! for what is handed out: from a slot that was given back to the end of a slot beyond what was asked for.
//!
//! In any other build nothing here does anything.
#![allow(unsafe_code)]

use std::ops::Range;

/// Bytes that AddressSanitizer tells apart. Slots are multiples of this, and aligned to it.
const GRAIN: usize = 8;

#[cfg(asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(address: usize, bytes: usize);
    fn __asan_unpoison_memory_region(address: usize, bytes: usize);
    fn __asan_region_is_poisoned(address: usize, bytes: usize) -> usize;
}

/// From now on nobody may look at this.
#[inline(always)]
pub fn hide(range: Range<usize>) {
    #[cfg(asan)]
    // SAFETY: it notes something about addresses that the caller owns, and reads or writes none.
    unsafe {
        __asan_poison_memory_region(range.start, range.len());
    }
    let _ = range;
}

/// From now on `bytes` from here on may be accessed, rounded up to words.
#[inline(always)]
pub fn show(address: usize, bytes: usize) {
    #[cfg(asan)]
    // SAFETY: as above.
    unsafe {
        __asan_unpoison_memory_region(address, bytes.next_multiple_of(GRAIN));
    }
    let _ = (address, bytes, GRAIN);
}

/// Where the first address of a range is that may not be accessed, or the range's end.
#[inline(always)]
pub fn end_of_shown(range: Range<usize>) -> usize {
    #[cfg(asan)]
    // SAFETY: as above.
    match unsafe { __asan_region_is_poisoned(range.start, range.len()) } {
        0 => {}
        first => return first,
    }
    range.end
}
