//! Reports the progress of a long run to any listener.
//!
//! The runner calls a listener a few times a second from one thread; the listener must not block
//! it. Figures that are costly to compute are behind [`Watched`] and computed on request.

use hdrhistogram::Histogram;
use serde::Serialize;
use timberline_placement::View;

use super::result::{LevelFill, Sample};

/// A listener to a run's progress.
pub trait Progress: Send + Sync {
    /// A new phase begins, and the previous one has ended. `total` is the final value of
    /// [`Progress::advance`], if known.
    fn phase(&self, name: &str, total: Option<u64>);

    /// `done` of the phase's total is complete (a sum, not an increment), at a current `rate` in
    /// requests a second. `fast_share` is the recent fraction of lines from fast memory, if lines
    /// are counted.
    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>);

    /// Whether the listener wants the events of turns. If not, warm-ups report only their phase.
    fn looks_on(&self) -> bool {
        false
    }

    /// A map's turn begins; nothing runs yet.
    fn turn_begins(&self, turn: Turn<'_>) {
        let _ = turn;
    }

    /// The state of the turn, a few times a second.
    fn turn_goes(&self, turn: Turn<'_>, sample: &Sample) {
        let _ = (turn, sample);
    }

    /// The turn has ended and nothing runs any more. Latencies of its requests, ns.
    fn turn_ends(&self, turn: Turn<'_>, latencies: &Histogram<u64>) {
        let _ = (turn, latencies);
    }

    fn finish(&self);
}

#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub workload: &'a str,
    /// Whether it is measured; a warm-up is not.
    pub measured: bool,
    pub map: &'a dyn Watched,
}

/// A map under measurement, as an observer sees it.
pub trait Watched {
    /// The map's name in the report.
    fn index(&self) -> &'static str;

    fn placement(&self) -> &'static str;

    /// Whether its slow memory is emulated.
    fn is_emulated(&self) -> bool;

    /// Its current memory use. Cheap.
    fn memory(&self) -> MemoryUse;

    /// The heat and thresholds of its placement. Cheap.
    fn view(&self) -> Option<View>;

    /// Its nodes by level and tier. Walks the tree, which may take seconds; `None` if pages are
    /// placed, because a node's tier is unknown then.
    fn levels(&self) -> Option<Levels>;
}

/// A map's memory use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryUse {
    /// Whether pages are placed instead of nodes.
    pub of_pages: bool,
    /// Bytes in use, in all tiers.
    pub used_bytes: u64,
    /// Bytes allocated from the fast tier, including tables and free slots between nodes; `None` if
    /// pages are placed.
    pub committed_bytes: Option<u64>,
    /// The limit of the fast tier, if it has one.
    pub budget_bytes: Option<u64>,
    /// The same, without tables.
    pub usable_bytes: Option<u64>,
}

/// A tree's nodes by level and tier.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// The levels, root first.
    pub fills: Vec<LevelFill>,
    /// Fast nodes whose parent is slow.
    pub above_boundary: u64,
    /// Bytes in the fast tier for copies of records, which are in no level.
    pub copies_bytes: u64,
}

/// A listener that shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _total: Option<u64>) {}
    fn advance(&self, _done: u64, _rate: f64, _fast_share: Option<f64>) {}
    fn finish(&self) {}
}
