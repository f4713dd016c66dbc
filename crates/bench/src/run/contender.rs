//! A map with its placement, workers and memory: one of those that take turns.

use std::sync::Arc;

use timberline_placement::workers::Workers;
use timberline_placement::{
    AllFast, AllSlow, InnerFast, Interleave, Oracle, Placement, Sidle, SidleConfig, Timberline,
    TimberlineConfig,
};
use timberline_tier::{Arenas, ArenasConfig, Memory, TierConfig, TierId};

use super::hog::Hog;
use super::index::{Keys, PlacedIndex};
use super::plan::KERNEL;
use crate::report::{LevelFill, Outcome};

/// See the [module's text](self).
pub struct Contender<I: PlacedIndex> {
    /// The placement's name.
    pub name: &'static str,
    /// Its map.
    pub map: I,
    /// Its placement, if that is to be told what will be asked.
    pub oracle: Option<Arc<Oracle>>,
    workers: Workers,
    /// The fast budget; `all-fast` has none.
    budget: Option<usize>,
    /// The NUMA nodes that its tiers are bound to.
    nodes: [Vec<u32>; 2],
    /// What keeps the kernel within the budget.
    hog: Option<Hog>,
}

/// The bytes that a contender may use.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes of the whole tree in fast memory.
    pub tree: usize,
    /// The fast budget.
    pub fast: usize,
    /// The slow limit.
    pub slow: usize,
    /// The NUMA nodes of the two tiers; empty where memory is emulated.
    pub nodes: [Vec<u32>; 2],
}

impl<I: PlacedIndex> Contender<I> {
    /// An empty map placed by the placement of this name.
    ///
    /// # Errors
    /// One line: arenas that can't be had, or a budget too small for the placement's tables.
    pub fn new(
        name: &'static str,
        sizes: &Sizes,
        memory: impl FnOnce(Arenas) -> I::Memory,
        keys: &Keys,
    ) -> Result<Self, String> {
        let (fast, slow) = match name {
            "all-fast" => (sizes.fast + sizes.slow, 0),
            "all-slow" | KERNEL => (0, sizes.fast + sizes.slow),
            _ => (sizes.fast, sizes.slow),
        };
        let mut config = ArenasConfig::two_tiers(fast, slow);
        // Small beside the budget: each size of nodes leaves part of a chunk unused, and tables are as long as the addresses that are
        // reserved, whole chunks among them.
        config.chunk_bytes = (sizes.tree / 512)
            .next_power_of_two()
            .clamp(64 << 10, config.chunk_bytes);
        // A huge page moves as a whole, and only to where as much is free side by side: hardly ever under a tight budget.
        config.huge_pages &= name != KERNEL;
        let limits = [fast, slow];
        config.tiers = limits
            .into_iter()
            .zip(sizes.nodes.clone())
            .map(|(limit, nodes)| TierConfig { limit, nodes })
            .collect();
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        let (mut workers, mut oracle) = (Vec::new(), None);
        let placement: Arc<dyn Placement> = match name {
            "all-fast" => Arc::new(AllFast),
            "all-slow" | KERNEL => Arc::new(AllSlow),
            "interleave" => Arc::new(Interleave::new(
                sizes.fast as f64 / sizes.tree.max(1) as f64,
            )),
            "inner-fast" => Arc::new(InnerFast),
            "oracle" => {
                let it = Arc::new(Oracle::default());
                oracle = Some(it.clone());
                it
            }
            "sidle" => {
                let sidle = Sidle::new(SidleConfig::default());
                workers = sidle.workers();
                sidle
            }
            "timberline" => {
                let ours = Timberline::new(&arenas, I::HEAT, TimberlineConfig::default());
                let ours = ours.map_err(|error| error.to_string())?;
                workers = ours.workers();
                ours
            }
            other => unreachable!("placement names are checked: {other}"),
        };
        let map = I::new(memory(arenas), placement, keys)?;
        let workers = Workers::start(workers, map.placed()).map_err(|error| error.to_string())?;
        Ok(Contender {
            name,
            map,
            oracle,
            workers,
            budget: Some(fast).filter(|_| name != "all-fast"),
            nodes: sizes.nodes.clone(),
            hog: None,
        })
    }

