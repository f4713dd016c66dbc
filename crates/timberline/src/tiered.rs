//! A map with everything it needs: memory in two tiers, the placement, and its worker.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use timberline_placement::workers::Workers;
use timberline_placement::{HeatIn, Placed, Placement, Timberline, TimberlineConfig};
use timberline_tier::topology::Topology;
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierConfig, TierId};
use timberline_tree::{Art, BTree, ByteKey, Key, Masstree, Value};

/// The memory and the settings of a [`Tiered`] map.
#[derive(Clone, Debug)]
pub struct TieredConfig {
    /// The fast memory's budget in bytes, tables included. Never exceeded.
    pub fast_bytes: usize,
    /// The slow memory's budget in bytes. Never exceeded.
    pub slow_bytes: usize,
    /// NUMA nodes of the fast tier; empty: any.
    pub fast_nodes: Vec<u32>,
    /// NUMA nodes of the slow tier; empty: any.
    pub slow_nodes: Vec<u32>,
    /// Settings of the placement.
    pub placement: TimberlineConfig,
}

/// Why a [`Tiered`] map could not be made, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadConfig(String);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}

impl TieredConfig {
    /// Two tiers with these budgets in bytes, bound to no NUMA node.
    pub fn new(fast_bytes: usize, slow_bytes: usize) -> Self {
        TieredConfig {
            fast_bytes,
            slow_bytes,
            fast_nodes: Vec::new(),
            slow_nodes: Vec::new(),
            placement: TimberlineConfig::default(),
        }
    }

    /// The two fastest memory tiers of this machine, with half of the free memory of each.
    ///
    /// # Errors
    /// The machine has one tier only, or its description cannot be read.
    pub fn discover() -> Result<Self, BadConfig> {
        let topology = Topology::discover(Path::new("/")).map_err(|e| BadConfig(e.to_string()))?;
        let [fast, slow, ..] = topology.tiers() else {
            return Err(BadConfig(
                "this machine has one memory tier: nothing to place".into(),
            ));
        };
        let half = |free: u64| (free / 2) as usize;
        Ok(TieredConfig {
            fast_nodes: topology.tier_nodes(0).to_vec(),
            slow_nodes: topology.tier_nodes(1).to_vec(),
            ..TieredConfig::new(half(fast.free_bytes), half(slow.free_bytes))
        })
    }
}

/// A map that can be [`Tiered`].
pub trait Map: Sized {
    /// Where the placement keeps the heat of its leaves.
    const HEAT: HeatIn;

    /// An empty map.
    ///
    /// # Errors
    /// There is too little memory for it.
    fn open(memory: Native, placement: Arc<dyn Placement>) -> Result<Self, BadConfig>;

    /// The map as the placement's worker sees it.
    fn placed(&self) -> Arc<dyn Placed>;

    /// The memory its nodes live in.
    fn arenas(&self) -> &Arenas;
}

macro_rules! map {
    ([$($generics:tt)*] $map:ty, $heat:expr) => {
        impl<$($generics)*> Map for $map {
            const HEAT: HeatIn = $heat;

            fn open(memory: Native, placement: Arc<dyn Placement>) -> Result<Self, BadConfig> {
                <$map>::in_memory(memory, placement).map_err(|error| BadConfig(error.to_string()))
            }

            fn placed(&self) -> Arc<dyn Placed> {
                self.placed()
            }

            fn arenas(&self) -> &Arenas {
                self.memory().arenas()
            }
        }
    };
}

map!([K: Key, V: Value] BTree<K, V>, HeatIn::Table {
    node_bytes: BTree::<K, V>::NODE_BYTES,
});
map!([K: ByteKey + ?Sized, V: Value] Art<K, V>, HeatIn::Leaf { leaf_bytes: 40 });
map!([K: ByteKey + ?Sized, V: Value] Masstree<K, V>, HeatIn::Leaf { leaf_bytes: 256 });

/// A map over two tiers, with a worker that moves its nodes. Dereferences to the map.
///
/// The workers of all such maps share one thread, which starts with the first map and ends with the
/// last. Dropping a map stops its worker. Handles cloned from the map remain usable, but no node
/// moves any more.
pub struct Tiered<T> {
    // Before the map: the worker stops while the tree is still there.
    workers: Workers,
    map: T,
}

