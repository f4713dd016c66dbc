//! The optimistic lock: readers take no lock, but compare versions before and after.
//!
//! # The protocol
//!
//! A [`Versioned`] is one word beside the data it guards. The word holds a version and two bits,
//! `LOCKED` and `OBSOLETE`. It follows optimistic lock coupling (Leis, Scheibner, Kemper, Neumann:
//! "The ART of Practical Synchronization", DaMoN 2016).
//!
//! **To read:** take a [`Snapshot`] with [`Versioned::read`] (it waits while the word is locked),
//! and run closures over the data with [`Snapshot::get`]. If `get` returns a result, the version
//! was the same afterwards, so the result is valid. A reader writes nothing, so a hot root stays in
//! every core's cache. There is no other access to the data, so an unchecked read does not compile.
//! While the closure runs, a writer may change anything: the closure sees a mixture of old and new
//! words. So it must end, index in bounds and follow no pointer, whatever it reads.
//!
//! **To write:** get an [`Exclusive`] from a snapshot ([`Snapshot::upgrade`], which fails if the
//! data changed since) or without one ([`Versioned::lock`], which waits). Dropping it unlocks with
//! the next version; [`Exclusive::unchanged`] unlocks with the same one.
//!
//! A panic unlocks, too, with the next version: unwinding drops the guard, and there is no poison.
//! So an operation that calls foreign code under the lock does so while the data is whole: before
//! its first change, or after its last.
//!
//! **To step** from a parent to a child: take the child's pointer with the parent's `get`, take the
//! child's snapshot, then [`Snapshot::validate`] the parent. If the parent is the same, the child
//! was its child when its snapshot was taken. Writers lock top-down (parent, then children left to
//! right).
//!
//! **To remove** a node, or to move it: hold it and its parent, store another link in the parent,
//! then [`Exclusive::retire`] the node. Every later reader of it gets [`Restart`] and starts over
//! from the root. The epoch reclaims its memory, as readers may still have pointers to it.
//!
//! **To restart** is always allowed and never wrong. The number of restarts has no bound: an
//! unbroken stream of writers to one node starves its readers, though they yield their core while
//! they wait.
//!
//! # Why it works
//!
//! Data consists of atomics with `Relaxed` accesses; two pairs of barriers order them against the
//! word.
//!
//! - *Begin.* Writer: data stores, then the unlocking store of the word (`Release`). Reader: load
//!   of the word (`Acquire`), then data loads. A reader that sees version v sees all data stores
//!   before v.
//! - *End.* Writer: locking the word, `fence(Release)`, data stores. Reader: data loads,
//!   `fence(Acquire)`, load of the word. A reader that saw any data store of a writer sees that
//!   writer's lock, or later, in the word, and fails.
//!
//! **Equal versions mean equal contents for as long as a reader stays pinned.** Within a node's
//! life every change has a new version; 62 bits do not wrap in practice. Across lives the epoch
//! guarantees it: a thread uses a snapshot under the guard under which it found the node, and the
//! node's memory is not reused before that thread has unpinned. So the next node there may start
//! with any version: the radix tree's nodes start at zero ([`Versioned::claim`] of a zeroed word),
//! as their slots may have held leaves, which have no version.
//!
//! Some readers take an address that they know nothing about, to learn which leaf may be there. The
//! memory may be claimed while they read: the epoch does not keep a slot that was free before they
//! pinned from being handed out. In the B+tree a node continues the version of its slot's former
//! node, so they do not mistake a mixture of two nodes for one. Where slots may hold anything else,
//! and in the radix tree, they use the result only after a descent by that key has led to the same
//! address.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::shim::{AtomicU64, fence, pause, step};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const STEP: u64 = 4;

/// A read may have returned inconsistent data; start over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restart;

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a writer got in between")
    }
}

impl std::error::Error for Restart {}

/// Data behind an optimistic lock. `T` consists of atomics (or never changes): readers and writers
/// get shared references only, so their races are races of atomics, not of memory.
#[derive(Debug)]
#[repr(C)]
pub struct Versioned<T> {
    word: AtomicU64,
    data: T,
}

impl<T> Versioned<T> {
    /// New data, unlocked.
    pub fn new(data: T) -> Self {
        Versioned {
            word: AtomicU64::new(0),
            data,
        }
    }