    /// Whether the kernel decides where its pages are.
    pub fn is_kernels(&self) -> bool {
        self.name == KERNEL
    }

    /// Leaves what was loaded to the kernel, which may use `fast` bytes of fast memory.
    ///
    /// # Errors
    /// One line: the kernel refuses, or the rest of fast memory can't be held.
    pub fn leave_to_kernel(&mut self, fast: usize) -> Result<(), String> {
        let unbound = self.map.memory().arenas().unbind();
        unbound.map_err(|error| format!("the kernel does not take the map's memory: {error}"))?;
        self.hog = Some(Hog::leave(fast, &self.nodes[0])?);
        Ok(())
    }

    /// Lets the workers run, until the guard's end.
    pub fn resume(&self) {
        self.workers.resume();
    }

    /// Stops the workers between two steps.
    pub fn pause(&self) {
        self.workers.pause();
    }

    /// CPU time of the workers so far, s.
    pub fn worker_seconds(&self) -> f64 {
        self.workers
            .cpu_time()
            .iter()
            .map(|(_, time)| time.as_secs_f64())
            .sum()
    }

    /// A worker that panicked, if any did.
    pub fn panicked(&self) -> Option<String> {
        self.workers.panicked()
    }

    /// Committed bytes, fast and slow.
    pub fn committed(&self) -> (usize, usize) {
        let arenas = self.map.memory().arenas();
        (
            arenas.budget(TierId::FAST).used(),
            arenas.budget(TierId::SLOW).used(),
        )
    }

    /// Pages that are not where their tier is bound; `None` where none is, or the kernel does not tell.
    fn misplaced_pages(&self) -> Option<u64> {
        if self.is_kernels() || self.nodes.iter().all(Vec::is_empty) {
            return None;
        }
        let arenas = self.map.memory().arenas();
        let tiers = [TierId::FAST, TierId::SLOW].into_iter();
        let censuses = tiers.map(|tier| arenas.census(tier).ok());
        censuses.map(|census| Some(census?.misplaced as u64)).sum()
    }

    /// Fills in what the map itself tells.
    pub fn describe(&self, outcome: &mut Outcome) {
        let stats = self.map.stats();
        let arenas = self.map.memory().arenas();
        let peak = arenas.budget(TierId::FAST).peak();
        outcome.index = I::NAME.into();
        outcome.placement = self.name.into();
        outcome.fast_bytes = stats.fast_bytes as u64;
        outcome.slow_bytes = stats.slow_bytes as u64;
        if self.is_kernels() {
            let fast = arenas.bytes_on(TierId::SLOW, &self.nodes[0]).unwrap_or(0) as u64;
            outcome.fast_bytes = fast;
            outcome.slow_bytes -= fast.min(outcome.slow_bytes);
        }
        outcome.fast_bytes_peak = peak as u64;
        outcome.fast_budget_bytes = self.budget.unwrap_or(0) as u64;
        outcome.misplaced_pages = self.misplaced_pages();
        let over = |budget| peak.saturating_sub(budget) as u64;
        outcome.over_budget_bytes = self.budget.map_or(0, over);
        let bytes = (stats.fast_bytes + stats.slow_bytes) as f64;
        outcome.bytes_per_record = bytes / stats.records.max(1) as f64;
        let node = stats.node_bytes as u64;
        let levels = stats
            .levels
            .iter()
            .enumerate()
            .map(|(level, fill)| LevelFill {
                level: level as u8,
                nodes_fast: fill.fast as u64,
                nodes_slow: fill.slow as u64,
                bytes_fast: fill.fast as u64 * node,
                bytes_slow: fill.slow as u64 * node,
            });
        outcome.levels = levels.collect();
    }
}
