//! `sidle`: SIDLE as published (Zhao, Dong, Wu, Chen: "SIDLE: Tree-structure Aware Indexes for
//! CXL-based Heterogeneous Memory", PVLDB 19(7), 2026), §4: its five workers, its defaults.
//!
//! The foreground places new nodes by layer and counts accesses in leaves, without a lock. The
//! workers do the rest: the *trigger* scans the leaves and queues hot slow ones and cold fast ones,
//! the *promoter* and the *demoter* serve these queues, the *cooler* halves all heat, and the
//! *watermark* maintainer steers the four parameters by how full fast memory is.
//!
//! Invariants: every move keeps the single boundary; queues hold names, never addresses; the four
//! parameters are read and written as one word, the two thresholds as another.
//!
//! # Where this differs from the text
//!
//! - A path is promoted ancestors first, not leaf first, so that the single boundary holds at every
//!   moment and not only at the end. The nodes moved are the same.
//! - Algorithm 1 ends its loop at a node above `L_demote`. Here that node is skipped and the loop
//!   goes on: the same nodes are demoted, and none that was queued meanwhile is left behind.
//! - An inner node split off from a fast one is fast whatever its level is: it takes over children
//!   that may be fast, and a slow node above them would break the single boundary.
//! - Nodes are queued by name and the histogram and queues are behind locks, which only workers
//!   take.
//!
//! # Where the text is silent
//!
//! - *First values.* A new tree is empty and fast memory abundant, so `L_fast` and `L_demote` begin
//!   where abundance leads: at `L_max`, whatever that will be. `P_hot` and `P_cold` begin at 5 and
//!   80, as in the authors' released code: a tree some five times its fast memory. How much fits is
//!   unknown before there is a tree, and the watermark soon moves both anyway.
//! - *Bins.* Untouched leaves count in the first bin, `[1, 2)`; heat ends at 65535.
//! - *`T_hot`.* When the last bin, which has no upper bound, alone exceeds `P_hot`, its lower
//!   bound is taken. At `P_hot` = 100 every touched leaf is hot, at 0 none.
//! - *`T_cold`* is the greatest power of two below which at most `P_cold` percent of leaves lie, at
//!   least 1, so that untouched leaves are cold, and at most `T_hot`. At `P_cold` = 0 no leaf is
//!   cold.
//! - *Before the first scan* nothing is hot or cold. A scan judges leaves by the histogram of the
//!   scan before it and by the parameters of now.
//! - *Cooling and scanning exclude each other*, so the histogram never mixes cooled and uncooled
//!   heat.
//! - *"Some" cold slow leaves* are every 61st, counted on from scan to scan, and none while
//!   `L_demote` protects their parents.
//! - *A split* gives each half of a leaf half its heat: the accesses will be shared, too.
//! - *`P_hot` under strain* falls, as in the pseudocode (the prose leaves it out).
//! - *The average* of a reset rounds a half towards the adjusted value.
//! - *A strain that nothing relieves*, with all parameters at their ends and not a node demoted in
//!   a whole round, ends as if relieved; the next period tries again.
//! - *How full* fast memory is: bytes in slots over what it can be expected to hold. The text
//!   counts bytes of nodes against a limit and never runs out below it. Here slots have sizes, and
//!   in a map with nodes or blocks of several, a node finds no room with a fifth of the bytes free,
//!   which is below `U_low`. So what a tier held when it was last full stands for its limit, until
//!   as much has left it (`Placed::fill`).
//! - *The promotion queue* is kept while promotions are halted. A promotion that finds fast memory
//!   full, or leaves it fuller than the high watermark, wakes the watermark maintainer.
//! - *A slow node above fast ones*, made for want of fast memory, is made fast by the demoter if
//!   there is room by then; otherwise all below it is demoted.
//! - *One tier.* Without slow memory nothing is under strain.
//!
//! # What follows from the text
//!
//! The parameters move one percent, or one level, a turn, and only outside of the watermarks; bins
//! are a factor of two wide. Where most leaves are alike, such as all outside of a hot spot, they
//! lie in two or three bins, so one percent more makes none of them cold, or all. So `P_hot` swings
//! (between 0 and 33 % on a hot spot of 5 %), use of fast memory with it, and leaves that are no
//! hotter than others change places for ever. After a hot region moved, the old one stays hotter
//! than the new one for a cooling or two, and promotion waits for the strains in between.

