//! A [`Guard`] keeps its thread pinned, and takes calls to make later. An [`OwnedGuard`] belongs to
//! no thread. Both lend a [`Pinned`], the proof that they exist.
//!
//! The common case is one branch each way. To pin: if the thread's slot is idle, store the epoch
//! there. To unpin: if its state is zero (this guard is the only one, and there is nothing to do),
//! the slot is idle again. Everything else is out of line.

use std::fmt;
use std::marker::PhantomData;
use std::thread::panicking;
use std::vec;

use super::core::{Core, Garbage};
use super::deferred::Deferred;
use super::slot::{Bag, ENDS, FLUSHES, IS_DUE, IS_FENCED, Mine, NESTED, Slot};
use super::{Domain, barrier, thread};

/// Bytes that [`Guard::defer`] takes a call to free.
pub const UNKNOWN_BYTES: usize = 1 << 10;
/// Bags that one pin frees at most, so that it does not take long. It fills less than one
/// meanwhile, so the backlog shrinks.
const BAGS_AT_A_PIN: usize = 4;

/// Keeps its thread pinned: nothing that the thread can reach meanwhile is freed.
#[must_use = "the thread is unpinned when the guard is dropped"]
pub struct Guard<'d> {
    mine: Mine<'d>,
}

impl<'d> Guard<'d> {
    /// The slot is idle.
    #[inline(always)]
    pub(super) fn first(mine: Mine<'d>, core: &Core) -> Self {
        core.enter(mine.slot());
        barrier::light();
        Guard { mine }
    }

    pub(super) fn otherwise(mine: Mine<'d>) -> Self {
        if mine.is_pinned() {
            let nested = mine.state() & NESTED;
            assert!(nested < NESTED, "too many guards in one thread");
            mine.set_state(mine.state() + 1);
            return Guard { mine };
        }
        mine.core().enter(mine.slot());
        if mine.has(IS_FENCED) {
            barrier::full();
        } else {
            barrier::light();
        }
        // From here on, a panic unpins.
        let guard = Guard { mine };
        if mine.has(IS_DUE) {
            guard.collect();
        }
        guard
    }

    /// Defers `call` until all threads that are pinned now, this one included, have unpinned. Any
    /// thread may make it.
    ///
    /// It is heap-allocated if it captures more than four words. It must not own a handle to the
    /// domain.
    pub fn defer<F, R>(&self, call: F)
    where
        F: FnOnce() -> R + Send + 'static,
    {
        self.defer_freeing(UNKNOWN_BYTES, call);
    }

    /// The same for a call that frees about `bytes` bytes. Calls that free little wait in larger
    /// numbers, as each bag of them costs a system call and interrupts the other threads.
    pub fn defer_freeing<F, R>(&self, bytes: usize, call: F)
    where
        F: FnOnce() -> R + Send + 'static,
    {
        self.add(Deferred::new(move || drop(call())), bytes);
    }

    fn add(&self, call: Deferred, bytes: usize) {
        if self.mine.slot().bag().add(call, bytes) {
            self.mine.raise(IS_DUE);
        }
    }

    /// Seals this thread's bag, advances the epoch by one if no thread holds it back, and makes all
    /// calls that have waited long enough, while the caller may hold locks of its own. Within such
    /// a call, it only seals.
    #[cold]
    pub fn flush(&self) {
        let mut garbage = self.mine.core().garbage();
        self.seal(&mut garbage);
        if !thread::is_freeing() {
            garbage.advance();
            self.free(garbage, usize::MAX);
        }
    }

    /// Requests a flush of the domain as soon as this thread unpins, when it has released
    /// everything that it reached under its guards, including locks.
    pub fn flush_at_end(&self) {
        self.mine.raise(FLUSHES);
    }