impl<T: Map> Tiered<T> {
    /// An empty map.
    ///
    /// # Errors
    /// A NUMA node does not exist, or fast memory is too small for a B+tree's heat table (two bytes
    /// for each KiB of both tiers).
    pub fn new(config: &TieredConfig) -> Result<Self, BadConfig> {
        let line = |error: &dyn fmt::Display| BadConfig(error.to_string());
        let mut arenas = ArenasConfig::two_tiers(config.fast_bytes, config.slow_bytes);
        arenas.tiers = vec![
            TierConfig {
                limit: config.fast_bytes,
                nodes: config.fast_nodes.clone(),
            },
            TierConfig {
                limit: config.slow_bytes,
                nodes: config.slow_nodes.clone(),
            },
        ];
        let arenas = Arenas::new(&arenas).map_err(|e| line(&e))?;
        let placement = Timberline::new(&arenas, T::HEAT, config.placement.clone());
        let placement = placement.map_err(|e| line(&e))?;
        let map = T::open(Native(arenas), placement.clone())?;
        let workers = Workers::shared(placement.workers(), map.placed()).map_err(|e| line(&e))?;
        Ok(Tiered { workers, map })
    }

    /// The panic message of a worker, if one panicked. The map stays correct and usable, but no
    /// node moves any more.
    pub fn worker_failure(&self) -> Option<String> {
        self.workers.panicked()
    }

    /// Committed bytes of fast and slow memory.
    pub fn committed(&self) -> (usize, usize) {
        let committed = |tier| self.map.arenas().budget(tier).used();
        (committed(TierId::FAST), committed(TierId::SLOW))
    }
}

impl<T> Deref for Tiered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.map
    }
}

impl<T: fmt::Debug> fmt::Debug for Tiered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use timberline_placement::workers::{Next, Worker};

    fn config() -> TieredConfig {
        TieredConfig::new(4 << 20, 64 << 20)
    }

    #[test]
    fn any_map_can_be_tiered_and_keeps_the_budget() {
        let btree: Tiered<BTree<u64, u64>> = Tiered::new(&config()).unwrap();
        let art: Tiered<Art<u64, u64>> = Tiered::new(&config()).unwrap();
        let masstree: Tiered<Masstree<str, u64>> = Tiered::new(&config()).unwrap();
        for key in 0..50_000 {
            btree.insert(key, !key).unwrap();
            art.insert(&key, !key).unwrap();
            masstree.insert(&format!("{key:08}"), !key).unwrap();
        }
        for key in (0..50_000).step_by(7) {
            let values = [
                btree.get(key),
                art.get(&key),
                masstree.get(&format!("{key:08}")),
            ];
            assert_eq!(values, [Some(!key); 3]);
        }
        for (fast, slow) in [btree.committed(), art.committed(), masstree.committed()] {
            assert!(0 < fast && fast <= 4 << 20 && slow <= 64 << 20);
        }
        let failures = [
            btree.worker_failure(),
            art.worker_failure(),
            masstree.worker_failure(),
        ];
        assert_eq!(failures, [const { None }; 3]);
    }

    /// Panics in its first step.
    struct Clumsy;

    impl Worker for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        fn step(&mut self, _: &dyn Placed, _: Duration) -> Next {
            // Unwinds as a panic does, without printing one.
            std::panic::resume_unwind(Box::new("out of luck"))
        }
    }

    #[test]
    fn a_worker_that_panics_is_told_of_and_the_map_goes_on() {
        let mut tiered: Tiered<BTree<u64, u64>> = Tiered::new(&config()).unwrap();
        tiered.insert(1, 2).unwrap();
        let clumsy: Vec<Box<dyn Worker>> = vec![Box::new(Clumsy)];
        tiered.workers = Workers::start(clumsy, Map::placed(&tiered.map)).unwrap();
        while tiered.worker_failure().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(tiered.worker_failure().unwrap(), "clumsy: out of luck");
        for key in 0..50_000 {
            tiered.insert(key, !key).unwrap();
        }
        assert_eq!(tiered.get(1), Some(!1));
        assert!(tiered.committed().0 <= 4 << 20);
    }

    #[test]
    fn handles_outlive_the_worker() {
        let tiered: Tiered<Art<str, i32>> = Tiered::new(&config()).unwrap();
        tiered.insert("a", 1).unwrap();
        let map = Art::clone(&tiered);
        drop(tiered);
        assert_eq!(map.insert("a", 2).unwrap(), Some(1));
    }

    #[test]
    fn a_budget_without_room_for_the_table_is_one_line() {
        let config = TieredConfig::new(4096, 1 << 30);
        let error = Tiered::<BTree<u64, u64>>::new(&config).unwrap_err();
        let line = error.to_string();
        assert!(line.contains("4096") && !line.contains('\n'), "{line}");
    }
}
