//! Fault injection: tests make a tier full at each step of an operation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::Arenas;
use crate::TierId;

/// The failures planned for a tier.
#[derive(Default)]
pub struct Faults {
    /// The next failure is this many allocations ahead; 0: none is planned.
    first_in: AtomicU64,
    /// Whether all allocations after that one fail, too.
    from_then_on: AtomicBool,
    /// Failures since the last plan.
    made: AtomicU64,
}

impl Faults {
    /// Makes the `nth` allocation from now on fail (1 is the next; 0: none), and all after it with
    /// `from_then_on`.
    pub fn plan(&self, nth: u64, from_then_on: bool) {
        self.from_then_on.store(from_then_on, Relaxed);
        self.first_in.store(nth, Relaxed);
        self.made.store(0, Relaxed);
    }

    /// The number of failures since the last plan.
    pub fn made(&self) -> u64 {
        self.made.load(Relaxed)
    }

    /// Whether this allocation must fail.
    #[inline(always)]
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

impl Arenas {
    /// Makes the `nth` allocation in `tier` from now on fail (1 is the next), once. For tests of an
    /// operation that meets a full tier at any step.
    pub fn fail_nth(&self, tier: TierId, nth: u64) {
        self.tiers[tier.index()].faults.plan(nth, false);
    }

    /// Makes all allocations from the `nth` on fail, until [`Arenas::fail_nth`] is called: a map
    /// that can reclaim memory retries.
    pub fn fail_from(&self, tier: TierId, nth: u64) {
        self.tiers[tier.index()].faults.plan(nth, true);
    }

    /// The number of allocations in `tier` that were made to fail since the last call of
    /// [`Arenas::fail_nth`] or [`Arenas::fail_from`].
    pub fn failed(&self, tier: TierId) -> u64 {
        self.tiers[tier.index()].faults.made()
    }

    /// Makes the `nth` commit of memory in `tier` from now on fail (1 is the next; 0: none), and
    /// with `from_then_on` all after it, as if the machine were out of memory. Commits are of
    /// chunks and of pages of side tables.
    pub fn fail_commits(&self, tier: TierId, nth: u64, from_then_on: bool) {
        self.tiers[tier.index()]
            .commit_faults
            .plan(nth, from_then_on);
    }
}
