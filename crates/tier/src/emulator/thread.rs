//! The emulator's state for each thread: its modelled cache, its prefetches in flight, its counts.
//!
//! A thread has one of these for all emulated memories, as it has one CPU cache. It is made at the
//! thread's first access and freed when the thread ends. Finding it costs one read of a
//! thread-local pointer and one branch. The pointer has no destructor, so it can be read at any
//! moment of a thread's end; the owner beside it has one, and clears the pointer first. Accesses
//! after that (by another thread-local's destructor) are not charged.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;

use super::cache::{CacheSize, LineCache};
use super::counts::LineCounts;
use super::in_flight::InFlight;
use super::overlap::Overlap;
use super::watch::PageEvent;

/// Tiers with a bandwidth account each: all that a page's byte can name.
pub const TIERS: usize = 32;

/// One thread's state. Every charge writes here, so it shares no cache line.
#[repr(align(128))]
pub struct Thread {
    pub cache: LineCache,
    pub in_flight: InFlight,
    pub counts: LineCounts,
    pub overlap: Overlap,
    /// By tier: missing lines that are not yet accounted for.
    pub read: [u32; TIERS],
    /// The current access has not been charged for a missing line of a slower tier yet.
    pub latency_due: bool,
    /// Charged and not yet spun, in picoseconds; negative after a spin that ended late.
    pub debt_ps: i64,
    /// Events of marked pages during the current access, which are reported after it.
    pub events: Vec<(usize, PageEvent)>,
    /// Missing lines of counted pages until the next sample.
    pub until_sample: u32,
}

struct Owner(Cell<*mut Thread>);

thread_local! {
    static CURRENT: Cell<*mut Thread> = const { Cell::new(ptr::null_mut()) };
    static OWNER: Owner = const { Owner(Cell::new(ptr::null_mut())) };
}

impl Drop for Owner {
    fn drop(&mut self) {
        CURRENT.set(ptr::null_mut());
        let thread = self.0.get();
        if !thread.is_null() {
            // SAFETY: it came from `Box::into_raw` in `make`, once, and with `CURRENT` cleared
            // nothing finds it any more.
            drop(unsafe { Box::from_raw(thread) });
        }
    }
}

/// Runs `work` on this thread's state. `None` if the thread is ending and has freed it.
///
/// `work` must not call this again: it would hold a second exclusive reference. It is private to
/// the emulator, whose work calls nothing outside it.
#[inline(always)]
pub fn with<R>(work: impl FnOnce(&mut Thread) -> R) -> Option<R> {
    let mut thread = CURRENT.get();
    if thread.is_null() {
        thread = make()?;
    }
    // SAFETY: a pointer in `CURRENT` is valid until the owner's destructor clears it; only this
    // thread has it, and as `work` does not come back here, the reference is the only one.
    Some(work(unsafe { &mut *thread }))
}

#[cold]
fn make() -> Option<*mut Thread> {
    OWNER
        .try_with(|owner| {
            let thread = Box::into_raw(Box::new(Thread {
                cache: LineCache::new(CacheSize::default()),
                in_flight: InFlight::default(),
                counts: LineCounts::default(),
                overlap: Overlap::default(),
                read: Default::default(),
                latency_due: false,
                debt_ps: 0,
                events: Vec::new(),
                until_sample: u32::MAX,
            }));
            owner.0.set(thread);
            CURRENT.set(thread);
            thread
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_finds_its_own_again_and_no_other() {
        with(|thread| thread.counts.fast += 3);
        assert_eq!(with(|thread| thread.counts.fast), Some(3));
        std::thread::spawn(|| assert_eq!(with(|thread| thread.counts.fast), Some(0)))
            .join()
            .unwrap();
    }

    #[test]
    fn accesses_of_an_ending_thread_are_not_charged() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                with(|thread| thread.counts.fast += 1);
            }
        }
        thread_local! {
            static BEFORE: Late = const { Late };
            static AFTER: Late = const { Late };
        }
        // One is destroyed before the owner and one after it, whichever order the platform has.
        std::thread::spawn(|| {
            BEFORE.with(|_| ());
            with(|thread| thread.counts.fast += 1);
            AFTER.with(|_| ());
        })
        .join()
        .unwrap();
    }
}
