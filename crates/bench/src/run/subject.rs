//! A subject: a map with its placement, workers and memory. Subjects take turns.

mod watched;

use std::mem::take;
use std::path::Path;
use std::sync::Arc;

use timberline_placement::Placement;
use timberline_placement::workers::Workers;
use timberline_research::Oracle;
use timberline_research::pages::PageTable;
use timberline_research::table::{Grain, Kind, Made, Make, PageSetup, Row, Setup, Tiers};
use timberline_tier::emulator::PAGE;
use timberline_tier::tiering::{KernelMoves, MoveCounter};
use timberline_tier::{Arenas, ArenasConfig, Memory, TierConfig, TierId};
use timberline_tree::Stats;

use super::cores::Cores;
use super::index::PlacedIndex;
use super::leaf_counts::LeafCounts;
use super::memory_hog::MemoryHog;
use super::paged::PageSide;
use super::plan::Plan;
use super::record_format::RecordFormat;
use crate::report::{LevelFill, Outcome, TierFill};
use crate::substrate::Substrate;

/// Nodes of fast memory that the oracle leaves free for future inner nodes.
const ORACLE_KEEPS: usize = 8;
/// Number of the kernel's pages sampled while requests run: it takes a millisecond.
const ASKED: usize = 4096;

/// A map under measurement; see the [module](self).
pub struct Subject<I: PlacedIndex> {
    pub row: &'static Row,
    pub name: &'static str,
    pub map: I,
    placement: Arc<dyn Placement>,
    /// The placement again, if it knows the requests in advance.
    oracle: Option<Arc<Oracle>>,
    /// The placement of its pages, if pages are placed.
    pages: Option<PageSide>,
    /// Counts its leaves, if it is all fast.
    pub leaf_counts: Option<Arc<LeafCounts>>,
    workers: Workers,
    /// The fast budget; `all-fast` has none.
    budget: Option<usize>,
    /// The NUMA nodes of its tiers.
    nodes: Vec<Vec<u32>>,
    /// The memory hog that enforces the budget on the kernel.
    hog: Option<MemoryHog>,
    /// The counter of the kernel's moves, once the kernel places its pages.
    counter: Option<MoveCounter>,
}

/// The memory sizes of a subject.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes of the whole tree in fast memory.
    pub tree: usize,
    pub fast: usize,
    /// Of the tiers between the fast one and the slowest.
    pub middle: Vec<usize>,
    pub slow: usize,
    /// Bytes of a chunk, from which slots of one size are cut: the same for all, so that no map has
    /// larger pages than another.
    pub chunk: usize,
    /// The number of top levels that fit into fast memory together; 255 if all do.
    pub levels: u8,
}

impl<I: PlacedIndex> Subject<I> {
    /// An empty map under the placement of this row, whose workers keep to their own cores if some
    /// were set aside.
    ///
    /// # Errors
    /// One line: arenas cannot be allocated.
    pub fn new(
        row: &'static Row,
        sizes: &Sizes,
        plan: &Plan,
        memory: impl FnOnce(Arenas) -> I::Memory,
        format: &RecordFormat,
        cores: Option<&Cores>,
    ) -> Result<Self, String> {
        let name = row.name;
        let total = sizes.fast + sizes.slow;
        let none = vec![0; sizes.middle.len()];
        let (fast, middle, slow) = match row.tiers {
            Tiers::Fast => (total, none, 0),
            Tiers::Slow => (0, none, total),
            Tiers::Both | Tiers::BothFast => (sizes.fast, sizes.middle.clone(), sizes.slow),
        };
        let mut config = ArenasConfig::two_tiers(fast, slow);
        config.chunk_bytes = sizes.chunk.min(config.chunk_bytes);
        // A huge page moves as a whole, and only into contiguous free memory: rare under a tight
        // budget.
        config.huge_pages &= row.grain() != Grain::Kernel;
        let limits = [vec![fast], middle, vec![slow]].concat();
        let mut nodes: Vec<Vec<u32>> = (0..limits.len())
            .map(|tier| plan.nodes_of(tier).to_vec())
            .collect();
        if row.tiers == Tiers::BothFast {
            nodes[1] = nodes[0].clone();
        }
        config.tiers = limits
            .into_iter()
            .zip(nodes.clone())
            .map(|(limit, nodes)| TierConfig::new(limit, nodes))
            .collect();
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        let ratio = |bytes: usize| bytes as f64 / sizes.tree.max(1) as f64;
        let fast_ratio = ratio(sizes.fast);
        let middle_ratios: Vec<f64> = sizes.middle.iter().map(|&bytes| ratio(bytes)).collect();
        let mut made = match row.make {
            Make::Nodes(make) => make(&Setup {
                arenas: &arenas,
                heat: I::heat(format),
                fast_ratio,
                middle_ratios: &middle_ratios,
                fast_levels: sizes.levels,
                seed: plan.seed,
                interval: plan.interval,
                watermarks: plan.watermarks,
            })?,
            Make::Pages(_) | Make::Kernel => Made::pages(),
        };
        let mut leaf_counts = None;
        if row.tiers == Tiers::Fast {
            let counting = Arc::new(LeafCounts::default());
            leaf_counts = Some(counting.clone());
            made.placement = counting;
        }
        let map = I::new(memory(arenas), made.placement.clone(), format)?;
        let mut pages = None;
        if let Make::Pages(make) = row.make {
            let emulated = map.memory().emulated();
            let emulated = emulated.ok_or_else(|| format!("{name} moves emulated pages only"))?;
            let setup = PageSetup {
                threads: plan.threads,
                fast_ratio,
            };
            let limit = sizes.fast / PAGE;
            let table = PageTable::new(Arc::new(emulated.pages().clone()), limit, plan.page_costs);
            let is_oracle = row.kind == Kind::Oracle;
            let side = PageSide::new(|table| make(&setup, table), table, is_oracle, emulated);
            made.workers = side.workers();
            pages = Some(side);
        }
        let Made {
            placement,
            workers,
            oracle,
        } = made;
        let start = || Workers::start(workers, map.placed());
        let workers = match cores {
            Some(cores) => cores.start_workers(start),
            None => start(),
        };
        let workers =
            workers.map_err(|error| format!("no thread for the workers of {name}: {error}"))?;
        Ok(Subject {
            row,
            name,
            map,
            placement,
            oracle,
            pages,
            leaf_counts,
            workers,
            budget: match (row.tiers, row.grain()) {
                (Tiers::Fast | Tiers::BothFast, _) => None,
                (_, Grain::Page) => Some(sizes.fast),
                _ => Some(fast),
            },
            nodes,
            hog: None,
            counter: None,
        })
    }

