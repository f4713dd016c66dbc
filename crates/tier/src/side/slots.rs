//! Two bytes for every slot of a tree's arenas, found by the slot's address.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use super::Cover;
use crate::{Arenas, ArenasError, TierId};

/// The most bytes of addresses that share an entry. An entry for each KiB of larger slots takes no
/// more, and the entries of a page are of one tier.
pub const COARSEST: usize = 1 << 10;

/// Two bytes for every slot of a tree's arenas, found by the slot's address, in the memory of the
/// slot's tier.
///
/// Where slots have several sizes, an entry covers all slots that start in its bytes: two slots
/// that are at least that large never share one, smaller ones may. An entry stays what it is when
/// its slot is freed, so the entry must be cleared when a slot is freed, or the next slot there
/// inherits it.
///
/// An entry may be written while its slot is allocated, or within [`SlotTable::each`]; a write at
/// any other time could take memory that no budget is charged for.
pub struct SlotTable {
    cover: Arc<Cover>,
    /// Where the table is.
    base: usize,
    entries: usize,
    span: Range<usize>,
    tiers: Vec<Range<usize>>,
    shift: u32,
}

impl SlotTable {
    /// A zeroed table for slots of at least `slot` bytes (a power of two). It takes memory with the
    /// arenas' chunks: two bytes for each slot, or for each KiB of larger ones.
    ///
    /// # Errors
    /// There are too few addresses.
    ///
    /// # Panics
    /// If slots of these arenas were allocated before, or if they have such a table.
    pub fn new(arenas: &Arenas, slot: usize) -> Result<Self, ArenasError> {
        assert!(slot.is_power_of_two(), "slots of {slot} bytes");
        let shift = slot.min(COARSEST).trailing_zeros();
        let cover = Arc::new(Cover::new(arenas, shift)?);
        assert!(arenas.attach(cover.clone()), "the arenas are in use");
        let tiers = (0..arenas.tiers()).map(|tier| arenas.range_of(TierId(tier as u8)));
        Ok(SlotTable {
            base: cover.memory.base(),
            cover,
            entries: arenas.range().len() >> shift,
            span: arenas.range(),
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
        &self.all()[(address - self.span.start) >> self.shift]
    }

    /// Calls `visit` with the index in its tier of each entry that has memory, in order of address,
    /// and with the entry. Chunks of the tier may have to wait until the entries of a page were
    /// visited.
    pub fn each(&self, tier: TierId, mut visit: impl FnMut(usize, &AtomicU16)) {
        let first = (self.tiers[tier.index()].start - self.span.start) >> self.shift;
        self.cover.each_page(tier, |page| {
            let entries = &self.all()[first + page.start..first + page.end];
            for (index, entry) in page.zip(entries) {
                visit(index, entry);
            }
        });
    }

    /// The first address whose entry is the `index`th of a tier: the slot's, if all slots are as
    /// large as the table was made for.
    pub fn address(&self, tier: TierId, index: usize) -> usize {
        self.tiers[tier.index()].start + (index << self.shift)
    }

    #[inline]
    fn all(&self) -> &[AtomicU16] {
        // SAFETY: mapped, zeroed, page-aligned and this long for as long as `cover` lives, and
        // never reached but as atomics, of which 0 is a value.
        unsafe { std::slice::from_raw_parts(self.base as *const AtomicU16, self.entries) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArenasConfig, Limit};
    use std::ptr::NonNull;
    use std::sync::atomic::Ordering::Relaxed;

    const MIB: usize = 1 << 20;

    fn free(arenas: &Arenas, slot: NonNull<u8>, size: usize) {
        // SAFETY: the tests free each slot once, with the size it was allocated with.
        unsafe { arenas.free(slot, size) };
    }

    fn values(table: &SlotTable, tier: TierId) -> Vec<(usize, u16)> {
        let mut values = Vec::new();
        table.each(tier, |index, entry| match entry.load(Relaxed) {
            0 => {}
            value => values.push((index, value)),
        });
        values
    }

    #[test]
    fn an_entry_is_found_by_address_and_takes_memory_of_its_tier() {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(MIB, MIB)).unwrap();
        let table = SlotTable::new(&arenas, 1024).unwrap();
        let used = |tier| arenas.budget(tier).used();
        assert_eq!((used(TierId::FAST), used(TierId::SLOW)), (0, 0));
        let slot = arenas.allocate(TierId::SLOW, 1024).unwrap();
        assert_eq!(
            (used(TierId::FAST), used(TierId::SLOW)),
            (0, (16 << 10) + 4096)
        );
        assert_eq!(arenas.usable(TierId::SLOW), MIB - 4096);
        let address = slot.as_ptr() as usize;
        table.entry(address).store(7, Relaxed);
        assert_eq!(table.entry(address + 1023).load(Relaxed), 7);
        let [(index, 7)] = values(&table, TierId::SLOW)[..] else {
            panic!("one entry");
        };
        assert_eq!(table.address(TierId::SLOW, index), address);
        assert_eq!(values(&table, TierId::FAST), []);
        table.entry(address).store(0, Relaxed);
        free(&arenas, slot, 1024);
        arenas.trim();
        assert_eq!((used(TierId::FAST), used(TierId::SLOW)), (0, 0));
    }

    #[test]
    fn a_table_for_any_limit_costs_nothing_before_it_is_needed() {
        for slot in [128, 1024, 64 << 10] {
            let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 40, 1 << 40)).unwrap();
            let table = SlotTable::new(&arenas, slot).unwrap();
            for tier in [TierId::FAST, TierId::SLOW] {
                assert_eq!(arenas.budget(tier).used(), 0);
                let slot = arenas.allocate(tier, slot).unwrap();
                table.entry(slot.as_ptr() as usize).store(1, Relaxed);
                assert_eq!(values(&table, tier), [(0, 1)]);
                let used = arenas.budget(tier).used();
                assert!(used <= (64 << 10) + 4096, "{used} bytes");
            }
        }
    }

