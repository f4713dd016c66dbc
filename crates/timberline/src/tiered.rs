//! A map with everything it needs: memory in two tiers, the placement, and its worker.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

use timberline_placement::workers::Workers;
use timberline_placement::{HeatIn, Timberline, TimberlineConfig};
use timberline_tier::topology::Topology;
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierConfig, TierId};
use timberline_tree::{BTree, Key, Value};

/// What a [`Tiered`] map may use.
#[derive(Clone, Debug)]
pub struct TieredConfig {
    /// The most bytes of fast memory, tables included. Never exceeded.
    pub fast_bytes: usize,
    /// The most bytes of slow memory.
    pub slow_bytes: usize,
    /// NUMA nodes of the fast tier; empty for any.
    pub fast_nodes: Vec<u32>,
    /// NUMA nodes of the slow tier; empty for any.
    pub slow_nodes: Vec<u32>,
    /// What can be tuned about the placement.
    pub placement: TimberlineConfig,
}

/// Why a [`Tiered`] map could not be made. One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadConfig(String);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}

impl TieredConfig {
    /// Two tiers of these sizes, in bytes, bound to no NUMA node.
    pub fn new(fast_bytes: usize, slow_bytes: usize) -> Self {
        TieredConfig {
            fast_bytes,
            slow_bytes,
            fast_nodes: Vec::new(),
            slow_nodes: Vec::new(),
            placement: TimberlineConfig::default(),
        }
    }

    /// The first two memory tiers of this machine, and half of what is free in them.
    ///
    /// # Errors
    /// There is only one tier, or the machine can't be read.
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

/// A B+tree over two tiers whose nodes are moved by a thread of its own. Dereferences to [`BTree`].
///
/// Dropping it stops the thread; handles cloned from the tree go on working, with nothing moved any more.
pub struct Tiered<K, V> {
    // Before the map: the worker stops while the tree is still there.
    workers: Workers,
    map: BTree<K, V, Native>,
}

impl<K: Key, V: Value> Tiered<K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// NUMA nodes that are not there, or fast memory too small for the heat table (two bytes for each KiB of both
    /// tiers).
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
        let home = HeatIn::Table {
            node_bytes: BTree::<K, V>::NODE_BYTES,
        };
        let placement = Timberline::new(&arenas, home, config.placement.clone());
        let placement = placement.map_err(|e| line(&e))?;
        let map = BTree::new(Native(arenas), placement.clone()).map_err(|e| line(&e))?;
        let workers = Workers::start(placement.workers(), map.placed()).map_err(|e| line(&e))?;
        Ok(Tiered { workers, map })
    }

    /// How a worker failed, if one did. The map is correct and usable then, but no node is moved any more.
    pub fn worker_failure(&self) -> Option<String> {
        self.workers.panicked()
    }

    /// Committed bytes of fast and of slow memory.
    pub fn committed(&self) -> (usize, usize) {
        let arenas = self.map.memory().arenas();
        (
            arenas.budget(TierId::FAST).used(),
            arenas.budget(TierId::SLOW).used(),
        )
    }
}

impl<K, V> Deref for Tiered<K, V> {
    type Target = BTree<K, V, Native>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<K: Key, V: Value> fmt::Debug for Tiered<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}
