//! What all threads share: the global epoch, a slot for each thread, and the garbage that waits.
//!
//! Invariants:
//! - The global epoch only grows, by one at a time, and only under the lock of the garbage. It never passes a slot's
//!   epoch by more than one as long as that slot is visibly pinned.
//! - The list of slots only grows; a slot that its thread gave up is taken by the next thread.
//! - A bag carries the epoch that was global when it was sealed, and bags lie in the order of their epochs.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::barrier;
use super::deferred::Deferred;
use crate::shim::{AtomicBool, AtomicPtr, AtomicU64, Mutex, MutexGuard};

/// In a slot: its thread is not pinned. Also less than any epoch.
const UNPINNED: u64 = 0;
const FIRST_EPOCH: u64 = 1;
/// Epochs from sealing to freeing.
const GRACE: u64 = 2;

/// Calls that wait together.
pub type Bag = Vec<Deferred>;

/// Two cache lines, as CPUs fetch them in pairs: what every operation touches shares them with nothing.
#[repr(align(128))]
struct Apart<T>(T);

/// A thread's place: where it says which epoch it is pinned in, and keeps what it has yet to seal.
#[repr(align(128))]
pub struct Slot {
    epoch: AtomicU64,
    is_taken: AtomicBool,
    next: Option<&'static Slot>,
    /// Only the thread that took the slot may touch this.
    bag: Cell<Bag>,
}

// SAFETY: `bag` is touched by the thread that took the slot alone (`Slot::bag` is unsafe for that reason), and taking
// (Acquire) follows giving up (Release). All else is atomic or never changes.
unsafe impl Sync for Slot {}

impl Slot {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Slot {
            epoch: AtomicU64::new(UNPINNED),
            is_taken: AtomicBool::new(true),
            next: None,
            bag: Cell::new(Bag::new()),
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Slot {
            epoch: AtomicU64::new(UNPINNED),
            is_taken: AtomicBool::new(true),
            next: None,
            bag: Cell::new(Bag::new()),
        }
    }

    /// What the thread has not sealed yet.
    ///
    /// # Safety
    /// The calling thread has taken the slot.
    pub unsafe fn bag(&self) -> &Cell<Bag> {
        &self.bag
    }

    /// No access from before this can come after it.
    #[inline(always)]
    pub fn leave(&self) {
        self.epoch.store(UNPINNED, Release);
    }

    /// Gives the slot to whoever comes next, bag and all.
    pub fn give_up(&self) {
        debug_assert_eq!(self.epoch.load(Relaxed), UNPINNED);
        self.is_taken.store(false, Release);
    }
}

/// A bag that nothing is added to any more.
struct Sealed {
    /// The global epoch when it was sealed, which was after the last of it was unlinked.
    epoch: u64,
    bag: Bag,
}

/// Garbage that waits, and the right to move the epoch.
pub struct Garbage<'a> {
    domain: &'a Domain,
    sealed: MutexGuard<'a, VecDeque<Sealed>>,
}

/// Threads that see each other's nodes.
pub struct Domain {
    epoch: Apart<AtomicU64>,
    slots: AtomicPtr<Slot>,
    sealed: Mutex<VecDeque<Sealed>>,
}

impl Domain {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Domain {
            epoch: Apart(AtomicU64::new(FIRST_EPOCH)),
            slots: AtomicPtr::new(std::ptr::null_mut()),
            sealed: Mutex::new(VecDeque::new()),
        }
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Domain {
            epoch: Apart(AtomicU64::new(FIRST_EPOCH)),
            slots: AtomicPtr::new(std::ptr::null_mut()),
            sealed: Mutex::new(VecDeque::new()),
        }
    }

    /// Says that the slot's thread is pinned. A barrier must follow before anything shared is read.
    #[inline(always)]
    pub fn enter(&self, slot: &Slot) {
        // Relaxed, for a stale epoch holds the others back, which is never wrong. Release, as this store may be all that
        // a reclaimer sees of the thread's having left before.
        slot.epoch.store(self.epoch.0.load(Relaxed), Release);
    }

    /// A slot for the calling thread: one that was given up, or a new one. O(slots).
    pub fn take_slot(&self) -> &'static Slot {
        let free = self.slots().find(|slot| {
            !slot.is_taken.load(Relaxed)
                && slot
                    .is_taken
                    .compare_exchange(false, true, Acquire, Relaxed)
                    .is_ok()
        });
        free.unwrap_or_else(|| self.add_slot())
    }

    fn add_slot(&self) -> &'static Slot {
        let slot = Box::into_raw(Box::new(Slot::new()));
        let mut head = self.slots.load(Acquire);
        loop {
            // SAFETY: nobody else knows the new slot yet; and what is in the list lives for ever.
            unsafe { (*slot).next = head.as_ref() };
            match self.slots.compare_exchange(head, slot, AcqRel, Acquire) {
                // SAFETY: it is never freed.
                Ok(_) => return unsafe { &*slot },
                Err(now) => head = now,
            }
        }
    }

    fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        // SAFETY: slots of the list are never freed, nor changed but in atomics and by those who took them.
        let first = unsafe { self.slots.load(Acquire).as_ref() };
        std::iter::successors(first, |slot| slot.next)
    }

    /// Locks the garbage. No call is made under this lock, so it is held briefly.
    pub fn garbage(&self) -> Garbage<'_> {
        Garbage {
            domain: self,
            sealed: self.sealed.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Locks the garbage unless another thread is at it.
    pub fn try_garbage(&self) -> Option<Garbage<'_>> {
        let sealed = self.sealed.try_lock().ok()?;
        Some(Garbage {
            domain: self,
            sealed,
        })
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

    /// Moves the epoch on by one, if something waits for that and no pinned thread is behind.
    pub fn advance(&mut self) {
        let epoch = self.epoch();
        let awaited = self
            .sealed
            .back()
            .is_some_and(|newest| newest.epoch + GRACE > epoch);
        // The first look saves the barrier where it would be for nothing; only the second proves anything.
        if awaited && !self.is_held_back(epoch) && barrier::heavy() && !self.is_held_back(epoch) {
            self.domain.epoch.0.store(epoch + 1, Release);
        }
    }

    /// Takes the oldest bag, if nobody can see anything of it any more.
    pub fn take_free(&mut self) -> Option<Bag> {
        let oldest = self.sealed.front()?.epoch;
        (oldest + GRACE <= self.epoch())
            .then(|| self.sealed.pop_front().map(|sealed| sealed.bag))?
    }

    /// Exact, as it changes under this lock only.
    fn epoch(&self) -> u64 {
        self.domain.epoch.0.load(Relaxed)
    }

    /// Whether a thread is visibly pinned in an earlier epoch. What threads did that are seen to have left it happened
    /// before this.
    fn is_held_back(&self, epoch: u64) -> bool {
        self.domain.slots().any(|slot| {
            let pinned = slot.epoch.load(Acquire);
            pinned != UNPINNED && pinned != epoch
        })
    }
}
