//! How a long run says where it is, without knowing who listens.
//!
//! The runner calls these a few times a second from one thread; a listener must not block it. What
//! costs something to find out is behind [`Watched`], and is found out when a listener asks.

use hdrhistogram::Histogram;
use serde::Serialize;
use timberline_placement::View;

use super::result::{LevelFill, Sample};

/// Hears of a run's progress.
pub trait Progress: Send + Sync {
    /// A new phase begins and the one before it is over. `total` is what [`Progress::advance`]
    /// counts up to, where that is known.
    fn phase(&self, name: &str, total: Option<u64>);

    /// `done` of the phase's total is behind us (not: was added), at `rate` requests a second now.
    /// `fast_share` is that of the last moments, 0 to 1, where lines are counted.
    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>);

    /// Whether somebody looks on while maps have their turns; otherwise of warm-ups nothing more is
    /// told.
    fn looks_on(&self) -> bool {
        false
    }

    /// A map's turn begins; nothing runs yet.
    fn turn_begins(&self, turn: Turn<'_>) {
        let _ = turn;
    }

    /// How its turn goes, a few times a second.
    fn turn_goes(&self, turn: Turn<'_>, sample: &Sample) {
        let _ = (turn, sample);
    }

    /// Its turn is over and nothing runs any more. Latencies of its requests, ns.
    fn turn_ends(&self, turn: Turn<'_>, latencies: &Histogram<u64>) {
        let _ = (turn, latencies);
    }

    /// Nothing further comes.
    fn finish(&self);
}

/// A map's turn.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// The workload.
    pub workload: &'a str,
    /// Whether it is measured; a warm-up is not.
    pub measured: bool,
    /// The map.
    pub map: &'a dyn Watched,
}

/// A map that is being measured, as far as one can look at it meanwhile.
pub trait Watched {
    /// The map's name in the report.
    fn index(&self) -> &'static str;

    /// Its placement's name.
    fn placement(&self) -> &'static str;

    /// Whether the slowness of its slow memory is emulated.
    fn is_emulated(&self) -> bool;

    /// Its memory now. Cheap.
    fn memory(&self) -> MemoryUse;

    /// What its placement believes of heat. Cheap.
    fn view(&self) -> Option<View>;

    /// How its nodes are spread over the tiers. Walks through the tree, which may take seconds;
    /// `None` where a node's tier is not known because pages are moved.
    fn levels(&self) -> Option<Levels>;
}

/// How much memory a map uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryUse {
    /// Whether pages are moved, and not nodes.
    pub of_pages: bool,
    /// Bytes in use, of all tiers.
    pub used_bytes: u64,
    /// Bytes that the fast tier has taken for nodes, tables and what is free between nodes
    /// included; `None` where pages are moved.
    pub committed_bytes: Option<u64>,
    /// The most that the fast tier may take, where there is a limit.
    pub budget_bytes: Option<u64>,
    /// The same without tables.
    pub usable_bytes: Option<u64>,
}

/// How a tree's nodes are spread over the tiers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Each level, root first.
    pub fills: Vec<LevelFill>,
    /// Fast nodes whose parent is slow.
    pub above_boundary: u64,
}

/// Hears everything and says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _total: Option<u64>) {}
    fn advance(&self, _done: u64, _rate: f64, _fast_share: Option<f64>) {}
    fn finish(&self) {}
}
