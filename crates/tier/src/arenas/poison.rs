//! Poisoning of free slots for AddressSanitizer, which knows the heap but not the arenas' mappings.
//! In its build (`--cfg asan`, by `cargo xtask sanitize address`) all memory of the arenas is
//! poisoned except the requested bytes of allocated slots.
//!
//! In any other build these functions do nothing.
#![allow(unsafe_code)]

use std::ops::Range;
#[cfg(asan)]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(asan)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a new arena that are hidden. Hiding writes an eighth as much, and arenas without a
/// limit reserve a gibibyte and more; what lies behind is hidden once it was given back.
#[cfg(asan)]
const FRESH: usize = 16 << 20;

/// The granularity of poisoning, in bytes. Slots are multiples of this, and aligned to it.
#[cfg(asan)]
const GRAIN: usize = 8;

#[cfg(asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(address: usize, bytes: usize);
    fn __asan_unpoison_memory_region(address: usize, bytes: usize);
    fn __asan_region_is_poisoned(address: usize, bytes: usize) -> usize;
}

/// The number of live [`Look`]s.
#[cfg(asan)]
static LOOKING: Mutex<usize> = Mutex::new(0);

#[cfg(asan)]
fn looking() -> MutexGuard<'static, usize> {
    LOOKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The memory of an arena that is hidden, or was.
pub struct Hidden {
    #[cfg(asan)]
    start: usize,
    /// No byte behind this one was ever hidden.
    #[cfg(asan)]
    end: AtomicUsize,
}

impl Hidden {
    /// Of a new arena with these addresses.
    pub fn new(span: Range<usize>) -> Hidden {
        let hidden = Hidden {
            #[cfg(asan)]
            start: span.start,
            #[cfg(asan)]
            end: AtomicUsize::new(span.start),
        };
        #[cfg(asan)]
        hidden.hide(span.start..span.end.min(span.start + FRESH));
        let _ = span;
        hidden
    }

    /// Poisons a range, so that accesses are reported. While a [`Look`] is alive this does nothing,
    /// as the look's reader must not be reported; later accesses to the range are then missed.
    #[inline(always)]
    pub fn hide(&self, range: Range<usize>) {
        #[cfg(asan)]
        if let looking = looking()
            && *looking == 0
        {
            self.end.fetch_max(range.end, Ordering::Relaxed);
            // SAFETY: it changes shadow memory of addresses that the caller owns.
            unsafe { __asan_poison_memory_region(range.start, range.len()) };
        }
        let _ = range;
    }
}

#[cfg(asan)]
impl Drop for Hidden {
    fn drop(&mut self) {
        show(self.start, *self.end.get_mut() - self.start);
    }
}

/// Permits accesses to `bytes` from `address` on, rounded up to words.
#[inline(always)]
pub fn show(address: usize, bytes: usize) {
    // A look at memory that changes meanwhile ends the process.
    #[cfg(asan)]
    let _looking = looking();
    #[cfg(asan)]
    // SAFETY: as above.
    unsafe {
        __asan_unpoison_memory_region(address, bytes.next_multiple_of(GRAIN));
    }
    let _ = (address, bytes);
}

/// Permission to read memory that may not be allocated, as long as this lives.
#[derive(Debug)]
pub struct Look {
    /// The end of the readable range.
    pub end: usize,
}

impl Look {
    /// Permits reads from the start of this range to its first poisoned byte, or its end.
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
