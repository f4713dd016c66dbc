//! A map with its placement, workers and memory: one of those that take turns.

mod watched;

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

use super::census::Census;
use super::form::Form;
use super::index::PlacedIndex;
use super::memory_hog::MemoryHog;
use super::paged::PageSide;
use super::plan::Plan;
use crate::report::{LevelFill, Outcome};
use crate::substrate::Substrate;

/// Nodes of fast memory that the oracle leaves free for inner nodes to come.
const ORACLE_KEEPS: usize = 8;
/// So many pages of the kernel's are looked at while requests are made: it takes a millisecond.
const ASKED: usize = 4096;

/// See the [module's text](self).
pub struct Subject<I: PlacedIndex> {
    /// The placement's row.
    pub row: &'static Row,
    /// Its name.
    pub name: &'static str,
    /// Its map.
    pub map: I,
    /// Its placement.
    placement: Arc<dyn Placement>,
    /// The same, if it is to be told what will be asked.
    oracle: Option<Arc<Oracle>>,
    /// What places its pages, if that is not its nodes' placement.
    pages: Option<PageSide>,
    /// What counts its leaves, if it is all fast.
    pub census: Option<Arc<Census>>,
    workers: Workers,
    /// The fast budget; `all-fast` has none.
    budget: Option<usize>,
    /// The NUMA nodes that its tiers are bound to.
    nodes: [Vec<u32>; 2],
    /// What keeps the kernel within the budget.
    hog: Option<MemoryHog>,
    /// What counts the kernel's moves, once it is left to the kernel.
    counter: Option<MoveCounter>,
}

/// The bytes that a subject may use.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes of the whole tree in fast memory.
    pub tree: usize,
    /// The fast budget.
    pub fast: usize,
    /// The slow limit.
    pub slow: usize,
    /// Bytes of a chunk, from which slots of one size are cut: the same for all, so that none has
    /// larger pages than another.
    pub chunk: usize,
    /// How many of the uppermost levels fit into fast memory together; 255 if all do.
    pub levels: u8,
}

impl<I: PlacedIndex> Subject<I> {
    /// An empty map, placed by the placement of this row.
    ///
    /// # Errors
    /// One line: arenas that can't be had, or a budget too small for the placement's tables.
    pub fn new(
        row: &'static Row,
        sizes: &Sizes,
        plan: &Plan,
        memory: impl FnOnce(Arenas) -> I::Memory,
        form: &Form,
    ) -> Result<Self, String> {
        let name = row.name;
        let total = sizes.fast + sizes.slow;
        let (fast, slow) = match row.tiers {
            Tiers::Fast => (total, 0),
            Tiers::Slow => (0, total),
            Tiers::Both => (sizes.fast, sizes.slow),
        };
        let mut config = ArenasConfig::two_tiers(fast, slow);
        config.chunk_bytes = sizes.chunk.min(config.chunk_bytes);
        // A huge page moves as a whole, and only to where as much is free side by side: hardly ever
        // under a tight budget.
        config.huge_pages &= row.grain() != Grain::Kernel;
        let limits = [fast, slow];
        config.tiers = limits
            .into_iter()
            .zip(plan.nodes.clone())
            .map(|(limit, nodes)| TierConfig { limit, nodes })
            .collect();
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        let fast_ratio = sizes.fast as f64 / sizes.tree.max(1) as f64;
        let mut made = match row.make {
            Make::Nodes(make) => make(&Setup {
                arenas: &arenas,
                heat: I::heat(form),
                fast_ratio,
                fast_levels: sizes.levels,
                seed: plan.seed,
                interval: plan.interval,
                watermarks: plan.watermarks,
            })?,
            Make::Pages(_) | Make::Kernel => Made::pages(),
        };
        let mut census = None;
        if row.tiers == Tiers::Fast {
            let counting = Arc::new(Census::default());
            census = Some(counting.clone());
            made.placement = counting;
        }
        let map = I::new(memory(arenas), made.placement.clone(), form)?;
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
        let workers = Workers::start(workers, map.placed()).map_err(|error| error.to_string())?;
        Ok(Subject {
            row,
            name,
            map,
            placement,
            oracle,
            pages,
            census,
            workers,
            budget: match (row.tiers, row.grain()) {
                (Tiers::Fast, _) => None,
                (_, Grain::Page) => Some(sizes.fast),
                _ => Some(fast),
            },
            nodes: plan.nodes.clone(),
            hog: None,
            counter: None,
        })
    }

    /// Whether it gets better with time.
    pub fn adapts(&self) -> bool {
        matches!(self.row.kind, Kind::Adaptive | Kind::Paused)
    }

    /// Whether the kernel decides where its pages are.
    pub fn is_kernels(&self) -> bool {
        self.row.grain() == Grain::Kernel
    }

    /// Whether pages are moved, by whomever: a node's address does not tell its tier then.
    fn is_of_pages(&self) -> bool {
        self.is_kernels() || self.pages.is_some()
    }