    /// Whether its placement adapts over time.
    pub fn adapts(&self) -> bool {
        self.row.kind.adapts()
    }

    /// Whether the kernel places its pages.
    pub fn is_kernels(&self) -> bool {
        self.row.grain() == Grain::Kernel
    }

    /// Whether pages are placed, by the kernel or the emulator: a node's address does not tell its
    /// tier then.
    fn is_of_pages(&self) -> bool {
        self.is_kernels() || self.pages.is_some()
    }

    /// All records are loaded.
    pub fn settle(&self) {
        if let (Some(pages), Some(memory)) = (&self.pages, self.map.memory().emulated()) {
            pages.settle(memory);
        }
    }

    /// Whether the placement knows the requests in advance.
    pub fn is_oracle(&self) -> bool {
        self.oracle.is_some() || self.pages.as_ref().is_some_and(PageSide::is_oracle)
    }

    /// Calls `rehearse`, which makes the requests of the run, and places the map by them.
    ///
    /// # Errors
    /// As `rehearse`.
    pub fn arrange(
        &mut self,
        rehearse: impl FnOnce(&I) -> Result<(), String>,
    ) -> Result<(), String> {
        if let Some(oracle) = &self.oracle {
            oracle.begin_counting();
            rehearse(&self.map)?;
            oracle.arrange(&*self.map.placed(), ORACLE_KEEPS);
        } else if let Some(pages) = &mut self.pages {
            pages.begin_counting();
            self.map.memory().charge(true);
            let rehearsed = rehearse(&self.map);
            self.map.memory().charge(false);
            rehearsed?;
            pages.arrange();
        }
        Ok(())
    }

    pub fn did(&self, requests: u64) {
        if let Some(pages) = &self.pages {
            pages.did(requests);
        }
    }

    /// Nodes or pages moved so far to faster and to slower memory.
    pub fn moves(&self) -> (u64, u64) {
        match &self.pages {
            Some(pages) => (pages.tally().promoted, pages.tally().demoted),
            None => self.map.moves(),
        }
    }

    /// Bytes in fast memory; an estimate if the kernel places the pages.
    pub fn fast_bytes(&self) -> usize {
        match &self.pages {
            Some(pages) => pages.tally().fast * PAGE,
            None if self.is_kernels() => {
                let pages = self.committed().1 / PAGE;
                self.fast_bytes_of_kernel(pages / ASKED)
            }
            // Not through the placement: reading its fill raises its capacity estimate, and an
            // observer must change nothing.
            None => self.map.memory().arenas().used(TierId::FAST),
        }
    }

    /// Estimated bytes in the kernel's fast memory, from one page in `one_in`.
    fn fast_bytes_of_kernel(&self, one_in: usize) -> usize {
        let arenas = self.map.memory().arenas();
        let bytes = arenas.bytes_on(TierId::SLOW, &self.nodes[0], one_in);
        bytes.unwrap_or(0)
    }

    /// Hands the loaded pages to the kernel, with `fast` bytes of fast memory.
    ///
    /// # Errors
    /// One line: the kernel refuses, or the memory hog cannot take the rest of fast memory.
    pub fn leave_to_kernel(&mut self, fast: usize) -> Result<(), String> {
        let unbound = self.map.memory().arenas().unbind();
        unbound.map_err(|error| format!("the kernel does not take the map's memory: {error}"))?;
        self.hog = Some(MemoryHog::leave(fast, &self.nodes[0])?);
        // Counts start here: pages that the hog displaces are not the map's.
        self.counter = Some(MoveCounter::begin(Path::new("/")));
        Ok(())
    }

