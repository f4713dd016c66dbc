//! Heat of leaves: a few bits each, that cool by themselves.
//!
//! An entry is 16 bits: 5 of a cooling stamp and 11 of heat in eighths of a sampled access; 0 is
//! unknown. Cooling halves all heat, which here only advances a global stamp: an entry is halved
//! once for every stamp that it missed, when it is next read. So cooling costs nothing, whatever
//! the number of leaves. The stamp wraps after 32 coolings; the heat of a slow leaf that was not
//! accessed for that long may be up to 32 coolings too high. Only a sampled access makes such a
//! leaf a candidate, and at worst it is promoted once in error.
//!
//! Entries are written without read-modify-write instructions: of two samples of one leaf at
//! the same moment one may be lost. That is noise in a sample, and it keeps readers cheap.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use timberline_tier::{Arenas, ArenasError, SlotTable, TierId};

use crate::LeafRef;

/// Heat of one sampled access.
pub const SAMPLE: u16 = 8;
/// The most heat an entry holds.
pub const HOTTEST: u16 = (1 << HEAT_BITS) - 1;
/// Bits of an entry that hold heat.
pub const HEAT_BITS: u32 = 11;

const STAMPS: u16 = 1 << (16 - HEAT_BITS);

/// Where the heat of leaves is kept.
///
/// A table suits trees of large nodes. Heat in the leaf suits trees with a leaf for each record:
/// with fast memory a fifth of all, two bytes for each slot of 16 or 32 bytes would take a third of
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeatIn {
    /// In a table beside the tree: two bytes for each slot of this size (a power of two, bytes), or
    /// for each KiB of larger ones, in the slot's tier. The table grows with the tree. Reading the
    /// heat of all fast leaves is a sweep of the fast tier's part.
    Table {
        /// Bytes of a node.
        node_bytes: usize,
    },
    /// In the leaf's header: no memory beside the leaves. A sample of a slow leaf (one access in
    /// 4–64) writes to slow memory, and reading the heat of fast leaves visits them, so each round
    /// visits a part.
    Leaf {
        /// Bytes of a typical leaf. It decides how many new leaves are fast before the worker's
        /// first round.
        leaf_bytes: usize,
    },
}

/// The heat of all leaves of a tree.
pub struct Heat {
    /// None: it is in the leaves.
    table: Option<SlotTable>,
    stamp: AtomicU16,
}

impl Heat {
    /// All leaves unknown. A table is charged to the tiers as the arenas grow.
    ///
    /// # Errors
    /// There are too few addresses for a table.
    pub fn new(arenas: &Arenas, home: HeatIn) -> Result<Self, ArenasError> {
        let table = match home {
            HeatIn::Table { node_bytes } => Some(SlotTable::new(arenas, node_bytes)?),
            HeatIn::Leaf { .. } => None,
        };
        Ok(Heat {
            table,
            stamp: AtomicU16::new(0),
        })
    }

    /// Halves all heat.
    pub fn cool(&self) {
        self.stamp.store((self.stamp() + 1) % STAMPS, Relaxed);
    }

    /// A leaf's heat; 0 where nothing is known of it.
    pub fn get(&self, leaf: LeafRef<'_>) -> u16 {
        decode(self.entry(&leaf).load(Relaxed), self.stamp())
    }

    /// Sets the heat of a leaf, at least 1.
    pub fn set(&self, leaf: LeafRef<'_>, heat: u16) {
        self.entry(&leaf).store(encode(heat, self.stamp()), Relaxed);
    }

    /// Adds heat. Returns the sum.
    pub fn warm(&self, leaf: LeafRef<'_>, by: u16) -> u16 {
        let (entry, stamp) = (self.entry(&leaf), self.stamp());
        let heat = (decode(entry.load(Relaxed), stamp) + by).min(HOTTEST);
        entry.store(encode(heat, stamp), Relaxed);
        heat
    }

    /// The memory at `address` is no leaf any more.
    pub fn forget(&self, address: usize) {
        if let Some(table) = &self.table {
            table.entry(address).store(0, Relaxed);
        }
    }

    /// A leaf's heat, brought up to date, so that a leaf that is visited now and then never has a
    /// wrapped stamp.
    pub fn visit(&self, leaf: LeafRef<'_>) -> u16 {
        refresh(self.entry(&leaf), self.stamp())
    }

    /// As [`Self::visit`], for every slot of a tier by index, if heat is in a table. Slots without
    /// a leaf are left out.
    pub fn sweep(&self, tier: TierId, mut visit: impl FnMut(usize, u16)) {
        let Some(table) = &self.table else { return };
        let stamp = self.stamp();
        table.each(tier, |index, entry| {
            let heat = refresh(entry, stamp);
            if heat > 0 {
                visit(index, heat);
            }
        });
    }