mod cooler;
mod demoter;
mod histogram;
mod params;
mod promoter;
mod released;
mod technique;
#[cfg(test)]
mod tests;
mod trigger;
mod watermark;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timberline_tier::TierId;

use histogram::{Histogram, SharedThresholds, Thresholds};
use params::{Params, SharedParams};
use timberline_placement::NodeQueue;
use timberline_placement::workers::{Waker, Worker, lock};
use timberline_placement::{
    Access, LeafRef, MAX_SAMPLE_INTERVAL, NewNode, NodeKey, Placed, Placement,
};
use timberline_placement::{View, powers_of_two};

pub use histogram::BINS;
pub(crate) use released::ROW as RELEASED;
pub use released::Rules;
pub use technique::Technique;
pub(crate) use technique::{HISTOGRAM, LAYERING, MIGRATION, ROW, TRACKING, WATERMARK};

/// Periods and watermarks. The defaults are the paper's (§5, "Configuration").
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SidleConfig {
    /// The interval between scans of the leaves: 500 ms.
    pub trigger_period: Duration,
    /// The interval between halvings of all heat: 2000 ms.
    pub cooler_period: Duration,
    /// The interval between checks of the fill of fast memory: 100 ms.
    pub watermark_period: Duration,
    /// `U_high`, 0–1: above it fast memory is under strain. 0.95.
    pub high_watermark: f64,
    /// `U_low`, 0–1 and below `U_high`: below it fast memory is abundant. 0.85.
    pub low_watermark: f64,
    /// The first `P_hot`, 0–100: the hottest leaves meant to be fast. 5.
    pub hot_percent: u8,
    /// The first `P_cold`, 0–100 less `P_hot`: the coldest leaves meant to be slow. 80.
    pub cold_percent: u8,
    /// This technique and those before it are in use: all of them.
    pub up_to: Technique,
    /// `L_fast` and `L_demote` as long as no watermark steers them: the uppermost levels that fit
    /// into fast memory. 255 if all do, leaves among them.
    pub fixed_levels: u8,
    /// `T_hot` as long as no histogram gives it: 128, as in the authors' released code.
    pub fixed_hot: u32,
    /// `T_cold` likewise: 4.
    pub fixed_cold: u32,
    /// How the watermark steers the parameters, and other differences of the released code: as
    /// published.
    pub rules: Rules,
}

impl Default for SidleConfig {
    fn default() -> Self {
        Self {
            trigger_period: Duration::from_millis(500),
            cooler_period: Duration::from_millis(2000),
            watermark_period: Duration::from_millis(100),
            high_watermark: 0.95,
            low_watermark: 0.85,
            hot_percent: 5,
            cold_percent: 80,
            up_to: Technique::Watermark,
            fixed_levels: Params::ALL_LEVELS,
            fixed_hot: 128,
            fixed_cold: 4,
            rules: Rules::Published,
        }
    }
}

impl SidleConfig {
    fn fixed_thresholds(&self) -> Thresholds {
        Thresholds {
            t_hot: self.fixed_hot,
            t_cold: self.fixed_cold,
        }
    }
}

/// The estimates and counters of `sidle` at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidleSnapshot {
    /// `L_fast`: new nodes at a level less than this may be fast (root = 0). 255 is "all levels".
    pub l_fast: u8,
    /// `L_demote`: nodes at a level less than this are not demoted. 255 is "all levels".
    pub l_demote: u8,
    /// `P_hot`: percent of leaves meant to be hot.
    pub p_hot: u8,
    /// `P_cold`: percent of leaves meant to be cold.
    pub p_cold: u8,
    /// `T_hot`: a leaf with more heat is hot.
    pub t_hot: u32,
    /// `T_cold`: a leaf with less heat is cold.
    pub t_cold: u32,
    /// Leaves with a heat in `[2^i, 2^(i + 1))`, untouched ones in the first bin.
    pub histogram: [u64; BINS],
    /// Nodes moved to fast memory so far.
    pub promoted: u64,
    /// Nodes moved to slow memory so far.
    pub demoted: u64,
    /// Whether fast memory is under strain and promotions are halted.
    pub strained: bool,
}

