//! What packs and dense leaves have in common: several records behind a version.

use std::ops::Deref;

use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};

use crate::value::Loan;

/// A node of several records, alive as long as the thread stays pinned.
#[derive(Debug)]
pub struct Shared<'g, T> {
    records: &'g Versioned<T>,
}

impl<T> Clone for Shared<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<'g, T> Shared<'g, T> {
    /// The node at this address.
    ///
    /// # Safety
    /// Such a node was written there, or its first word is zero and the caller is about to write
    /// it; and the memory is not used for anything else while `'g` lasts. `T` consists of atomics.
    #[inline(always)]
    pub(super) unsafe fn at(address: usize) -> Self {
        let records = std::ptr::with_exposed_provenance::<Versioned<T>>(address);
        // SAFETY: as the caller promises; all fields are atomics.
        let records = unsafe { &*records };
        Shared { records }
    }

    /// Lends the word of a value that was read here.
    #[inline(always)]
    pub fn lend(self, word: u64) -> Loan<'g> {
        // SAFETY: only maps of words have such nodes, where it leads to nothing.
        unsafe { Loan::new(word) }
    }

    /// Its address.
    #[inline(always)]
    pub fn address(self) -> usize {
        std::ptr::from_ref(self.records).addr()
    }

    /// Whether it was replaced, or moved.
    pub fn is_obsolete(self) -> bool {
        self.records.is_retired()
    }

    /// Begins to read.
    ///
    /// # Errors
    /// It was replaced, or moved.
    #[inline(always)]
    pub fn read(self) -> Result<Snapshot<'g, T>, Restart> {
        self.records.read()
    }

    /// Begins to read, unless another thread holds the lock.
    ///
    /// # Errors
    /// It does, or this was replaced, or moved.
    pub fn try_read(self) -> Result<Snapshot<'g, T>, Restart> {
        self.records.try_read()
    }

    /// Begins to read its contents, or its last ones: like a leaf's, they do not change any more.
    #[inline(always)]
    pub fn read_last(self) -> Snapshot<'g, T> {
        self.records.read_last()
    }

    /// Locks it. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// It was replaced, or moved.
    #[inline(always)]
    pub fn lock(self) -> Result<LockedShared<'g, T>, Restart> {
        self.records.lock().map(LockedShared)
    }

    /// Locks it before anybody knows it.
    ///
    /// # Safety
    /// Nobody does.
    pub(super) unsafe fn claim(self) -> LockedShared<'g, T> {
        // SAFETY: as the caller promises.
        LockedShared(unsafe { self.records.claim() })
    }
}

/// The exclusive right to change such a node; unlocks when dropped.
#[derive(Debug)]
pub struct LockedShared<'g, T>(Exclusive<'g, T>);

impl<T> Deref for LockedShared<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'g, T> LockedShared<'g, T> {
    /// Locks what a snapshot is of, if nothing changed since it was taken.
    ///
    /// # Errors
    /// Something changed, or a writer holds the lock.
    #[inline(always)]
    pub fn upgrade(seen: Snapshot<'g, T>) -> Result<Self, Restart> {
        seen.upgrade().map(LockedShared)
    }

    /// The node.
    #[inline(always)]
    pub fn node(&self) -> Shared<'g, T> {
        Shared {
            records: self.0.of(),
        }
    }

    /// Unlocks; with the old version, if nothing was `changed`.
    #[inline(always)]
    pub fn unlock(self, changed: bool) {
        if !changed {
            self.0.unchanged();
        }
    }

    /// Unlocks for good: the node is unlinked.
    pub(super) fn retire(self) {
        self.0.retire();
    }
}
