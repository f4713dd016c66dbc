//! The shared state of a domain: its epoch, a slot for each thread, and the garbage.
//!
//! Invariants:
//! - The epoch only grows, by one at a time, and only under the lock of the garbage. It never
//!   passes a slot's epoch by more than one while that slot is visibly pinned.
//! - A bag carries the domain's epoch at its sealing, and bags are in the order of their epochs.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crossbeam_utils::CachePadded;

use super::barrier;
use super::slot::{Bag, FIRST_EPOCH, Slot};
use super::slots::Slots;
use crate::shim::{AtomicU64, Mutex, MutexGuard};

/// Epochs from sealing to freeing.
const GRACE: u64 = 2;

/// A sealed bag: no call is added any more.
struct Sealed {
    /// The domain's epoch at the sealing, which came after all its nodes were unlinked.
    epoch: u64,
    bag: Bag,
}

/// The garbage, and the right to advance the epoch.
pub struct Garbage<'a> {
    core: &'a Core,
    sealed: MutexGuard<'a, VecDeque<Sealed>>,
}

/// The shared state of a domain. The slots come first, so that a slot is found by one
/// addition.
#[repr(C)]
pub struct Core {
    pub slots: Slots,
    epoch: CachePadded<AtomicU64>,
    sealed: Mutex<VecDeque<Sealed>>,
    /// Threads that ended while they were pinned.
    pub stuck: AtomicUsize,
}

impl Core {
    pub fn new() -> Self {
        Core {
            slots: Slots::new(),
            epoch: CachePadded::new(AtomicU64::new(FIRST_EPOCH)),
            sealed: Mutex::new(VecDeque::new()),
            stuck: AtomicUsize::new(0),
        }
    }

    /// Marks the slot as pinned. A barrier must follow before anything shared is read.
    #[inline(always)]
    pub fn enter(&self, slot: &Slot) {
        // Relaxed: a stale epoch only holds the others back, which is always safe.
        slot.enter(self.epoch.load(Relaxed));
    }

    /// Locks the garbage. No call runs under this lock, so it is held briefly.
    pub fn garbage(&self) -> Garbage<'_> {
        Garbage {
            core: self,
            sealed: self.sealed.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Locks the garbage, unless another thread holds the lock.
    pub fn try_garbage(&self) -> Option<Garbage<'_>> {
        let sealed = self.sealed.try_lock().ok()?;
        Some(Garbage { core: self, sealed })
    }
}

impl Drop for Core {
    /// Runs the remaining calls: no thread can pin any more, and no guard is left.
    fn drop(&mut self) {
        let sealed = std::mem::take(&mut *self.garbage().sealed);
        let bags = self.slots.iter().map(|slot| slot.take_bag());
        for call in sealed
            .into_iter()
            .map(|sealed| sealed.bag)
            .chain(bags)
            .flatten()
        {
            // Only the panic hook reports a panic here: the remaining calls must be made, and a
            // domain may end during an unwind.
            let _ = catch_unwind(AssertUnwindSafe(|| call.call()));
        }
    }
}

impl Garbage<'_> {
    /// Puts a bag where every thread can free it.
    pub fn seal(&mut self, bag: Bag) {
        if !bag.is_empty() {
            let epoch = self.epoch();
            self.sealed.push_back(Sealed { epoch, bag });
        }
    }

    /// Seals what all threads have deferred so far.
    pub fn seal_all(&mut self) {
        for slot in self.core.slots.iter() {
            self.seal(slot.take_bag());
        }
    }

    /// Advances the epoch by one, if garbage waits for that and no pinned thread is behind.
    pub fn advance(&mut self) {
        let epoch = self.epoch();
        let awaited = self
            .sealed
            .back()
            .is_some_and(|newest| newest.epoch + GRACE > epoch);
        // The first check saves a useless barrier; only the second proves that no thread is behind.
        if awaited && !self.is_held_back(epoch) && barrier::heavy() && !self.is_held_back(epoch) {
            self.core.epoch.store(epoch + 1, Release);
        }
    }

    /// Takes the oldest bag, if no thread can still have a pointer to its nodes.
    pub fn take_free(&mut self) -> Option<Bag> {
        let oldest = self.sealed.front()?.epoch;
        (oldest + GRACE <= self.epoch())
            .then(|| self.sealed.pop_front().map(|sealed| sealed.bag))?
    }

    /// Exact, as it changes under this lock only.
    fn epoch(&self) -> u64 {
        self.core.epoch.load(Relaxed)
    }

    /// Whether a thread is visibly pinned in an earlier epoch, or an owned guard is left from one.
    fn is_held_back(&self, epoch: u64) -> bool {
        self.core.slots.iter().any(|slot| slot.holds_back(epoch))
    }
}
