//! Static placements: they choose a tier when a node is made and never move it. They are the
//! baselines of adaptive ones (SIDLE §2.2, §2.3).

use std::sync::atomic::{AtomicU32, Ordering};

use timberline_tier::TierId;

use timberline_placement::{AllFast, AllSlow, NewNode, Placement};

use crate::table::{Made, Make, Row, Style, Tiers};

pub(crate) const ALL_FAST: Row = Row {
    tiers: Tiers::Fast,
    style: Style::of("#2a3337", "#eef2f3").dashed("2 3"),
    ..Row::new(
        "all-fast",
        "every node fast: the cost of an index without slow memory",
        Make::Nodes(|_| Made::fixed(AllFast)),
    )
};

pub(crate) const ALL_SLOW: Row = Row {
    tiers: Tiers::Slow,
    style: Style::of("#a3adb2", "#7d898e").dashed("2 3"),
    ..Row::new(
        "all-slow",
        "every node slow: the cost of an index in slow memory alone",
        Make::Nodes(|_| Made::fixed(AllSlow)),
    )
};

pub(crate) const INNER_FAST: Row = Row {
    paper: Some("SIDLE §2.3"),
    style: Style::of("#c76a00", "#f0a04b"),
    ..Row::new(
        "inner-fast",
        "inner nodes fast, leaves slow",
        Make::Nodes(|_| Made::fixed(InnerFast)),
    )
};

pub(crate) const INTERLEAVE: Row = Row {
    paper: Some("SIDLE §2.2"),
    style: Style::of("#6d787d", "#a9b4b9").dashed("8 3 2 3"),
    ..Row::new(
        "interleave",
        "weighted interleave: a fixed fraction of new nodes is fast, inner nodes and leaves alike",
        Make::Nodes(|setup| Made::fixed(Interleave::new(setup.fast_ratio))),
    )
};

/// Inner nodes fast, leaves slow. The single boundary holds as long as fast memory has room for
/// inner nodes. Once it is full, a split may put a slow inner node above fast children, and nothing
/// restores the boundary.
#[derive(Clone, Copy, Default, Debug)]
pub struct InnerFast;

impl Placement for InnerFast {
    fn place(&self, node: NewNode) -> TierId {
        if node.height > 0 && node.parent.is_fast() {
            TierId::FAST
        } else {
            TierId::SLOW
        }
    }
}

/// Weighted interleave: a fixed fraction of new nodes is fast, inner nodes and leaves alike. An
/// operating system's weighted interleave treats an index in this way, so there is no single
/// boundary.
#[derive(Debug)]
pub struct Interleave {
    /// The fast nodes among [`Self::PERIOD`] new ones.
    weight: u64,
    made: AtomicU32,
}

impl Interleave {
    const PERIOD: u64 = 1 << 32;

    /// `fast_ratio` of new nodes are fast, spread evenly: among any run of nodes, the number of
    /// fast ones is off by less than one. A ratio outside 0–1 counts as the nearer of the two.
    pub fn new(fast_ratio: f64) -> Self {
        Self {
            weight: (fast_ratio.clamp(0.0, 1.0) * Self::PERIOD as f64).round() as u64,
            made: AtomicU32::new(0),
        }
    }
}

impl Placement for Interleave {
    fn place(&self, _: NewNode) -> TierId {
        // The n-th node is fast where a line of slope `weight / PERIOD` passes a whole number.
        let n = u128::from(self.made.fetch_add(1, Ordering::Relaxed));
        let fast_before = |n: u128| n * u128::from(self.weight) / u128::from(Self::PERIOD);
        if fast_before(n + 1) > fast_before(n) {
            TierId::FAST
        } else {
            TierId::SLOW
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(height: u8, parent: TierId) -> NewNode {
        NewNode {
            height,
            level: 3 - height,
            parent,
            split_from: parent,
        }
    }

    fn fast_among(placement: &Interleave, nodes: usize) -> usize {
        let leaf = node(0, TierId::FAST);
        let places = (0..nodes).map(|_| placement.place(leaf));
        places.filter(|tier| tier.is_fast()).count()
    }

    #[test]
    fn inner_fast_keeps_leaves_slow_and_one_boundary() {
        assert_eq!(InnerFast.place(node(1, TierId::FAST)), TierId::FAST);
        assert_eq!(InnerFast.place(node(0, TierId::FAST)), TierId::SLOW);
        assert_eq!(InnerFast.place(node(1, TierId::SLOW)), TierId::SLOW);
    }

    #[test]
    fn interleave_gives_exactly_its_ratio() {
        for (ratio, fast) in [
            (0.0, 0),
            (0.2, 200),
            (0.25, 250),
            (0.3337, 333),
            (1.0, 1000),
        ] {
            let placement = Interleave::new(ratio);
            let found = fast_among(&placement, 1000);
            assert!(found.abs_diff(fast) <= 1, "{ratio}: {found}");
        }
        assert_eq!(fast_among(&Interleave::new(0.25), 1000), 250);
    }

    #[test]
    fn interleave_spreads_evenly() {
        let placement = Interleave::new(0.2);
        for run in 0..1000 {
            let found = fast_among(&placement, 5);
            assert!((0..=2).contains(&found), "run {run}: {found}");
        }
    }

    #[test]
    fn a_ratio_out_of_range_is_clamped() {
        assert_eq!(fast_among(&Interleave::new(7.0), 10), 10);
        assert_eq!(fast_among(&Interleave::new(-1.0), 10), 0);
        assert_eq!(fast_among(&Interleave::new(f64::NAN), 10), 0);
    }

    #[test]
    fn interleave_keeps_its_ratio_when_its_counter_wraps() {
        let placement = Interleave::new(0.5);
        placement.made.store(u32::MAX - 99, Ordering::Relaxed);
        assert_eq!(fast_among(&placement, 200), 100);
    }
}
