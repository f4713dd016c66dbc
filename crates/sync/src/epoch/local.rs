//! The calling thread's side: [`pin`], [`Guard`], and what happens when a thread ends.
//!
//! All that the common case asks about is in one word, [`Local::state`]: zero means that the thread has a slot, is not
//! pinned, and has nothing else to do. Then it takes two loads and two stores to pin; everything else is out of line.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::vec;

use super::barrier;
use super::deferred::Deferred;
use super::domain::{Bag, Domain, Garbage, Slot};

/// Calls in a bag: with each bag goes a system call (about a microsecond) and a lock.
const BAG: usize = 64;
/// Bags that one pin frees, so that it isn't long. One is filled meanwhile, so what has piled up gets less.
const BAGS_AT_A_PIN: usize = 4;

static DOMAIN: Domain = Domain::new();
/// The slot of threads that have none. Nobody looks at it.
static NO_SLOT: Slot = Slot::new();

thread_local! {
    static LOCAL: Local = const {
        Local {
            state: Cell::new(NO_SLOT_YET),
            slot: Cell::new(&NO_SLOT),
            is_freeing: Cell::new(false),
        }
    };
    static AT_END: AtEnd = const { AtEnd };
}

/// Bits of [`Local::state`] below the flags: how many guards there are.
const GUARDS: u32 = (1 << 28) - 1;
/// The thread has no slot.
const NO_SLOT_YET: u32 = 1 << 28;
/// The kernel offers no barrier, so the thread crosses one itself.
const FENCED: u32 = 1 << 29;
/// A bag got full.
const IS_DUE: u32 = 1 << 30;
/// The thread's destructors run: it keeps a slot only as long as it is pinned.
const ENDS: u32 = 1 << 31;

/// Has no destructor, so that it can be used for as long as the thread lives, and without asking.
struct Local {
    state: Cell<u32>,
    slot: Cell<&'static Slot>,
    /// Calls are being made: not to begin with others inside of them.
    is_freeing: Cell<bool>,
}

/// A thread is pinned as long as it has one of these: what it can reach meanwhile is not freed.
#[must_use = "the thread is unpinned when the guard is dropped"]
pub struct Guard {
    /// It belongs to its thread.
    not_send: PhantomData<*const ()>,
}

/// Pins the calling thread. May be nested. May run calls that were deferred, by whichever thread.
///
/// # Panics
/// There are 2^28 guards in this thread.
#[inline]
pub fn pin() -> Guard {
    LOCAL.with(|local| {
        if local.state.get() == 0 {
            local.state.set(1);
            DOMAIN.enter(local.slot.get());
            barrier::light();
        } else {
            local.pin_otherwise();
        }
    });
    Guard {
        not_send: PhantomData,
    }
}

/// Whether the calling thread is pinned.
#[inline]
pub fn is_pinned() -> bool {
    LOCAL.with(|local| local.guards() > 0)
}

impl Guard {
    /// Has `call` made once all threads that are pinned now have unpinned, by any thread. Not before this one unpins.
    ///
    /// It is allocated for if it captures more than four words.
    pub fn defer<F, R>(&self, call: F)
    where
        F: FnOnce() -> R + Send + 'static,
    {
        LOCAL.with(|local| local.defer(Deferred::new(move || drop(call()))));
    }