    /// The kernel's moves since it took over.
    pub fn kernel_moves(&self) -> Option<KernelMoves> {
        self.counter.as_ref().map(MoveCounter::moved)
    }

    /// Resumes the workers until [`Subject::pause`], unless the placement pauses its workers while
    /// it is `measured`.
    pub fn resume(&self, measured: bool) {
        if !(measured && self.row.kind == Kind::Paused) {
            self.workers.resume();
        }
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

    /// The panic of a worker, if one panicked.
    pub fn panicked(&self) -> Option<String> {
        self.workers.panicked()
    }

    /// Committed bytes, fast and slow.
    pub fn committed(&self) -> (usize, usize) {
        let arenas = self.map.memory().arenas();
        let used = |tier| arenas.budget(tier).used();
        (used(TierId::FAST), self.tiers().skip(1).map(used).sum())
    }

    /// All tiers, the fast one first.
    fn tiers(&self) -> impl Iterator<Item = TierId> {
        (0..self.map.memory().arenas().tiers()).map(|tier| TierId(tier as u8))
    }

    /// Pages on a node other than their tier's; `None` if no tier is bound, or the kernel does not
    /// report it.
    fn misplaced_pages(&self) -> Option<u64> {
        if self.is_kernels() || self.nodes.iter().all(Vec::is_empty) {
            return None;
        }
        let arenas = self.map.memory().arenas();
        let censuses = self.tiers().map(|tier| arenas.census(tier).ok());
        censuses.map(|census| Some(census?.misplaced as u64)).sum()
    }

    /// The levels of a tree of nodes by tier, root first.
    fn levels_of(stats: &Stats) -> Vec<LevelFill> {
        // An average, if nodes differ in size.
        let nodes = stats.levels.iter().map(|level| level.fast + level.slow);
        let node = stats.bytes_in_nodes.saturating_sub(stats.copies_bytes);
        let node = (node / nodes.sum::<usize>().max(1)) as u64;
        let level = |(level, fill): (usize, &timberline_tree::LevelFill)| LevelFill {
            level: level as u8,
            nodes_fast: fill.fast as u64,
            nodes_slow: fill.slow as u64,
            bytes_fast: fill.fast as u64 * node,
            bytes_slow: fill.slow as u64 * node,
        };
        stats.levels.iter().enumerate().map(level).collect()
    }

    /// Sets the figures that the map itself reports.
    pub fn describe(&self, outcome: &mut Outcome) {
        let stats = self.map.stats();
        let arenas = self.map.memory().arenas();
        let peak = match &self.pages {
            Some(pages) => pages.tally().peak * PAGE,
            None => arenas.budget(TierId::FAST).peak(),
        };
        outcome.index = I::NAME.into();
        outcome.placement = self.name.into();
        if arenas.tiers() > 2 {
            let fill = |tier| {
                let budget = arenas.budget(tier);
                TierFill {
                    bytes: budget.used() as u64,
                    limit_bytes: (budget.limit() > 0).then_some(budget.limit() as u64),
                }
            };
            outcome.tiers = self.tiers().map(fill).collect();
        }
        outcome.fast_bytes = stats.fast_bytes as u64;
        outcome.slow_bytes = stats.slow_bytes as u64;
        if self.is_of_pages() {
            let fast = match self.is_kernels() {
                true => self.fast_bytes_of_kernel(1),
                false => self.fast_bytes(),
            } as u64;
            outcome.fast_bytes = fast;
            outcome.slow_bytes -= fast.min(outcome.slow_bytes);
        }
        outcome.fast_share_bound = self.pages.as_ref().and_then(PageSide::bound);
        outcome.fast_bytes_peak = peak as u64;
        outcome.fast_budget_bytes = self.budget.unwrap_or(0) as u64;
        outcome.misplaced_pages = self.misplaced_pages();
        let over = |budget| peak.saturating_sub(budget) as u64;
        outcome.over_budget_bytes = self.budget.map_or(0, over);
        let bytes = (stats.fast_bytes + stats.slow_bytes) as f64;
        outcome.bytes_per_record = bytes / stats.records.max(1) as f64;
        if !self.is_of_pages() {
            outcome.levels = Self::levels_of(&stats);
            outcome.copies_bytes = stats.copies_bytes as u64;
        }
        if self.row.tiers == Tiers::BothFast {
            outcome.fast_bytes_peak += arenas.budget(TierId::SLOW).peak() as u64;
            count_as_fast(outcome);
        }
    }
}

/// Counts all memory as fast.
fn count_as_fast(outcome: &mut Outcome) {
    outcome.fast_bytes += take(&mut outcome.slow_bytes);
    for level in &mut outcome.levels {
        level.nodes_fast += take(&mut level.nodes_slow);
        level.bytes_fast += take(&mut level.bytes_slow);
    }
}
