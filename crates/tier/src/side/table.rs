//! A table of any length in fast memory.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU16, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::os::{PAGE, Reservation};
use crate::{Arenas, ArenasError, Limit, TierId};

/// Entries that a table may have: atomics that are 0 in zeroed memory.
pub trait TableEntry: sealed::Atomic {}

impl<T: sealed::Atomic> TableEntry for T {}

mod sealed {
    use super::{AtomicU16, AtomicU32};

    pub trait Atomic: Sync {}
    impl Atomic for AtomicU16 {}
    impl Atomic for AtomicU32 {}
}

/// Atomics, zero at first.
///
/// All of them can be read. Before the first ones are written, [`Table::resize`] has to commit
/// memory for them: a write beyond that would take memory that no budget is charged for.
pub struct Table<T> {
    memory: Reservation,
    entries: usize,
    bytes: Mutex<Bytes>,
    of: PhantomData<T>,
}

/// Of a table.
struct Bytes {
    /// From the start, that are committed.
    committed: usize,
    /// That chunks leave to it, with the committed ones.
    left: usize,
}

impl Bytes {
    /// Those that chunks leave to it and that it has not committed.
    fn set_aside(&self) -> usize {
        self.left.saturating_sub(self.committed)
    }

    /// Changes them, and with them what is set aside in the fast tier.
    fn change(&mut self, arenas: &Arenas, change: impl FnOnce(&mut Bytes)) {
        let before = self.set_aside();
        change(self);
        match self.set_aside() {
            more if more > before => arenas.set_aside(TierId::FAST, more - before),
            less => arenas.take_set_aside(TierId::FAST, before - less),
        }
    }
}

/// The bytes of so many entries, in whole pages.
fn bytes_of<T>(entries: usize) -> usize {
    let bytes = entries.checked_mul(size_of::<T>());
    let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
    bytes.unwrap_or(usize::MAX & !(PAGE - 1))
}

impl<T: TableEntry> Table<T> {
    /// A table beside these arenas, in memory of their fast tier. Commits nothing; but chunks leave
    /// it the bytes that it may need, up to a 64th of the tier, so that it can grow when these have
    /// taken the rest: [`Table::leave`] changes how many.
    ///
    /// # Errors
    /// There are too few addresses.
    pub fn new(arenas: &Arenas, entries: usize) -> Result<Self, ArenasError> {
        let bytes = bytes_of::<T>(entries.max(1));
        let memory = Reservation::new(bytes, PAGE).map_err(|e| ArenasError::Reserve(bytes, e))?;
        // A huge page would commit more than is charged.
        memory.use_huge_pages(0, bytes, false);
        arenas.bind(TierId::FAST, &memory, 0, bytes)?;
        arenas.set_aside(TierId::FAST, bytes);
        Ok(Table {
            memory,
            entries,
            bytes: Mutex::new(Bytes {
                committed: 0,
                left: bytes,
            }),
            of: PhantomData,
        })
    }

    /// Has chunks leave it memory for the first `entries` entries, up to a 64th of the tier.
    pub fn leave(&self, arenas: &Arenas, entries: usize) {
        let left = bytes_of::<T>(entries);
        self.lock().change(arenas, |bytes| bytes.left = left);
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits memory for the first `entries` entries and gives the rest back. The arenas are those
    /// that the table was made beside.
    ///
    /// # Errors
    /// Fast memory has no room; nothing changes.
    pub fn resize(&self, arenas: &Arenas, entries: usize) -> Result<(), Limit> {
        let bytes = bytes_of::<T>(entries);
        let mut now = self.lock();
        let committed = now.committed;
        if bytes > committed {
            let more = bytes - committed;
            arenas.commit_table(TierId::FAST, &self.memory, committed, more)?;
        } else if bytes < committed {
            let less = committed - bytes;
            arenas.decommit_table(TierId::FAST, &self.memory, bytes, less);
        }
        now.change(arenas, |now| now.committed = bytes);
        Ok(())
    }
}

impl<T: TableEntry> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: mapped, zeroed, page-aligned and this long for as long as `self` lives, and
        // never reached but as atomics, of which 0 is a value.
        unsafe { std::slice::from_raw_parts(self.memory.base() as *const T, self.entries) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArenasConfig;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_table_of_any_length_is_zero_and_charged_by_need() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let used = || arenas.budget(TierId::FAST).used();
        let usable = || arenas.usable(TierId::FAST);
        let table = Table::<AtomicU32>::new(&arenas, 1 << 40).unwrap();
        assert_eq!((used(), table[1 << 39].load(Relaxed)), (0, 0));
        assert_eq!(usable(), (1 << 20) - (1 << 14), "a 64th is left to it");
        table.resize(&arenas, 1025).unwrap();
        assert_eq!(used(), 8192);
        table[1024].store(u32::MAX, Relaxed);
        let full = table.resize(&arenas, (1 << 18) + 1);
        assert_eq!((full, used()), (Err(Limit::Budget), 8192));
        assert_eq!(table[1024].load(Relaxed), u32::MAX);
        table.resize(&arenas, 1024).unwrap();
        assert_eq!((used(), table[1024].load(Relaxed)), (4096, 0));
        table.resize(&arenas, 0).unwrap();
        assert_eq!((used(), usable()), (0, (1 << 20) - (1 << 14)));
        assert!(Table::<AtomicU16>::new(&arenas, usize::MAX).is_err());
    }

    #[test]
    fn what_chunks_leave_to_a_table_may_change() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let left = || (1 << 20) - arenas.usable(TierId::FAST);
        let table = Table::<AtomicU32>::new(&arenas, 1 << 40).unwrap();
        table.leave(&arenas, 2048);
        assert_eq!(left(), 8192);
        table.resize(&arenas, 3072).unwrap();
        assert_eq!(left(), 12288, "what it has is more");
        table.leave(&arenas, 4096);
        assert_eq!(left(), 16384);
        table.resize(&arenas, 0).unwrap();
        assert_eq!(left(), 16384);
        table.leave(&arenas, 0);
        assert_eq!(left(), 0);
    }

    #[test]
    fn chunks_leave_a_table_what_it_may_need() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 0)).unwrap();
        let entries = 2048;
        let table = Table::<AtomicU32>::new(&arenas, entries).unwrap();
        assert_eq!(arenas.usable(TierId::FAST), (1 << 20) - 8192);
        let mut slots = Vec::new();
        while let Ok(slot) = arenas.slot(TierId::FAST, 1024) {
            slots.push(slot);
        }
        assert_eq!(1024 * slots.len(), (1 << 20) - 8192);
        for more in 1..=entries {
            table.resize(&arenas, more).unwrap();
        }
        let budget = arenas.budget(TierId::FAST);
        assert_eq!((budget.used(), budget.peak()), (1 << 20, 1 << 20));
    }
}
