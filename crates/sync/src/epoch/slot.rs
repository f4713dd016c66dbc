//! A thread's slot in a domain: the epoch that it is pinned in, and its unsealed bag.
//!
//! Other threads read [`Slot::holds_back`], release guards that [`Mine::hold`] counted, and may
//! empty the bag. Everything else belongs to the thread that has the slot, through [`Mine`].
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::take;
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::core::Core;
use super::deferred::Deferred;
use crate::shim::{AtomicU64, Mutex, MutexGuard};

/// Calls that wait together.
pub type Bag = Vec<Deferred>;

/// The bag that a thread fills.
#[derive(Default)]
pub struct OpenBag {
    calls: Bag,
    /// Bytes that the calls free, as they were counted.
    bytes: usize,
}

impl OpenBag {
    /// Calls in a bag at most, for the memory of the calls themselves.
    const MOST_CALLS: usize = 512;
    /// A bag of calls that free this many bytes is full.
    const MOST_BYTES: usize = 64 << 10;

    /// Adds a call that frees about `bytes` bytes. Returns whether the bag is full.
    pub fn add(&mut self, call: Deferred, bytes: usize) -> bool {
        self.calls.push(call);
        self.bytes += bytes;
        self.calls.len() >= Self::MOST_CALLS || self.bytes >= Self::MOST_BYTES
    }
}

/// In [`Slot::epoch`]: the thread is not pinned, and its state is zero.
const IDLE: u64 = 0;
/// The thread is not pinned, and its state is not zero: it has something to do when it pins next.
const UNPINNED: u64 = 1;
/// The first epoch.
pub const FIRST_EPOCH: u64 = 2;

/// Bits of a slot's state below the flags: the number of guards beside the first.
pub const NESTED: u32 = (1 << 26) - 1;
/// No thread has the slot.
pub const IS_FREE: u32 = 1 << 26;
/// The kernel offers no barrier, so the thread crosses one itself.
pub const IS_FENCED: u32 = 1 << 27;
/// A bag got full.
pub const IS_DUE: u32 = 1 << 28;
/// The domain is to be flushed as soon as the thread unpins.
pub const FLUSHES: u32 = 1 << 29;
/// The thread's destructors run: it keeps the slot only while it is pinned.
pub const ENDS: u32 = 1 << 30;
/// The thread ended while it was pinned, and counts as stuck.
pub const IS_STUCK: u32 = 1 << 31;

/// A thread's place in a domain.
pub struct Slot {
    epoch: AtomicU64,
    /// The number of owned guards that were made here in even epochs and in odd ones, and still
    /// live.
    owned: [AtomicU64; 2],
    /// Zero is the common case: the thread has the slot, one guard at most, and nothing else to do.
    state: Cell<u32>,
    /// The thread's countdown: see [`Mine::count_down`].
    countdown: Cell<u32>,
    core: Cell<*const Core>,
    /// The calls that its thread has deferred and that are not sealed.
    bag: Mutex<OpenBag>,
}

// SAFETY: only the thread that has the slot uses the cells (so `Slot::mine` is unsafe), and the
// slot passes from one thread to the next under a lock. All else is atomic.
unsafe impl Sync for Slot {}
// SAFETY: as above; the pointer leads to the domain that owns the slot.
unsafe impl Send for Slot {}

impl Slot {
    pub fn new() -> Self {
        Slot {
            epoch: AtomicU64::new(UNPINNED),
            owned: [AtomicU64::new(0), AtomicU64::new(0)],
            state: Cell::new(IS_FREE),
            countdown: Cell::new(1),
            core: Cell::new(ptr::null()),
            bag: Mutex::default(),
        }
    }

    /// Whether the domain, which is in this epoch, has to stay there: the thread is visibly pinned
    /// in another one, or an owned guard lives that was made here in another one. If it returns
    /// false, accesses under guards that have ended happened before this.
    pub fn holds_back(&self, epoch: u64) -> bool {
        // In this order: a load that sees the thread unpinned also sees the owned guards that it
        // left.
        let pinned = self.epoch.load(Acquire);
        (pinned >= FIRST_EPOCH && pinned != epoch) || self.owned_in(epoch + 1).load(Acquire) > 0
    }

    /// The number of owned guards that were made here and still live.
    pub fn owned(&self) -> u64 {
        self.owned.iter().map(|owned| owned.load(Relaxed)).sum()
    }

    /// Releases an owned guard that was made in an epoch of this parity; called by any thread.
    pub fn release(&self, epoch: u64) {
        self.owned_in(epoch).fetch_sub(1, Release);
    }

