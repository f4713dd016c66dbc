//! Heat kept beside the nodes: a few bits a leaf, in fast memory, that cool by themselves.
//!
//! An entry is 16 bits: 5 of a stamp and 11 of heat in eighths of a sampled access; 0 says that no leaf lies there.
//! Cooling halves all heat, which here only advances a global stamp: an entry is halved
//! once for every stamp that it missed, when it is next looked at. So cooling costs nothing, whatever
//! the number of leaves. The stamp wraps after 32 coolings; a slow leaf that nobody touched for
//! that long may seem up to 32 coolings younger. It then takes a sampled access to be noticed, and is
//! at worst promoted once for nothing.
//!
//! Entries are written without read-modify-write instructions: of two samples of one leaf at
//! the same moment one may be lost. That is noise in a sample, and it keeps readers cheap.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use timberline_tier::{Arenas, ArenasError, SideTable, TierId};

/// Heat of one sampled access.
pub const SAMPLE: u16 = 8;
/// The most heat an entry holds.
pub const HOTTEST: u16 = (1 << HEAT_BITS) - 1;

const HEAT_BITS: u32 = 11;
const STAMPS: u16 = 1 << (16 - HEAT_BITS);

/// The heat of all leaves of a tree.
pub struct HeatTable {
    entries: SideTable,
    stamp: AtomicU16,
}

impl HeatTable {
    /// Two bytes for each node-sized slot of the arenas, charged to the fast tier.
    ///
    /// # Errors
    /// They do not fit.
    pub fn new(arenas: &Arenas, node_bytes: usize) -> Result<Self, ArenasError> {
        Ok(HeatTable {
            entries: SideTable::new(arenas, node_bytes)?,
            stamp: AtomicU16::new(0),
        })
    }

    /// Halves all heat.
    pub fn cool(&self) {
        self.stamp
            .store((self.stamp.load(Relaxed) + 1) % STAMPS, Relaxed);
    }

    /// The heat of the leaf at `address`; 0: there is none.
    pub fn get(&self, address: usize) -> u16 {
        self.decode(self.entries.entry(address).load(Relaxed))
    }

    /// Sets the heat of a leaf, at least 1.
    pub fn set(&self, address: usize, heat: u16) {
        let entry = self.entries.entry(address);
        entry.store(self.encode(heat), Relaxed);
    }

    /// Adds a sampled access. Returns the heat with it.
    pub fn warm(&self, address: usize) -> u16 {
        let entry = self.entries.entry(address);
        let heat = (self.decode(entry.load(Relaxed)) + SAMPLE).min(HOTTEST);
        entry.store(self.encode(heat), Relaxed);
        heat
    }

    /// No leaf lies there any more.
    pub fn clear(&self, address: usize) {
        self.entries.entry(address).store(0, Relaxed);
    }

    /// The heat of every slot of a tier by index (0: no leaf), each brought up to date, so that a
    /// tier that is swept now and then never meets a wrapped stamp.
    pub fn sweep(&self, tier: TierId) -> impl Iterator<Item = (usize, u16)> {
        let stamp = self.stamp.load(Relaxed);
        let entries = self.entries.of(tier).iter().enumerate();
        entries.filter_map(move |(index, entry)| {
            let stored = entry.load(Relaxed);
            if stored == 0 {
                return None;
            }
            let heat = self.decode(stored);
            let current = stamp << HEAT_BITS | heat;
            if stored != current {
                entry.store(current, Relaxed);
            }
            Some((index, heat))
        })
    }

    /// How many slots a tier has, leaves or not.
    pub fn slots(&self, tier: TierId) -> usize {
        self.entries.of(tier).len()
    }

    /// The address of a tier's `index`th slot.
    pub fn address(&self, tier: TierId, index: usize) -> usize {
        self.entries.address(tier, index)
    }

    fn encode(&self, heat: u16) -> u16 {
        self.stamp.load(Relaxed) << HEAT_BITS | heat.clamp(1, HOTTEST)
    }

    fn decode(&self, entry: u16) -> u16 {
        if entry == 0 {
            return 0;
        }
        let missed = (self.stamp.load(Relaxed) + STAMPS - (entry >> HEAT_BITS)) % STAMPS;
        ((entry & HOTTEST) >> missed.min(15)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timberline_tier::ArenasConfig;

    fn table() -> (Arenas, HeatTable, usize) {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let table = HeatTable::new(&arenas, 1024).unwrap();
        let slot = arenas.allocate(TierId::SLOW, 1024).unwrap().as_ptr() as usize;
        (arenas, table, slot)
    }

    #[test]
    fn heat_halves_with_every_cooling_it_missed() {
        let (_arenas, table, slot) = table();
        assert_eq!(table.get(slot), 0);
        for samples in 1..=5 {
            assert_eq!(table.warm(slot), samples * SAMPLE);
        }
        table.cool();
        assert_eq!(table.get(slot), 20);
        assert_eq!(table.warm(slot), 28);
        table.cool();
        table.cool();
        assert_eq!(table.get(slot), 7);
        (0..10).for_each(|_| table.cool());
        assert_eq!(table.get(slot), 1, "a leaf stays a leaf, however cold");
    }

    #[test]
    fn heat_saturates() {
        let (_arenas, table, slot) = table();
        for _ in 0..1000 {
            table.warm(slot);
        }
        assert_eq!(table.get(slot), HOTTEST);
    }

    #[test]
    fn a_sweep_finds_leaves_and_keeps_their_stamps_young() {
        let (_arenas, table, slot) = table();
        table.set(slot, 64);
        table.cool();
        let swept: Vec<_> = table.sweep(TierId::SLOW).collect();
        assert_eq!(swept.len(), 1);
        assert_eq!(
            (table.address(TierId::SLOW, swept[0].0), swept[0].1),
            (slot, 32)
        );
        for _ in 0..STAMPS {
            table.cool();
            assert_eq!(table.sweep(TierId::SLOW).count(), 1);
        }
        assert_eq!(table.get(slot), 1, "no wrap for those that are swept");
        table.clear(slot);
        assert_eq!(table.sweep(TierId::SLOW).count(), 0);
    }
}