    /// The address of a tier's `index`th slot; none where there is no table.
    pub fn address(&self, tier: TierId, index: usize) -> Option<usize> {
        let table = self.table.as_ref()?;
        Some(table.address(tier, index))
    }

    fn entry<'a>(&'a self, leaf: &LeafRef<'a>) -> &'a AtomicU16 {
        match &self.table {
            Some(table) => table.entry(leaf.address),
            None => leaf.heat,
        }
    }

    fn stamp(&self) -> u16 {
        self.stamp.load(Relaxed)
    }
}

fn refresh(entry: &AtomicU16, stamp: u16) -> u16 {
    let stored = entry.load(Relaxed);
    let heat = decode(stored, stamp);
    if heat > 0 && stored != encode(heat, stamp) {
        entry.store(encode(heat, stamp), Relaxed);
    }
    heat
}

fn encode(heat: u16, stamp: u16) -> u16 {
    stamp << HEAT_BITS | heat.clamp(1, HOTTEST)
}

fn decode(entry: u16, stamp: u16) -> u16 {
    if entry == 0 {
        return 0;
    }
    let missed = (stamp + STAMPS - (entry >> HEAT_BITS)) % STAMPS;
    ((entry & HOTTEST) >> missed.min(15)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fence;
    use timberline_tier::ArenasConfig;

    const HOMES: [HeatIn; 2] = [
        HeatIn::Table { node_bytes: 1024 },
        HeatIn::Leaf { leaf_bytes: 24 },
    ];

    /// Runs `check` with either home, on a leaf in the first slot of the fast tier.
    fn either(check: impl Fn(&Heat, LeafRef<'_>)) {
        for home in HOMES {
            let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
            let heat = Heat::new(&arenas, home).unwrap();
            let header = AtomicU16::new(0);
            let leaf = LeafRef {
                address: arenas.allocate(TierId::FAST, 1024).unwrap().addr().get(),
                tier: TierId::FAST,
                fence: Fence::of_word(7),
                heat: &header,
            };
            check(&heat, leaf);
        }
    }

    #[test]
    fn heat_halves_with_every_cooling_it_missed() {
        either(|heat, leaf| {
            assert_eq!(heat.get(leaf), 0);
            for samples in 1..=5 {
                assert_eq!(heat.warm(leaf, SAMPLE), samples * SAMPLE);
            }
            heat.cool();
            assert_eq!(heat.get(leaf), 20);
            assert_eq!(heat.warm(leaf, SAMPLE), 28);
            heat.cool();
            heat.cool();
            assert_eq!(heat.get(leaf), 7);
            (0..10).for_each(|_| heat.cool());
            assert_eq!(heat.get(leaf), 1, "a leaf stays a leaf, however cold");
        });
    }

    #[test]
    fn heat_saturates() {
        either(|heat, leaf| {
            for _ in 0..1000 {
                heat.warm(leaf, SAMPLE);
            }
            assert_eq!(heat.get(leaf), HOTTEST);
        });
    }

    #[test]
    fn a_leaf_that_is_visited_keeps_its_stamp_young() {
        either(|heat, leaf| {
            heat.set(leaf, 64);
            heat.cool();
            assert_eq!(heat.visit(leaf), 32);
            for _ in 0..STAMPS {
                heat.cool();
                heat.visit(leaf);
            }
            assert_eq!(heat.get(leaf), 1, "no wrap for those that are visited");
        });
    }

    #[test]
    fn the_table_is_swept_and_the_header_stays_as_it_is() {
        either(|heat, leaf| {
            heat.set(leaf, 64);
            heat.cool();
            let swept = || {
                let mut swept = Vec::new();
                heat.sweep(TierId::FAST, |index, heat| swept.push((index, heat)));
                swept
            };
            if heat.address(TierId::FAST, 0).is_none() {
                assert_eq!(swept(), []);
                assert_ne!(leaf.heat.load(Relaxed), 0);
                heat.forget(leaf.address);
                assert_eq!(heat.get(leaf), 32, "it goes with its leaf");
            } else {
                assert_eq!(swept(), [(0, 32)]);
                assert_eq!(heat.address(TierId::FAST, 0), Some(leaf.address));
                assert_eq!(leaf.heat.load(Relaxed), 0);
                for _ in 0..STAMPS {
                    heat.cool();
                    assert_eq!(swept().len(), 1);
                }
                assert_eq!(heat.get(leaf), 1, "no wrap for those that are swept");
                heat.forget(leaf.address);
                assert_eq!(swept(), []);
            }
        });
    }
}
