//! Settings that depend on the size of leaves.
//!
//! Everything is counted in slots of an average leaf. Where all nodes have one size, an inner node
//! takes one slot, and there is one for some dozens of leaves. Where a leaf is one record, an inner
//! node takes up to 40 slots, inner nodes take half of the tree, and there are millions of leaves.

use std::time::Duration;

use super::HeatIn;
use super::exchange::Margin;

/// Room for some of the largest inner nodes of a tree with a leaf for each record, bytes.
const SOME_INNER: usize = 8 << 10;

/// Leaves of so many bytes hold more than a record or two.
const FEW: usize = 128;

/// Leaves of so many bytes hold dozens of records.
const LARGE: usize = 1024;

/// Between two compactions, at least.
const OFTEN: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_millis(500);

/// A leaf counts as at most this many nodes, its path included: more is a sign that few of the
/// leaves are known yet.
const MOST_PATH: usize = 64;

#[derive(Clone, Debug)]
pub struct Scale {
    /// Leaves are records: inner nodes have many sizes, are larger than leaves, and take as much
    /// memory in all.
    pub records: bool,
    /// The most candidates of one stripe that wait for the worker. Those of all stripes together
    /// also stay within their share of the budget.
    pub candidates: usize,
    /// Samples are this many times as dense as configured while heat is little known: a record is
    /// accessed a fortieth as often as a node of records.
    pub denser: u32,
    /// Samples for each fast leaf that let one more access pass between two samples.
    pub thinning: u64,
    /// Heat is halved so many times as often as configured.
    pub cooling: u32,
    /// A batch ends after this many promotions that found fast memory full. With nodes of one size
    /// no other will fit; otherwise a leaf may fit where a path did not.
    pub patience: usize,
    /// The least time between two compactions. Where paths are many times larger than leaves, the
    /// slots that victims leave fit no path.
    pub compaction_pause: Duration,
    /// Of an exchange.
    pub margin: Margin,
}

impl HeatIn {
    /// Bytes of a slot, for a start.
    pub(super) fn slot_bytes(self) -> usize {
        match self {
            HeatIn::Table { node_bytes } => node_bytes,
            HeatIn::Leaf { leaf_bytes } => leaf_bytes.max(16),
        }
    }
}

impl Scale {
    pub fn of(home: HeatIn) -> Self {
        match home {
            HeatIn::Table { .. } => Scale {
                records: false,
                candidates: 1024,
                denser: 1,
                thinning: 2,
                cooling: 1,
                patience: 1,
                compaction_pause: SELDOM,
                margin: Margin::OF_NODES,
            },
            HeatIn::Leaf { leaf_bytes } => Scale {
                records: true,
                candidates: 16_384,
                denser: 4,
                thinning: if leaf_bytes < LARGE { 12 } else { 4 },
                cooling: match leaf_bytes {
                    FEW..LARGE => 6,
                    _ => 1,
                },
                patience: 64,
                compaction_pause: if leaf_bytes < FEW { OFTEN } else { SELDOM },
                margin: match leaf_bytes {
                    ..FEW => Margin::OF_RECORDS,
                    FEW..LARGE => Margin::OF_FEW,
                    LARGE.. => Margin::OF_NODES,
                },
            },
        }
    }

    /// The memory that comes free with a leaf of a tier, bytes, where a node takes `node_bytes` on
    /// average and the tier's `leaves` leaves hold `used` bytes with the inner nodes above them.
    /// Where leaves are records and only the hot ones are fast, there is hardly an inner node with
    /// two of them: a leaf of 24 bytes comes and goes with some hundreds.
    pub fn bytes_of_leaf(&self, node_bytes: usize, used: usize, leaves: usize) -> usize {
        match self.records {
            true => (used / leaves.max(1)).clamp(node_bytes, MOST_PATH * node_bytes),
            false => node_bytes,
        }
    }

    /// How many of `slots` slots to keep free.
    pub fn reserve(&self, slots: usize, slot_bytes: usize, share: f64) -> usize {
        let kept = (slots as f64 * share) as usize;
        let least = match self.records {
            true => SOME_INNER / slot_bytes,
            false => 8,
        };
        kept.max(least).min(slots / 4)
    }

    /// How many slots to make free for an inner node.
    pub fn relief(&self, slot_bytes: usize) -> usize {
        match self.records {
            true => (SOME_INNER / slot_bytes).max(1),
            false => super::mover::BATCH,
        }
    }

    /// How much of a reserve of `kept` slots promoted paths may use up. Victims make room for
    /// leaves, but not for the inner nodes promoted with them. Where these are large, promotion
    /// ends with this slack and takes no victims for it: otherwise a path to one leaf would evict
    /// dozens of leaves, however hot.
    pub fn slack(&self, kept: isize) -> isize {
        if self.records { kept / 2 } else { 0 }
    }

    /// How many leaves may be made in a fast memory of `slots` that is empty.
    pub fn leaves_at_first(&self, slots: usize, slot_bytes: usize, share: f64) -> usize {
        // One large node in about 45 is an inner one.
        self.leaves_in(slots - self.reserve(slots, slot_bytes, share)) - slots / 32
    }

    /// How many leaves may be made before the worker's next round, where `free` slots are free.
    pub fn leaves_in(&self, free: usize) -> usize {
        // Of records' memory inner nodes take half.
        if self.records { free / 2 } else { free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_holds_large_inner_nodes_whatever_a_leaf_takes() {
        let nodes = Scale::of(HeatIn::Table { node_bytes: 1024 });
        let records = Scale::of(HeatIn::Leaf { leaf_bytes: 24 });
        let kept = |scale: &Scale, slots, bytes| scale.reserve(slots, bytes, 0.005);
        assert_eq!(
            [16, 1000, 100_000].map(|it| kept(&nodes, it, 1024)),
            [4, 8, 500]
        );
        let kept_records = [16, 10_000, 1_000_000].map(|it| kept(&records, it, 24));
        assert_eq!(kept_records, [4, SOME_INNER / 24, 5000]);
        assert_eq!((nodes.slack(8), records.slack(8)), (0, 4));
    }

    #[test]
    fn a_record_comes_and_goes_with_its_path() {
        let nodes = Scale::of(HeatIn::Table { node_bytes: 1024 });
        let records = Scale::of(HeatIn::Leaf { leaf_bytes: 24 });
        assert_eq!(nodes.bytes_of_leaf(1024, 500_000, 100), 1024);
        assert_eq!(records.bytes_of_leaf(40, 500_000, 1000), 500);
        assert_eq!(records.bytes_of_leaf(40, 500_000, 20_000), 40);
        assert_eq!(records.bytes_of_leaf(40, 500_000, 0), 64 * 40, "none known");
    }

    #[test]
    fn half_of_the_room_is_for_inner_nodes_where_these_take_half() {
        let nodes = Scale::of(HeatIn::Table { node_bytes: 1024 });
        let records = Scale::of(HeatIn::Leaf { leaf_bytes: 24 });
        assert_eq!((nodes.leaves_in(100), records.leaves_in(100)), (100, 50));
        assert_eq!(nodes.leaves_at_first(6400, 1024, 0.005), 6400 - 32 - 200);
        assert_eq!(
            records.leaves_at_first(640_000, 24, 0.005),
            318_400 - 20_000
        );
        assert_eq!(records.leaves_at_first(0, 24, 0.005), 0);
    }
}