/// The stage of the round of demotions that a strain requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Round {
    /// None was requested, or it is complete.
    Over,
    /// The trigger is to scan.
    Scan,
    /// The demoter is to empty its queue.
    Demote,
}

/// SIDLE for one tree. Its workers, from [`Sidle::workers`], must run for anything to move.
pub struct Sidle {
    config: SidleConfig,
    params: SharedParams,
    thresholds: SharedThresholds,
    histogram: Mutex<Histogram>,
    /// Held during a scan of all leaves.
    scan: Mutex<()>,
    promotions: NodeQueue,
    demotions: NodeQueue,
    /// Slow nodes above fast ones.
    broken: NodeQueue,
    /// Promotions are halted: the watermark maintainer is relieving a strain.
    strained: AtomicBool,
    /// Demotions are halted since a strain was relieved; by the released code only.
    relieved: AtomicBool,
    round: AtomicU8,
    promoted: AtomicU64,
    demoted: AtomicU64,
    wake_trigger: Waker,
    wake_promoter: Waker,
    wake_demoter: Waker,
    wake_watermark: Waker,
}

impl Sidle {
    /// A placement for one tree. Percentages above 100 count as 100.
    pub fn new(config: SidleConfig) -> Arc<Self> {
        let levels = match config.up_to {
            Technique::Watermark => Params::ALL_LEVELS,
            _ => config.fixed_levels,
        };
        let published = || Params::first(levels, config.hot_percent, config.cold_percent);
        let params = config.rules.first().unwrap_or_else(published);
        let thresholds = SharedThresholds::default();
        if config.rules.is_released() {
            thresholds.store(config.fixed_thresholds());
        }
        Arc::new(Self {
            config,
            params: SharedParams::new(params),
            thresholds,
            histogram: Mutex::default(),
            scan: Mutex::default(),
            promotions: NodeQueue::default(),
            demotions: NodeQueue::default(),
            broken: NodeQueue::default(),
            strained: AtomicBool::new(false),
            relieved: AtomicBool::new(false),
            round: AtomicU8::new(Round::Over as u8),
            promoted: AtomicU64::new(0),
            demoted: AtomicU64::new(0),
            wake_trigger: Waker::new(),
            wake_promoter: Waker::new(),
            wake_demoter: Waker::new(),
            wake_watermark: Waker::new(),
        })
    }

    /// The workers of the techniques in use, five of all, to be run once beside the tree.
    pub fn workers(self: &Arc<Self>) -> Vec<Box<dyn Worker>> {
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        if self.uses(Technique::Migration) {
            workers.push(Box::new(trigger::Trigger::new(self.clone())));
            workers.push(Box::new(promoter::Promoter::new(self.clone())));
            workers.push(Box::new(demoter::Demoter::new(self.clone())));
        }
        if self.uses(Technique::Tracking) {
            workers.push(Box::new(cooler::Cooler::new(self.clone())));
        }
        if self.uses(Technique::Watermark) {
            workers.push(Box::new(watermark::Watermark::new(self.clone())));
        }
        workers
    }

    fn uses(&self, technique: Technique) -> bool {
        technique <= self.config.up_to
    }

    /// Whether no leaf is made fast, as levels are fixed above the leaves.
    fn leaves_begin_slow(&self) -> bool {
        !self.uses(Technique::Watermark) && self.config.fixed_levels < Params::ALL_LEVELS
    }

    /// Its estimates and counters. Cheap; never waits for a scan.
    pub fn snapshot(&self) -> SidleSnapshot {
        let params = self.params.load();
        let thresholds = self.thresholds.load();
        SidleSnapshot {
            l_fast: params.l_fast,
            l_demote: params.l_demote,
            p_hot: params.p_hot,
            p_cold: params.p_cold,
            t_hot: thresholds.t_hot,
            t_cold: thresholds.t_cold,
            histogram: lock(&self.histogram).bins(),
            promoted: self.promoted.load(Ordering::Relaxed),
            demoted: self.demoted.load(Ordering::Relaxed),
            strained: self.is_strained(),
        }
    }

    fn is_strained(&self) -> bool {
        self.strained.load(Ordering::Acquire)
    }

