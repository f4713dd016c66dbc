//! The calling thread's part in all domains: an index, by which its slot in each is found, and a
//! list of the domains in which it has one, so that it gives them up when it ends.
//!
//! Indices are unique among the threads that have one, and come back when a thread ends. A thread
//! that ended while it was pinned in a domain keeps its index until it unpins there: for ever, if
//! it forgot the guard.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::barrier;
use super::core::Core;
use super::index::Indices;
use super::slot::{ENDS, IS_DUE, IS_FENCED, IS_FREE, IS_STUCK, Mine};
use super::slots::{Near, Slots};

static INDICES: Mutex<Indices> = Mutex::new(Indices::new());

thread_local! {
    static THREAD: Thread = const {
        Thread {
            near: Cell::new(Near::NOBODY),
            index: Cell::new(NO_INDEX),
            late: Cell::new(0),
            is_freeing: Cell::new(false),
        }
    };
    static AT_END: AtEnd = const { AtEnd(RefCell::new(Vec::new())) };
}

/// An index that no thread has.
const NO_INDEX: usize = 0;

/// Has no destructor, so that it can be used for as long as the thread lives, and without asking.
struct Thread {
    near: Cell<Near>,
    index: Cell<usize>,
    /// Once the thread's destructors run: the slots that it still has.
    late: Cell<usize>,
    /// Calls are being made: not to begin with others inside of them.
    is_freeing: Cell<bool>,
}

/// The calling thread's slot if it is near and idle.
#[inline(always)]
pub fn near(slots: &Slots) -> Option<Mine<'_>> {
    let slot = slots.near(THREAD.with(|thread| thread.near.get()));
    // SAFETY: it is the slot of this thread's index. The only other one it could be is that of
    // index 0, which no thread takes, so it is never idle.
    slot.is_idle().then(|| unsafe { slot.mine() })
}

/// The calling thread's slot, taken if need be.
pub fn slot(core: &Arc<Core>) -> Mine<'_> {
    THREAD.with(|thread| {
        if thread.index.get() == NO_INDEX {
            thread.take_index();
        }
        let mine = thread.slot(core);
        if mine.has(IS_FREE) {
            thread.take(core);
        }
        mine
    })
}

/// Whether the calling thread is pinned in this domain.
pub fn is_pinned(core: &Core) -> bool {
    THREAD.with(|thread| thread.index.get() != NO_INDEX && thread.slot(core).is_pinned())
}

/// Gives up a slot that was kept after its thread began to end. The bag is empty.
pub fn give_up_late(mine: Mine<'_>) {
    if mine.has(IS_STUCK) {
        mine.core().stuck.fetch_sub(1, Relaxed);
    }
    mine.give_up();
    THREAD.with(Thread::has_one_less);
}

/// Whether the calling thread is making deferred calls.
pub fn is_freeing() -> bool {
    THREAD.with(|thread| thread.is_freeing.get())
}

pub fn set_freeing(is_freeing: bool) {
    THREAD.with(|thread| thread.is_freeing.set(is_freeing));
}

impl Thread {
    /// The slot of the thread's index, which it has.
    fn slot<'d>(&self, core: &'d Core) -> Mine<'d> {
        let index = self.index.get();
        debug_assert_ne!(index, NO_INDEX);
        // SAFETY: no other thread has this index at the same time.
        unsafe { core.slots.of(index).mine() }
    }

    #[cold]
    fn take_index(&self) {
        let index = indices(Indices::take);
        self.index.set(index);
        self.near.set(Near::of(index));
    }

    #[cold]
    fn take(&self, core: &Arc<Core>) {
        let listed = AT_END.try_with(|AtEnd(domains)| {
            let mut domains = domains.borrow_mut();
            if domains.len() == domains.capacity() {
                domains.retain(|core| core.strong_count() > 0);
            }
            domains.push(Arc::downgrade(core));
        });
        let mut flags = 0;
        if listed.is_err() {
            self.late.set(self.late.get() + 1);
            flags |= ENDS;
        }
        if !barrier::is_asymmetric() {
            flags |= IS_FENCED;
        }
        // SAFETY: the slot was found in this domain.
        unsafe { self.slot(core).take(core, flags) };
    }

    fn has_one_less(&self) {
        self.late.set(self.late.get() - 1);
        if self.late.get() == 0 {
            self.near.set(Near::NOBODY);
            indices(|indices| indices.give_back(self.index.replace(NO_INDEX)));
        }
    }
}

fn indices<R>(change: impl FnOnce(&mut Indices) -> R) -> R {
    change(&mut INDICES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The domains in which the thread has a slot. Its destructor runs when the thread ends.
struct AtEnd(RefCell<Vec<Weak<Core>>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            // The index is kept until the last domain was seen.
            thread.late.set(thread.late.get() + 1);
            for core in self.0.take() {
                // If this is the last handle, it makes calls, which may pin other domains: as long
                // as they are to be seen below, they have this thread's slot; afterwards they take
                // it again, late.
                let Some(core) = core.upgrade() else {
                    continue;
                };
                let mine = thread.slot(&core);
                if mine.is_pinned() {
                    // If another destructor still has a guard, its unpinning gives up the slot.
                    core.stuck.fetch_add(1, Relaxed);
                    mine.raise(ENDS | IS_STUCK);
                    thread.late.set(thread.late.get() + 1);
                } else {
                    core.garbage().seal(mine.slot().take_bag());
                    mine.lower(IS_DUE);
                    mine.give_up();
                }
            }
            thread.has_one_less();
        });
    }
}
