//! Tables in fast memory beside the arenas: of any length, and with two bytes for every slot of a
//! tree's arenas, found by the slot's address.
//!
//! Where slots have several sizes, an entry covers all slots that start in its bytes: two slots
//! that are at least that large never share one, smaller ones may. An entry stays what it is when
//! its slot is freed, so the entry must be cleared when a slot is freed, or the next slot there
//! inherits it.
//!
//! A placement may want to remember something of each node without touching the node, which may be
//! slow. A table is one reserved range; pages that nobody touched cost nothing, but the whole of it
//! is charged to the fast tier when it is made, so that it can never fail later.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU16, AtomicU32};

use crate::os::{PAGE, Reservation};
use crate::{Arenas, ArenasError, TierId};

/// What a table may consist of: atomics that are 0 in zeroed memory.
pub trait Entry: sealed::Atomic {}

impl<T: sealed::Atomic> Entry for T {}

mod sealed {
    pub trait Atomic: Sync {}
    impl Atomic for super::AtomicU16 {}
    impl Atomic for super::AtomicU32 {}
}

/// Atomics in fast memory, zero at first.
pub struct Table<T> {
    memory: Reservation,
    entries: usize,
    of: PhantomData<T>,
}

impl<T: Entry> Table<T> {
    /// A table beside these arenas, charged to their fast tier for good.
    ///
    /// # Errors
    /// It does not fit into the fast tier's budget.
    pub fn new(arenas: &Arenas, entries: usize) -> Result<Self, ArenasError> {
        let bytes = entries.checked_mul(size_of::<T>());
        let bytes = bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(PAGE));
        let bytes = bytes.unwrap_or(usize::MAX & !(PAGE - 1));
        let memory = Reservation::new(bytes, PAGE).map_err(|e| ArenasError::Reserve(bytes, e))?;
        arenas.reserve_table(&memory, bytes)?;
        let of = PhantomData;
        Ok(Table {
            memory,
            entries,
            of,
        })
    }
}

impl<T: Entry> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: mapped, zeroed, page-aligned and this long for as long as `self` lives, and
        // never reached but as atomics, of which 0 is a value.
        unsafe { std::slice::from_raw_parts(self.memory.base() as *const T, self.entries) }
    }
}

/// Two bytes of fast memory for every slot of a tree's arenas, found by the slot's address.
pub struct SideTable {
    table: Table<AtomicU16>,
    span: Range<usize>,
    tiers: Vec<Range<usize>>,
    shift: u32,
}

impl SideTable {
    /// A zeroed table for slots of at least `slot` bytes (a power of two).
    ///
    /// # Errors
    /// It does not fit into the fast tier's budget.
    pub fn new(arenas: &Arenas, slot: usize) -> Result<Self, ArenasError> {
        assert!(slot.is_power_of_two(), "slots of {slot} bytes");
        let (span, shift) = (arenas.range(), slot.trailing_zeros());
        let table = Table::new(arenas, span.len() >> shift)?;
        let tiers = (0..arenas.tiers()).map(|tier| arenas.range_of(TierId(tier as u8)));
        Ok(SideTable {
            table,
            span,
            tiers: tiers.collect(),
            shift,
        })
    }

    /// The entry of the slot that `address` is in.
    ///
    /// # Panics
    /// If that is outside the arenas.
    #[inline]
    pub fn entry(&self, address: usize) -> &AtomicU16 {
        &self.table[(address - self.span.start) >> self.shift]
    }

    /// A tier's entries, in order of address.
    pub fn of(&self, tier: TierId) -> &[AtomicU16] {
        let tier = &self.tiers[tier.index()];
        let index = |address| (address - self.span.start) >> self.shift;
        &self.table[index(tier.start)..index(tier.end)]
    }

    /// The first address whose entry is the `index`th of a tier: the slot's, if all slots are as
    /// large as the table was made for.
    pub fn address(&self, tier: TierId, index: usize) -> usize {
        self.tiers[tier.index()].start + (index << self.shift)
    }

    /// How many tiers there are.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArenasConfig;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn it_is_charged_and_found_by_address() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let table = SideTable::new(&arenas, 1024).unwrap();
        let charged = arenas.budget(TierId::FAST).used();
        assert_eq!(charged, arenas.range().len() / 1024 * 2);
        assert_eq!(arenas.usable(TierId::FAST), (1 << 20) - charged);
        let slot = arenas.allocate(TierId::SLOW, 1024).unwrap().as_ptr() as usize;
        table.entry(slot).store(7, Relaxed);
        assert_eq!(table.entry(slot + 1023).load(Relaxed), 7);
        let index = table
            .of(TierId::SLOW)
            .iter()
            .position(|e| e.load(Relaxed) == 7)
            .unwrap();
        assert_eq!(table.address(TierId::SLOW, index), slot);
        assert!(
            table
                .of(TierId::FAST)
                .iter()
                .all(|entry| entry.load(Relaxed) == 0)
        );
    }

    #[test]
    fn slots_of_other_sizes_have_entries_of_their_own() {
        let mut config = ArenasConfig::two_tiers(4 << 20, 4 << 20);
        config.chunk_bytes = 64 << 10;
        let arenas = Arenas::new(&config).unwrap();
        let table = SideTable::new(&arenas, 256).unwrap();
        let sizes = [256, 300, 480, 1040, 1024, 5000, 72 << 10, 128 << 10];
        let mut slots = Vec::new();
        for nth in 0..160 {
            let (tier, size) = (TierId(nth % 2), sizes[usize::from(nth) % sizes.len()]);
            if let Ok(slot) = arenas.allocate(tier, size) {
                let address = slot.as_ptr() as usize;
                let before = table.entry(address).swap(1 + u16::from(nth), Relaxed);
                assert_eq!(before, 0, "{size} bytes at {address:#x} share an entry");
                slots.push((address, tier, 1 + u16::from(nth)));
            }
            // Smaller ones in between do not move the others.
            arenas.allocate(tier, 24).unwrap();
        }
        assert!(slots.len() > 100);
        for &(address, tier, value) in &slots {
            let mut entries = table.of(tier).iter();
            let index = entries.position(|entry| entry.load(Relaxed) == value);
            let start = table.address(tier, index.expect("in its tier"));
            assert!((start..start + 256).contains(&address));
        }
    }

    #[test]
    fn a_table_of_any_length_is_zero_and_charged() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let table = Table::<AtomicU32>::new(&arenas, 1025).unwrap();
        assert_eq!(arenas.budget(TierId::FAST).used(), 8192);
        assert!(table.len() == 1025 && table.iter().all(|entry| entry.load(Relaxed) == 0));
        table[1024].store(u32::MAX, Relaxed);
        assert_eq!(table[1024].load(Relaxed), u32::MAX);
        assert!(Table::<AtomicU32>::new(&arenas, 1 << 19).is_err());
        assert!(Table::<AtomicU16>::new(&arenas, usize::MAX).is_err());
        assert_eq!(arenas.budget(TierId::FAST).used(), 8192);
    }

    #[test]
    fn one_that_does_not_fit_is_one_clear_line() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(4096, 1 << 30)).unwrap();
        let error = SideTable::new(&arenas, 1024).err().unwrap().to_string();
        assert!(error.contains("4096") && !error.contains('\n'), "{error}");
        assert_eq!(arenas.budget(TierId::FAST).used(), 0);
    }
}
