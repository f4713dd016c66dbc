//! A [`Guard`] keeps its thread pinned, and takes what is to be called later. An [`OwnedGuard`] is
//! no thread's. Either lends a [`Pinned`], the proof that it is there.
//!
//! The common case asks one question each way. To pin: is the thread's slot idle? Then the epoch
//! goes there. To unpin: is its state zero, which means that this guard is the only one, and
//! nothing is to be done? Then the slot is idle again. Everything else is out of line.

use std::fmt;
use std::marker::PhantomData;
use std::thread::panicking;
use std::vec;

use super::core::{Core, Garbage};
use super::deferred::Deferred;
use super::slot::{Bag, ENDS, FLUSHES, IS_DUE, IS_FENCED, Mine, NESTED, Slot};
use super::{Domain, barrier, thread};

/// Calls in a bag: with each bag goes a system call (about a microsecond) and a lock.
const BAG: usize = 64;
/// Bags that one pin frees, so that it isn't long. One is filled meanwhile, so what has piled up
/// gets less.
const BAGS_AT_A_PIN: usize = 4;

/// A thread is pinned as long as it has one of these: what it can reach meanwhile is not freed.
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
        // From here on a panic unpins.
        let guard = Guard { mine };
        if mine.has(IS_DUE) {
            guard.collect();
        }
        guard
    }

    /// Has `call` made once all threads that are pinned now have unpinned, by any thread. Not
    /// before this one unpins.
    ///
    /// It is allocated for if it captures more than four words. It must not own a handle to the
    /// domain.
    pub fn defer<F, R>(&self, call: F)
    where
        F: FnOnce() -> R + Send + 'static,
    {
        self.add(Deferred::new(move || drop(call())));
    }

    fn add(&self, call: Deferred) {
        let mut bag = self.mine.slot().bag();
        if bag.capacity() == 0 {
            bag.reserve_exact(BAG);
        }
        bag.push(call);
        if bag.len() >= BAG {
            self.mine.raise(IS_DUE);
        }
    }

    /// Seals what this thread has deferred, moves the epoch on by one if nobody holds it back, and
    /// makes all calls that have waited long enough; with the caller's locks held, whatever they
    /// are. Within such a call, it seals only.
    #[cold]
    pub fn flush(&self) {
        let mut garbage = self.mine.core().garbage();
        self.seal(&mut garbage);
        if !thread::is_freeing() {
            garbage.advance();
            self.free(garbage, usize::MAX);
        }
    }

    /// Has the domain flushed as soon as this thread is not pinned any more: when it has let go of
    /// all that it reached by its guards, locks included.
    pub fn flush_at_end(&self) {
        self.mine.raise(FLUSHES);
    }

    /// The proof that it is there.
    #[inline(always)]
    pub fn pinned(&self) -> Pinned<'_> {
        Pinned(PhantomData)
    }

    /// An owned guard that begins now, when the thread is pinned.
    pub(super) fn owned(&self) -> OwnedGuard<'d> {
        let slot = self.mine.slot();
        OwnedGuard {
            slot,
            epoch: self.mine.hold(),
        }
    }

    /// Counts the calling thread's countdown in this domain down. Returns whether that is its end;
    /// then [`set_countdown`](Self::set_countdown) begins the next one.
    ///
    /// For work that is due once in a number of operations. A thread's slot is in its cache anyway,
    /// so this is one instruction, and disturbs no other thread.
    #[inline(always)]
    pub fn count_down(&self) -> bool {
        self.mine.count_down()
    }

    /// Has the countdown end with the `calls`th call of [`count_down`](Self::count_down) from now
    /// on; the first, if `calls` is 0.
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
        // A panic on the way out of another one would end the process: the calls wait for the next
        // time.
        if mine.has(FLUSHES) && !panicking() && !thread::is_freeing() {
            let guard = Guard::otherwise(mine);
            guard.flush();
            mine.lower(FLUSHES);
        } else if mine.has(IS_DUE)
            && let Some(mut garbage) = mine.core().try_garbage()
        {
            // The calls wait for the next pin, but for any thread's.
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

/// As long as one of these lives, what can be reached meanwhile is not freed, whichever thread has
/// it: a future keeps one from poll to poll.
///
/// It is counted in the slot of the thread that made it, so it costs a locked instruction to make,
/// and one to drop. One that is forgotten holds back the garbage of its domain until that ends;
/// [`Domain::owned_guards`] counts it.
#[must_use = "nothing is held back when the guard is dropped"]
pub struct OwnedGuard<'d> {
    slot: &'d Slot,
    epoch: u64,
}

impl OwnedGuard<'_> {
    /// The proof that it is there.
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

/// The proof that a guard lives for as long as `'g`, of either kind: what is reached meanwhile may
/// be looked at for as long. It takes no room.
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

/// Calls that are being made; those that a panic kept from it go back into the thread's bag.
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
            self.guard.add(call);
        }
    }
}

/// As if the kernel offered no barrier to this thread.
#[cfg(test)]
pub fn fence_from_now_on(domain: &Domain) {
    domain.pin().mine.raise(IS_FENCED);
}