    /// The proof that the guard exists.
    #[inline(always)]
    pub fn pinned(&self) -> Pinned<'_> {
        Pinned(PhantomData)
    }

    /// An owned guard that starts now, while the thread is pinned.
    pub(super) fn owned(&self) -> OwnedGuard<'d> {
        let slot = self.mine.slot();
        OwnedGuard {
            slot,
            epoch: self.mine.hold(),
        }
    }

    /// Decrements the calling thread's countdown in this domain. Returns whether it ended; then
    /// [`set_countdown`](Self::set_countdown) starts the next one.
    ///
    /// For work that is due once in a number of operations. A thread's slot is in its cache anyway,
    /// so this is one instruction, and disturbs no other thread.
    #[inline(always)]
    pub fn count_down(&self) -> bool {
        self.mine.count_down()
    }

    /// Ends the countdown at the `calls`th call of [`count_down`](Self::count_down) from now on, or
    /// at the first if `calls` is 0.
    pub fn set_countdown(&self, calls: u32) {
        self.mine.set_countdown(calls);
    }

    /// Whether it is a guard of this domain.
    pub fn is_of(&self, domain: &Domain) -> bool {
        std::ptr::eq(self.mine.core(), domain.core())
    }

    fn seal(&self, garbage: &mut Garbage<'_>) {
        garbage.seal(self.mine.slot().take_bag());
        self.mine.lower(IS_DUE);
    }

    /// Tries to advance the epoch. If another thread is doing so, the next pin tries again.
    #[cold]
    fn collect(&self) {
        if !thread::is_freeing()
            && let Some(mut garbage) = self.mine.core().try_garbage()
        {
            self.seal(&mut garbage);
            garbage.advance();
            self.free(garbage, BAGS_AT_A_PIN);
        }
    }

    fn free(&self, mut garbage: Garbage<'d>, at_most: usize) {
        for _ in 0..at_most {
            let Some(calls) = garbage.take_free() else {
                return;
            };
            drop(garbage);
            let mut freeing = Freeing::begin(self, calls);
            for call in freeing.calls.by_ref() {
                call.call();
            }
            drop(freeing);
            garbage = self.mine.core().garbage();
        }
    }

    /// The state is not zero.
    #[inline(never)]
    fn unpin_otherwise(mine: Mine<'d>) {
        if mine.state() & NESTED > 0 {
            return mine.set_state(mine.state() - 1);
        }
        mine.leave();
        if mine.has(ENDS) {
            mine.core().garbage().seal(mine.slot().take_bag());
            return thread::give_up_late(mine);
        }
        // A panic during another panic would abort the process: the calls wait for the next time.
        if mine.has(FLUSHES) && !panicking() && !thread::is_freeing() {
            let guard = Guard::otherwise(mine);
            guard.flush();
            mine.lower(FLUSHES);
        } else if mine.has(IS_DUE)
            && let Some(mut garbage) = mine.core().try_garbage()
        {
            // The calls wait for the next pin of any thread.
            garbage.seal(mine.slot().take_bag());
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.mine.state() == 0 {
            self.mine.slot().leave();
        } else {
            Guard::unpin_otherwise(self.mine);
        }
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// Keeps everything that can be reached meanwhile from being freed, whichever thread has it: a
/// future keeps one from poll to poll.
///
/// It is counted in the slot of the thread that made it: one locked instruction to make it, and one
/// to drop it. A forgotten one holds back the garbage of its domain until the domain ends;
/// [`Domain::owned_guards`] counts it.
#[must_use = "nothing is held back when the guard is dropped"]
pub struct OwnedGuard<'d> {
    slot: &'d Slot,
    epoch: u64,
}

impl OwnedGuard<'_> {
    /// The proof that the guard exists.
    #[inline(always)]
    pub fn pinned(&self) -> Pinned<'_> {
        Pinned(PhantomData)
    }
}

impl Drop for OwnedGuard<'_> {
    fn drop(&mut self) {
        self.slot.release(self.epoch);
    }
}

impl fmt::Debug for OwnedGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnedGuard")
    }
}

/// The proof that a guard of either kind lives for `'g`: a node that is reached meanwhile may be
/// read for as long. It takes no memory.
#[derive(Clone, Copy, Debug)]
pub struct Pinned<'g>(PhantomData<&'g ()>);

impl<'g> From<&'g Guard<'_>> for Pinned<'g> {
    #[inline(always)]
    fn from(guard: &'g Guard<'_>) -> Self {
        guard.pinned()
    }
}

impl<'g> From<&'g OwnedGuard<'_>> for Pinned<'g> {
    #[inline(always)]
    fn from(guard: &'g OwnedGuard<'_>) -> Self {
        guard.pinned()
    }
}

/// Calls in progress. If one panics, the others go back into the thread's bag.
struct Freeing<'g, 'd> {
    guard: &'g Guard<'d>,
    calls: vec::IntoIter<Deferred>,
}

impl<'g, 'd> Freeing<'g, 'd> {
    fn begin(guard: &'g Guard<'d>, calls: Bag) -> Self {
        thread::set_freeing(true);
        Freeing {
            guard,
            calls: calls.into_iter(),
        }
    }
}

impl Drop for Freeing<'_, '_> {
    fn drop(&mut self) {
        thread::set_freeing(false);
        for call in self.calls.by_ref() {
            self.guard.add(call, UNKNOWN_BYTES);
        }
    }
}

/// Makes this thread behave as if the kernel offered no barrier.
#[cfg(test)]
pub fn fence_from_now_on(domain: &Domain) {
    domain.pin().mine.raise(IS_FENCED);
}