    /// Locks the bag of calls that are not sealed: briefly, and after the domain's garbage where
    /// both are locked.
    pub fn bag(&self) -> MutexGuard<'_, OpenBag> {
        self.bag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the bag, to seal it.
    pub fn take_bag(&self) -> Bag {
        take(&mut *self.bag()).calls
    }

    fn owned_in(&self, epoch: u64) -> &AtomicU64 {
        &self.owned[epoch as usize % 2]
    }

    /// Publishes that the thread is pinned in an epoch.
    #[inline(always)]
    pub fn enter(&self, epoch: u64) {
        // Release, as this may be the only store by which a reclaimer learns that the thread
        // unpinned before.
        self.epoch.store(epoch, Release);
    }

    /// Publishes that the thread is not pinned. No earlier access can come after it.
    #[inline(always)]
    pub fn leave(&self) {
        self.epoch.store(IDLE, Release);
    }

    /// Whether a thread has the slot, is not pinned, and has nothing else to do.
    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.epoch.load(Relaxed) == IDLE
    }

    /// The slot as its own thread sees it.
    ///
    /// # Safety
    /// The calling thread has the slot's index, or no other thread knows the domain.
    #[inline(always)]
    pub unsafe fn mine(&self) -> Mine<'_> {
        Mine {
            slot: self,
            not_send: PhantomData,
        }
    }
}

/// The calling thread's slot in a domain.
#[derive(Clone, Copy)]
pub struct Mine<'d> {
    slot: &'d Slot,
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

impl<'d> Mine<'d> {
    /// Zero: to unpin, the thread only stores that it is idle.
    #[inline(always)]
    pub fn state(self) -> u32 {
        self.slot.state.get()
    }

    /// Decrements the thread's countdown. Returns whether it ended.
    #[inline(always)]
    pub fn count_down(self) -> bool {
        let left = self.slot.countdown.get().wrapping_sub(1);
        self.slot.countdown.set(left);
        left == 0
    }

    /// Sets the thread's countdown, which ends at the call of [`count_down`](Self::count_down) of
    /// this number.
    pub fn set_countdown(self, calls: u32) {
        self.slot.countdown.set(calls.max(1));
    }

    /// Counts a guard beside the first, or one less.
    pub fn set_state(self, state: u32) {
        self.slot.state.set(state);
        if !self.is_pinned() {
            let epoch = if state == 0 { IDLE } else { UNPINNED };
            self.slot.epoch.store(epoch, Release);
        }
    }

    pub fn is_pinned(self) -> bool {
        self.slot.epoch.load(Relaxed) >= FIRST_EPOCH
    }

    pub fn has(self, flag: u32) -> bool {
        self.state() & flag != 0
    }

    pub fn raise(self, flag: u32) {
        self.set_state(self.state() | flag);
    }

    pub fn lower(self, flag: u32) {
        self.set_state(self.state() & !flag);
    }

    /// Counts an owned guard, which stays when the thread unpins. The thread is pinned. Returns the
    /// epoch to [`release`](Slot::release) it by.
    pub fn hold(self) -> u64 {
        debug_assert!(self.is_pinned());
        let epoch = self.slot.epoch.load(Relaxed);
        // Relaxed, as a reclaimer that sees the thread unpinned sees this too.
        self.slot.owned_in(epoch).fetch_add(1, Relaxed);
        epoch
    }

    /// Like [`Slot::leave`], whatever the state is.
    pub fn leave(self) {
        self.slot.leave();
        self.set_state(self.state());
    }

    /// The part that other threads see.
    #[inline(always)]
    pub fn slot(self) -> &'d Slot {
        self.slot
    }

    /// Takes the free slot for the calling thread.
    ///
    /// # Safety
    /// The slot belongs to this domain.
    pub unsafe fn take(self, core: &'d Core, flags: u32) {
        debug_assert_eq!(self.state(), IS_FREE);
        self.slot.core.set(core);
        self.set_state(flags);
    }

    /// Frees the slot for the next thread with its index. The bag is empty.
    pub fn give_up(self) {
        debug_assert!(!self.is_pinned() && self.state() & NESTED == 0);
        self.set_state(IS_FREE);
    }

    /// The domain that owns the slot.
    ///
    /// # Panics
    /// No thread has taken the slot so far.
    pub fn core(self) -> &'d Core {
        // SAFETY: `take` got the domain that owns the slot: it lives as long as the slot, and the
        // slot as long as `'d`.
        unsafe { self.slot.core.get().as_ref() }.expect("the slot was taken")
    }
}