    /// Chunks of a page come and go; each needs a page of the table with its neighbours.
    #[test]
    fn memory_of_the_table_comes_and_goes_with_chunks_within_the_budget() {
        let mut config = ArenasConfig::two_tiers(8 * MIB + 6 * 4096, 0);
        config.chunk_bytes = 64 << 10;
        config.huge_pages = false;
        let arenas = Arenas::new(&config).unwrap();
        let table = SlotTable::new(&arenas, 1024).unwrap();
        let budget = arenas.budget(TierId::FAST);
        let tables = || budget.limit() - arenas.usable(TierId::FAST);
        for round in 0..3 {
            let mut slots: Vec<_> =
                std::iter::from_fn(|| arenas.allocate(TierId::FAST, 1024).ok()).collect();
            assert_eq!(budget.used(), slots.len() * 1024 + tables());
            assert!(budget.limit() - budget.used() <= 4096, "full to the page");
            assert_eq!(tables(), 5 * 4096, "round {round}");
            for slot in &slots {
                let before = table.entry(slot.as_ptr() as usize).swap(1, Relaxed);
                assert_eq!(before, 0, "round {round}");
            }
            assert_eq!(values(&table, TierId::FAST).len(), slots.len());
            slots.sort();
            // The first 2 MiB stay, then all goes.
            for slot in slots.split_off(2048).into_iter().chain(slots) {
                table.entry(slot.as_ptr() as usize).store(0, Relaxed);
                free(&arenas, slot, 1024);
                arenas.trim();
                assert!(budget.used() >= tables());
            }
            assert_eq!((budget.used(), tables()), (0, 0));
            assert!(budget.peak() <= budget.limit());
        }
    }

    /// The nth commit fails, of a chunk or of a page of the table: the tier is as it was, and has
    /// all of its memory afterwards.
    #[test]
    fn a_commit_that_fails_leaves_nothing_behind() {
        let mut config = ArenasConfig::two_tiers(0, 4 * MIB);
        config.chunk_bytes = 4096;
        for nth in 1..40 {
            let arenas = Arenas::new(&config).unwrap();
            let table = SlotTable::new(&arenas, 64).unwrap();
            let budget = arenas.budget(TierId::SLOW);
            arenas.fail_commits(TierId::SLOW, nth, false);
            let (mut slots, mut refused) = (Vec::new(), 0);
            for at in 0..60 {
                let size = [64, 4096, 9000][at % 3];
                let before = (budget.used(), arenas.usable(TierId::SLOW));
                match arenas.allocate(TierId::SLOW, size) {
                    Ok(slot) => slots.push((slot, size)),
                    Err(full) => {
                        assert_eq!(full.of, Limit::Machine);
                        assert_eq!(before, (budget.used(), arenas.usable(TierId::SLOW)));
                        refused += 1;
                    }
                }
            }
            // Unless it fails twice, an allocation finds memory at the second attempt.
            assert_eq!(refused, 0, "commit {nth}");
            for &(slot, _) in &slots {
                assert_eq!(table.entry(slot.as_ptr() as usize).swap(1, Relaxed), 0);
            }
            for (slot, size) in slots {
                table.entry(slot.as_ptr() as usize).store(0, Relaxed);
                free(&arenas, slot, size);
            }
            arenas.trim();
            assert_eq!((budget.used(), arenas.usable(TierId::SLOW)), (0, 4 * MIB));
        }
    }

    #[test]
    fn slots_of_other_sizes_have_entries_of_their_own() {
        let mut config = ArenasConfig::two_tiers(4 * MIB, 4 * MIB);
        config.chunk_bytes = 64 << 10;
        let arenas = Arenas::new(&config).unwrap();
        let table = SlotTable::new(&arenas, 256).unwrap();
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
            let entries = values(&table, tier);
            let found = entries.iter().find(|&&(_, entry)| entry == value);
            let start = table.address(tier, found.expect("in its tier").0);
            assert!((start..start + 256).contains(&address));
        }
    }
}