    /// Seals what this thread has deferred, moves the epoch on by one if nobody holds it back, and makes all calls that have waited
    /// long enough. Within such a call, it seals only.
    #[cold]
    pub fn flush(&self) {
        LOCAL.with(|local| {
            let mut garbage = DOMAIN.garbage();
            local.seal(&mut garbage);
            if !local.is_freeing.get() {
                garbage.advance();
                local.free(garbage, usize::MAX);
            }
        });
    }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(|local| {
            let state = local.state.get() - 1;
            local.state.set(state);
            if state == 0 {
                local.slot.get().leave();
            } else {
                local.unpin_otherwise();
            }
        });
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl Local {
    fn guards(&self) -> u32 {
        self.state.get() & GUARDS
    }

    fn has(&self, flag: u32) -> bool {
        self.state.get() & flag != 0
    }

    fn raise(&self, flag: u32) {
        self.state.set(self.state.get() | flag);
    }

    fn lower(&self, flag: u32) {
        self.state.set(self.state.get() & !flag);
    }

    #[inline(never)]
    fn pin_otherwise(&self) {
        assert!(self.guards() < GUARDS, "too many guards in one thread");
        if self.guards() > 0 {
            self.state.set(self.state.get() + 1);
            return;
        }
        if self.has(NO_SLOT_YET) {
            self.take_slot();
        }
        self.state.set(self.state.get() + 1);
        DOMAIN.enter(self.slot.get());
        if self.has(FENCED) {
            barrier::full();
        } else {
            barrier::light();
        }
        if self.has(IS_DUE) {
            self.collect();
        }
    }

    #[inline(never)]
    fn unpin_otherwise(&self) {
        if self.guards() > 0 {
            return;
        }
        self.slot.get().leave();
        if self.has(ENDS) {
            self.give_up_slot();
        } else if self.has(IS_DUE)
            && let Some(mut garbage) = DOMAIN.try_garbage()
        {
            // The calls wait for the next pin, but for any thread's.
            self.seal(&mut garbage);
            self.raise(IS_DUE);
        }
    }

    #[cold]
    fn take_slot(&self) {
        let ends = AT_END.try_with(|_| ()).is_err();
        self.slot.set(DOMAIN.take_slot());
        self.lower(NO_SLOT_YET);
        if ends {
            self.raise(ENDS);
        }
        if !barrier::is_asymmetric() {
            self.raise(FENCED);
        }
    }

    #[cold]
    fn give_up_slot(&self) {
        self.seal(&mut DOMAIN.garbage());
        self.slot.replace(&NO_SLOT).give_up();
        self.raise(NO_SLOT_YET);
    }

    /// The calls that this thread has deferred and not sealed.
    fn bag(&self) -> &'static Cell<Bag> {
        debug_assert!(
            !self.has(NO_SLOT_YET),
            "only who is or was pinned has a bag"
        );
        // SAFETY: who has a slot took it; who has none never gets here.
        unsafe { self.slot.get().bag() }
    }

    fn defer(&self, call: Deferred) {
        let mut bag = self.bag().take();
        if bag.capacity() == 0 {
            bag.reserve_exact(BAG);
        }
        bag.push(call);
        if bag.len() >= BAG {
            self.raise(IS_DUE);
        }
        self.bag().set(bag);
    }

    fn seal(&self, garbage: &mut Garbage<'_>) {
        garbage.seal(self.bag().take());
        self.lower(IS_DUE);
    }

    /// What a full bag gives occasion for. If another thread is at it, the next pin tries again.
    #[cold]
    fn collect(&self) {
        if let Some(mut garbage) = DOMAIN.try_garbage() {
            self.seal(&mut garbage);
            garbage.advance();
            self.free(garbage, BAGS_AT_A_PIN);
        }
    }

    fn free(&self, mut garbage: Garbage<'_>, at_most: usize) {
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
            garbage = DOMAIN.garbage();
        }
    }
}

/// Calls that are being made; those that a panic kept from it go back into the thread's bag.
struct Freeing<'a> {
    local: &'a Local,
    calls: vec::IntoIter<Deferred>,
}

impl<'a> Freeing<'a> {
    fn begin(local: &'a Local, calls: Bag) -> Self {
        local.is_freeing.set(true);
        Freeing {
            local,
            calls: calls.into_iter(),
        }
    }
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        self.local.is_freeing.set(false);
        for call in self.calls.by_ref() {
            self.local.defer(call);
        }
    }
}

/// Its destructor runs when the thread ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        LOCAL.with(|local| {
            local.raise(ENDS);
            // If another destructor still has a guard, its unpinning gives up the slot.
            if local.guards() == 0 && !local.has(NO_SLOT_YET) {
                local.give_up_slot();
            }
        });
    }
}

/// As if the kernel offered no barrier to this thread.
#[cfg(test)]
pub fn fence_from_now_on() {
    drop(pin());
    LOCAL.with(|local| local.raise(FENCED));
}