    fn is_round(&self, round: Round) -> bool {
        self.round.load(Ordering::Acquire) == round as u8
    }

    /// Steps from one stage of a round to the next; false when it is not at `from`.
    fn advance_round(&self, from: Round, to: Round) -> bool {
        let (from, to) = (from as u8, to as u8);
        let swap = self
            .round
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        swap.is_ok()
    }

    /// Derives the thresholds from the histogram and the parameters of now, unless they are fixed.
    fn update_thresholds(&self) {
        let Params { p_hot, p_cold, .. } = self.params.load();
        let derived = || lock(&self.histogram).thresholds(p_hot, p_cold);
        let thresholds = match self.uses(Technique::Histogram) {
            true => Some(derived()).filter(|&it| it != Thresholds::NONE || !self.is_released()),
            false => None,
        };
        let thresholds = thresholds.unwrap_or_else(|| self.config.fixed_thresholds());
        self.thresholds.store(thresholds);
    }

    fn is_released(&self) -> bool {
        self.config.rules.is_released()
    }
}

impl Placement for Sidle {
    /// Layer-aware allocation (§4.1).
    fn place(&self, node: NewNode) -> TierId {
        let in_fast_layers = node.level < self.params.load().l_fast
            && (node.height > 0 || !self.leaves_begin_slow());
        let takes_over_fast = node.height > 0 && node.split_from.is_fast();
        if node.parent.is_fast() && (in_fast_layers || takes_over_fast) {
            TierId::FAST
        } else {
            TierId::SLOW
        }
    }

    /// Leaf-centric access tracking (§4.1): every access counts.
    fn on_access(&self, leaf: LeafRef<'_>, _access: Access) -> u32 {
        if !self.uses(Technique::Tracking) {
            return MAX_SAMPLE_INTERVAL;
        }
        if self.is_released() {
            // As there: increments of two threads may be lost, and heat wraps.
            let heat = leaf.heat.load(Ordering::Relaxed);
            leaf.heat.store(heat.wrapping_add(1), Ordering::Relaxed);
            return 1;
        }
        let hotter = |heat: u16| heat.checked_add(1);
        // It fails only where heat can rise no more.
        let _ = leaf
            .heat
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, hotter);
        1
    }

    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        let heat = left.heat.load(Ordering::Relaxed);
        left.heat.store(heat - heat / 2, Ordering::Relaxed);
        right.heat.store(heat / 2, Ordering::Relaxed);
    }

    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        let heat = from.heat.load(Ordering::Relaxed);
        to.heat.store(heat, Ordering::Relaxed);
    }

    fn boundary_broken(&self, node: NodeKey, _: TierId) {
        if !self.uses(Technique::Migration) {
            // No worker runs that would handle it.
            return;
        }
        self.broken.push(node);
        self.wake_demoter.wake();
        self.wake_watermark.wake();
    }

    fn view(&self) -> Option<View> {
        if !self.uses(Technique::Migration) {
            // No worker scans the leaves, so there is no histogram.
            return None;
        }
        let now = self.snapshot();
        let mut view = View {
            unit: "accesses",
            bins: powers_of_two(BINS),
            counts: vec![("leaves", now.histogram.to_vec())],
            ..View::default()
        };
        if self.thresholds.load() != Thresholds::NONE {
            view.thresholds = vec![("cold", now.t_cold.into()), ("hot", now.t_hot.into())];
        }
        if self.uses(Technique::Watermark) {
            let SidleConfig {
                low_watermark: low,
                high_watermark: high,
                ..
            } = self.config;
            view.watermarks = vec![("low watermark", low), ("high watermark", high)];
        }
        if self.uses(Technique::Histogram) {
            view.figures = vec![
                ("P_hot (%)", now.p_hot.into()),
                ("P_cold (%)", now.p_cold.into()),
            ];
        }
        let levels = [("L_fast", now.l_fast), ("L_demote", now.l_demote)];
        let levels = levels.into_iter().filter(|it| it.1 < Params::ALL_LEVELS);
        let levels = levels.map(|(name, level)| (name, level.into()));
        view.figures.extend(levels);
        Some(view)
    }
}

/// `U_f`: how full fast memory is, 0–1.
fn fast_usage(tree: &dyn Placed) -> f64 {
    tree.fill(TierId::FAST).ratio()
}