    /// All records are loaded.
    pub fn settle(&self) {
        if let (Some(pages), Some(memory)) = (&self.pages, self.map.memory().emulated()) {
            pages.settle(memory);
        }
    }

    /// Whether the placement is to be told what will be asked.
    pub fn is_oracle(&self) -> bool {
        self.oracle.is_some() || self.pages.as_ref().is_some_and(PageSide::is_oracle)
    }

    /// Calls `rehearse`, which makes the requests that will be asked, and places the map by them.
    pub fn arrange(&mut self, rehearse: impl FnOnce(&I)) {
        if let Some(oracle) = &self.oracle {
            oracle.begin_counting();
            rehearse(&self.map);
            oracle.arrange(&*self.map.placed(), ORACLE_KEEPS);
        } else if let Some(pages) = &mut self.pages {
            pages.begin_counting();
            self.map.memory().charge(true);
            rehearse(&self.map);
            self.map.memory().charge(false);
            pages.arrange();
        }
    }

    /// So many more requests were done.
    pub fn did(&self, requests: u64) {
        if let Some(pages) = &self.pages {
            pages.did(requests);
        }
    }

    /// Nodes, or pages, moved to faster and to slower memory so far.
    pub fn moves(&self) -> (u64, u64) {
        match &self.pages {
            Some(pages) => (pages.tally().promoted, pages.tally().demoted),
            None => self.map.moves(),
        }
    }

    /// Bytes in fast memory; where the kernel has them, about.
    pub fn fast_bytes(&self) -> usize {
        match &self.pages {
            Some(pages) => pages.tally().fast * PAGE,
            None if self.is_kernels() => {
                let pages = self.committed().1 / PAGE;
                self.fast_bytes_of_kernel(pages / ASKED)
            }
            // What a placement is told of its fill makes it believe in more room; to look on must
            // not.
            None => self.map.memory().arenas().used(TierId::FAST),
        }
    }

    /// Bytes that the kernel has in fast memory, as far as one page in `one_in` tells.
    fn fast_bytes_of_kernel(&self, one_in: usize) -> usize {
        let arenas = self.map.memory().arenas();
        let bytes = arenas.bytes_on(TierId::SLOW, &self.nodes[0], one_in);
        bytes.unwrap_or(0)
    }

    /// Leaves what was loaded to the kernel, which may use `fast` bytes of fast memory.
    ///
    /// # Errors
    /// One line: the kernel refuses, or the rest of fast memory can't be held.
    pub fn leave_to_kernel(&mut self, fast: usize) -> Result<(), String> {
        let unbound = self.map.memory().arenas().unbind();
        unbound.map_err(|error| format!("the kernel does not take the map's memory: {error}"))?;
        self.hog = Some(MemoryHog::leave(fast, &self.nodes[0])?);
        // From here on, as what the hog drives out is none of the map's.
        self.counter = Some(MoveCounter::begin(Path::new("/")));
        Ok(())
    }

    /// What the kernel moved since it was left to it.
    pub fn kernel_moves(&self) -> Option<KernelMoves> {
        self.counter.as_ref().map(MoveCounter::moved)
    }

    /// Lets the workers run until [`Subject::pause`], unless theirs are to rest while it is
    /// `measured`.
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

    /// Pages that are not where their tier is bound; `None` where none is, or the kernel does not
    /// tell.
    fn misplaced_pages(&self) -> Option<u64> {
        if self.is_kernels() || self.nodes.iter().all(Vec::is_empty) {
            return None;
        }
        let arenas = self.map.memory().arenas();
        let tiers = [TierId::FAST, TierId::SLOW].into_iter();
        let censuses = tiers.map(|tier| arenas.census(tier).ok());
        censuses.map(|census| Some(census?.misplaced as u64)).sum()
    }

    /// Where each level of a tree of nodes lies, root first.
    fn levels_of(stats: &Stats) -> Vec<LevelFill> {
        // On average, where nodes differ.
        let nodes = stats.levels.iter().map(|level| level.fast + level.slow);
        let node = (stats.bytes_in_nodes / nodes.sum::<usize>().max(1)) as u64;
        let level = |(level, fill): (usize, &timberline_tree::LevelFill)| LevelFill {
            level: level as u8,
            nodes_fast: fill.fast as u64,
            nodes_slow: fill.slow as u64,
            bytes_fast: fill.fast as u64 * node,
            bytes_slow: fill.slow as u64 * node,
        };
        stats.levels.iter().enumerate().map(level).collect()
    }

    /// Fills in what the map itself tells.
    pub fn describe(&self, outcome: &mut Outcome) {
        let stats = self.map.stats();
        let arenas = self.map.memory().arenas();
        let peak = match &self.pages {
            Some(pages) => pages.tally().peak * PAGE,
            None => arenas.budget(TierId::FAST).peak(),
        };
        outcome.index = I::NAME.into();
        outcome.placement = self.name.into();
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
        outcome.levels = match self.is_of_pages() {
            true => Vec::new(),
            false => Self::levels_of(&stats),
        };
    }
}