    /// Starts an optimistic read. Waits while a writer holds the lock.
    ///
    /// # Errors
    /// The data was retired.
    // Always inlined, also where code for wide vectors calls it: the compiler does not inline a
    // function that returns two words there.
    #[inline(always)]
    pub fn read(&self) -> Result<Snapshot<'_, T>, Restart> {
        step();
        let mut version = self.word.load(Acquire);
        if version & (LOCKED | OBSOLETE) != 0 {
            version = self.wait()?;
        }
        Ok(Snapshot { of: self, version })
    }

    /// Starts an optimistic read, or fails if a writer holds the lock: for memory that may not hold
    /// a `Versioned` any more.
    ///
    /// # Errors
    /// The data is locked, or was retired.
    pub fn try_read(&self) -> Result<Snapshot<'_, T>, Restart> {
        step();
        let version = self.word.load(Acquire);
        if version & (LOCKED | OBSOLETE) != 0 {
            return Err(Restart);
        }
        Ok(Snapshot { of: self, version })
    }

    /// Starts a read of data that may be retired. Retired data does not change until it is claimed,
    /// and the epoch prevents that while the thread stays pinned. Waits while a writer holds the
    /// lock.
    #[inline(always)]
    pub fn read_last(&self) -> Snapshot<'_, T> {
        self.read().unwrap_or_else(|Restart| {
            let version = self.word.load(Acquire);
            Snapshot { of: self, version }
        })
    }

    /// Whether the data was retired.
    pub fn is_retired(&self) -> bool {
        self.word.load(Acquire) & OBSOLETE != 0
    }

    /// Locks for writing. Waits while another writer holds the lock.
    ///
    /// # Errors
    /// The data was retired.
    #[inline(always)]
    pub fn lock(&self) -> Result<Exclusive<'_, T>, Restart> {
        loop {
            if let Ok(exclusive) = self.read()?.upgrade() {
                return Ok(exclusive);
            }
        }
    }

    /// Claims retired (or never used, all-zero) data for a new node: readers restart until the
    /// returned lock is dropped, and then see a version that was never there before.
    ///
    /// # Safety
    /// The caller owns the memory alone: no thread has the lock, or reaches the data by a link.
    #[allow(unsafe_code)]
    pub unsafe fn claim(&self) -> Exclusive<'_, T> {
        let version = self.word.load(Relaxed) & !(LOCKED | OBSOLETE);
        self.word.store(version | LOCKED, Relaxed);
        fence(Release);
        Exclusive {
            of: self,
            unlocked: version.wrapping_add(STEP),
        }
    }

    #[cold]
    fn wait(&self) -> Result<u64, Restart> {
        let mut attempt = 0;
        loop {
            let version = self.word.load(Acquire);
            if version & OBSOLETE != 0 {
                return Err(Restart);
            }
            if version & LOCKED == 0 {
                return Ok(version);
            }
            pause(attempt);
            attempt += 1;
        }
    }
}

/// A reader's view of [`Versioned`] data at one version.
#[derive(Debug)]
pub struct Snapshot<'a, T> {
    of: &'a Versioned<T>,
    version: u64,
}

impl<T> Clone for Snapshot<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Snapshot<'_, T> {}

impl<'a, T> Snapshot<'a, T> {
    /// Computes something from the data.
    ///
    /// `compute` may see words of different versions; it must return for any of them.
    ///
    /// # Errors
    /// The data changed since the snapshot was taken, so the result is dropped.
    #[inline(always)]
    pub fn get<R>(&self, compute: impl FnOnce(&T) -> R) -> Result<R, Restart> {
        let result = compute(&self.of.data);
        self.validate().map(|()| result)
    }

    /// Validates: whether the data is unchanged.
    ///
    /// # Errors
    /// The data changed.
    #[inline(always)]
    pub fn validate(&self) -> Result<(), Restart> {
        step();
        fence(Acquire);
        if self.of.word.load(Relaxed) == self.version {
            Ok(())
        } else {
            Err(Restart)
        }
    }

    /// Locks, if the data is unchanged since the snapshot was taken.
    ///
    /// # Errors
    /// The data changed, or a writer holds the lock.
    #[inline(always)]
    pub fn upgrade(self) -> Result<Exclusive<'a, T>, Restart> {
        step();
        let locked = self.version | LOCKED;
        match self
            .of
            .word
            .compare_exchange(self.version, locked, Acquire, Relaxed)
        {
            Ok(_) => {
                fence(Release);
                Ok(Exclusive {
                    of: self.of,
                    unlocked: self.version.wrapping_add(STEP),
                })
            }
            Err(_) => Err(Restart),
        }
    }

    /// The guarded object itself, to compare identities.
    pub fn of(&self) -> &'a Versioned<T> {
        self.of
    }
}

/// The only writer of [`Versioned`] data; unlocks when dropped.
#[derive(Debug)]
pub struct Exclusive<'a, T> {
    of: &'a Versioned<T>,
    unlocked: u64,
}

impl<'a, T> Exclusive<'a, T> {
    /// Unlocks under the same version: the data is unchanged, so readers need not restart.
    pub fn unchanged(mut self) {
        self.unlocked = self.unlocked.wrapping_sub(STEP);
    }

    /// Unlocks for good: from now on, readers restart.
    pub fn retire(mut self) {
        self.unlocked |= OBSOLETE;
    }

    /// The guarded object itself, to compare identities.
    pub fn of(&self) -> &'a Versioned<T> {
        self.of
    }
}

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.of.data
    }
}

impl<T> Drop for Exclusive<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        step();
        self.of.word.store(self.unlocked, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_between_spoils_the_read() {
        let cell = Versioned::new(AtomicU64::new(1));
        let before = cell.read().unwrap();
        assert_eq!(before.get(|data| data.load(Relaxed)), Ok(1));
        cell.lock().unwrap().store(2, Relaxed);
        assert_eq!(before.get(|data| data.load(Relaxed)), Err(Restart));
        assert!(before.upgrade().is_err());
        assert_eq!(cell.read().unwrap().get(|data| data.load(Relaxed)), Ok(2));
    }

    #[test]
    fn locking_without_a_change_disturbs_nobody() {
        let cell = Versioned::new(AtomicU64::new(1));
        let before = cell.read().unwrap();
        let held = before.upgrade().unwrap();
        assert_eq!(before.validate(), Err(Restart), "it might be changing");
        held.unchanged();
        assert_eq!(before.validate(), Ok(()));
    }

    #[test]
    #[allow(unsafe_code)]
    fn retired_data_is_unreadable_until_claimed() {
        let cell = Versioned::new(AtomicU64::new(1));
        let before = cell.read().unwrap();
        cell.lock().unwrap().retire();
        assert!(cell.read().is_err() && cell.lock().is_err() && cell.is_retired());
        assert_eq!(cell.read_last().get(|data| data.load(Relaxed)), Ok(1));
        // SAFETY: the test has it alone.
        drop(unsafe { cell.claim() });
        assert!(cell.read().is_ok());
        assert_eq!(
            before.validate(),
            Err(Restart),
            "the old version does not return"
        );
    }
}
