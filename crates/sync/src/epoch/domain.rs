//! A domain's handle, by which threads pin it.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::core::Core;
use super::guard::{Guard, OwnedGuard};
use super::slot::Slot;
use super::thread;

/// A scope of reclamation: calls deferred in a domain wait for the threads that are pinned in it,
/// and for no others.
///
/// A clone is another handle to the same domain. When the last one is dropped, the calls that still
/// wait are made; so none of them may own a handle.
#[derive(Clone)]
pub struct Domain {
    /// What the other field leads to, without the addition that an `Arc` takes.
    core: NonNull<Core>,
    shared: Arc<Core>,
}

// SAFETY: `core` is a shared reference to what `shared` keeps alive.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    /// A domain in which nothing waits.
    pub fn new() -> Self {
        let shared = Arc::new(Core::new());
        let core = NonNull::from(&*shared);
        Domain { core, shared }
    }

    #[inline(always)]
    pub(super) fn core(&self) -> &Core {
        // SAFETY: `shared` keeps it alive, and nothing borrows it exclusively.
        unsafe { self.core.as_ref() }
    }

    /// Pins the calling thread. May be nested. May make calls that were deferred, by whichever
    /// thread.
    ///
    /// # Panics
    /// There are more than 2^26 guards in this thread. Or a call panics; then the thread is not
    /// pinned.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let core = self.core();
        match thread::near(&core.slots) {
            Some(mine) => Guard::first(mine, core),
            None => self.pin_otherwise(),
        }
    }

    #[inline(never)]
    fn pin_otherwise(&self) -> Guard<'_> {
        Guard::otherwise(thread::slot(&self.shared))
    }

    /// Pins without a thread: the guard may be sent to others, and kept by a future. May make calls
    /// as [`pin`](Self::pin) does.
    ///
    /// # Panics
    /// As [`pin`](Self::pin).
    pub fn owned_guard(&self) -> OwnedGuard<'_> {
        self.pin().owned()
    }

    /// How many owned guards live, or were forgotten.
    pub fn owned_guards(&self) -> usize {
        let owned = self.core().slots.iter().map(Slot::owned);
        owned.sum::<u64>() as usize
    }

    /// Whether the calling thread is pinned in this domain.
    pub fn is_pinned(&self) -> bool {
        thread::is_pinned(self.core())
    }

    /// Makes the calls that can be made by now. The calling thread must not be pinned, or it holds
    /// back what it waits for.
    ///
    /// A call is made when the epoch has moved on twice since it was deferred, and one
    /// [`Guard::flush`] moves it on once at most.
    pub fn collect(&self) {
        for _ in 0..3 {
            self.pin().flush();
        }
    }

    /// As [`collect`](Self::collect), with calls that other threads have deferred and would keep
    /// until they have more of them: idle threads, too.
    pub fn collect_all(&self) {
        self.core().garbage().seal_all();
        self.collect();
    }

    /// How many threads ended while they were pinned, which is for ever if a guard was forgotten:
    /// nothing that is deferred from then on is called before the domain ends.
    pub fn stuck(&self) -> usize {
        self.core().stuck.load(Relaxed)
    }
}

impl Default for Domain {
    fn default() -> Self {
        Domain::new()
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut domain = f.debug_struct("Domain");
        domain.field("stuck", &self.stuck()).finish_non_exhaustive()
    }
}
