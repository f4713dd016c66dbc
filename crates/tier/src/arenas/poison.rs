//! What AddressSanitizer is told of slots. It knows the heap; arenas are mappings of our own, in
//! which every address may be accessed for as long as they live. So in a build for it (`--cfg
//! asan`, by `cargo xtask sanitize address`) the arenas' memory is poisoned but for what is handed
//! out: from a slot that was given back to the end of a slot beyond what was asked for.
//!
//! In any other build nothing here does anything.
#![allow(unsafe_code)]

use std::ops::Range;
#[cfg(asan)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of new arenas that are hidden. Hiding writes an eighth as much, and arenas without a limit
/// reserve a gibibyte and more; what lies behind is hidden once it was given back.
pub const FRESH: usize = 16 << 20;

/// Bytes that AddressSanitizer tells apart. Slots are multiples of this, and aligned to it.
#[cfg(asan)]
const GRAIN: usize = 8;

#[cfg(asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(address: usize, bytes: usize);
    fn __asan_unpoison_memory_region(address: usize, bytes: usize);
    fn __asan_region_is_poisoned(address: usize, bytes: usize) -> usize;
}

/// How many threads look at memory of which they know nothing.
#[cfg(asan)]
static LOOKING: Mutex<usize> = Mutex::new(0);

#[cfg(asan)]
fn looking() -> MutexGuard<'static, usize> {
    LOOKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accesses to this are errors from now on. (While a [`Look`] is alive nothing changes, as its
/// reader must not be reported; an access after that is not found.)
#[inline(always)]
pub fn hide(range: Range<usize>) {
    #[cfg(asan)]
    if let looking = looking()
        && *looking == 0
    {
        // SAFETY: it notes something about addresses that the caller owns, and reads or writes
        // none.
        unsafe { __asan_poison_memory_region(range.start, range.len()) };
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
    let _ = (address, bytes);
}

/// Leave to look at memory of which nothing is known, for as long as this lives.
#[derive(Debug)]
pub struct Look {
    /// Where what may be read ends.
    pub end: usize,
}

impl Look {
    /// At some of this range, from its start on: all of it, but for what AddressSanitizer knows to
    /// be hidden.
    #[inline(always)]
    pub fn at(range: Range<usize>) -> Look {
        #[cfg(asan)]
        {
            let mut looking = looking();
            *looking += 1;
            // SAFETY: as above.
            let hidden = unsafe { __asan_region_is_poisoned(range.start, range.len()) };
            if hidden != 0 {
                return Look { end: hidden };
            }
        }
        Look { end: range.end }
    }
}

#[cfg(asan)]
impl Drop for Look {
    fn drop(&mut self) {
        *looking() -= 1;
    }
}

#[cfg(all(test, asan))]
mod tests {
    use crate::{Arenas, ArenasConfig, TierId};

    #[test]
    fn slots_are_shown_as_long_as_they_are_handed_out() {
        let arenas = Arenas::new(&ArenasConfig::one_tier(1 << 20)).unwrap();
        let slot = arenas.allocate(TierId::FAST, 40).unwrap();
        let address = slot.as_ptr() as usize;
        let end = |address| arenas.look(address).end;
        assert_eq!(end(address), address + 40);
        // SAFETY: allocated for this size, and not used.
        unsafe { arenas.free(slot, 40) };
        assert_eq!(end(address), address);
        let again = arenas.allocate(TierId::FAST, 35).unwrap();
        assert_eq!(
            (again, end(address)),
            (slot, address + 40),
            "words at least"
        );
    }
}
