//! Our own maps: one adapter each, listed in [`crate::contenders`].

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{AllFast, Placement};
use timberline_tier::{Arenas, ArenasConfig, Memory, Plain, TierId};

use timberline_tree::{Art, BTree, Masstree};

use crate::index::{Index, Scanned, Setting};

/// Memory of one tier, sized for the expected records, and the placement for it. It tracks no heat.
fn plain_memory(setting: &Setting) -> Result<(Plain, Arc<dyn Placement>), String> {
    // A limit, not a commitment: addresses are reserved, and memory is committed on demand.
    let a_record = 128 + setting.longest_key as u64;
    let limit = (256 << 20) + setting.records * a_record;
    let config = ArenasConfig {
        huge_pages: setting.huge_pages,
        ..ArenasConfig::one_tier(limit as usize)
    };
    let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
    Ok((Plain(arenas), Arc::new(AllFast)))
}

/// Bytes that a map's arenas have committed.
fn committed(memory: &impl Memory) -> u64 {
    memory.arenas().budget(TierId::FAST).used() as u64
}

/// Defines an adapter from the map and its scan.
macro_rules! ours {
    ($map:ident<$key:ty>, $scan:ident) => {
        impl Index<$key> for $map<$key, u64, Plain> {
            fn new(setting: &Setting) -> Result<Self, String> {
                let (memory, placement) = plain_memory(setting)?;
                $map::in_memory(memory, placement).map_err(|error| error.to_string())
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> bool {
                $map::insert(self, key, value).is_ok()
            }

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                $map::get(self, key)
            }

            #[inline]
            fn update(&self, key: &$key, value: u64) -> bool {
                matches!($map::update(self, key, value), Ok(Some(_)))
            }

            #[inline]
            fn scan(&self, from: &$key, limit: usize) -> Scanned {
                let mut scanned = Scanned::default();
                self.$scan(from, limit, |_, value| {
                    scanned.take(value, limit);
                    ControlFlow::Continue(())
                });
                scanned
            }

            fn committed(&self) -> u64 {
                committed(self.memory())
            }
        }
    };
}

ours!(BTree<u64>, scan);
ours!(Art<u64>, scan_bytes);
ours!(Art<[u8]>, scan_bytes);
ours!(Masstree<[u8]>, scan_bytes);
