//! Allocations that fail on request: tests make a tier full at each step of an operation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Which allocations of a tier are to fail.
#[derive(Default)]
pub struct Faults {
    /// Allocations until the first one; 0: none.
    first_in: AtomicU64,
    /// Whether all after it fail, too.
    from_then_on: AtomicBool,
    /// How many did.
    made: AtomicU64,
}

impl Faults {
    /// Plans anew: the `nth` from now on (1 is the next; 0: none) and perhaps all after it.
    pub fn plan(&self, nth: u64, from_then_on: bool) {
        self.from_then_on.store(from_then_on, Relaxed);
        self.first_in.store(nth, Relaxed);
        self.made.store(0, Relaxed);
    }

    /// How many allocations have failed since the last plan.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Whether this allocation must fail.
    #[inline]
    pub fn is_due(&self) -> bool {
        if self.first_in.load(Relaxed) == 0 {
            return false;
        }
        self.is_due_now()
    }

    #[cold]
    fn is_due_now(&self) -> bool {
        let from_then_on = self.from_then_on.load(Relaxed);
        let due = match self.first_in.load(Relaxed) {
            1 if from_then_on => true,
            _ => self.first_in.fetch_sub(1, Relaxed) == 1,
        };
        self.made.fetch_add(due.into(), Relaxed);
        due
    }
}
