//! Static placements: they choose a tier when a node is made and never move it. They are the
//! baselines of adaptive ones (SIDLE §2.2, §2.3).

use std::sync::atomic::{AtomicU32, Ordering};

use timberline_tier::TierId;

use timberline_placement::{AllFast, AllSlow, NewNode, Placement};

use crate::table::{Made, Make, Row, Style, Tiers};

pub(crate) const ALL_FAST: Row = Row {
    tiers: Tiers::Fast,
    more_tiers: true,
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
    more_tiers: true,
    style: Style::of("#6d787d", "#a9b4b9").dashed("8 3 2 3"),
    ..Row::new(
        "interleave",
        "weighted interleave: a fixed fraction of new nodes is fast, inner nodes and leaves alike",
        Make::Nodes(|setup| {
            let middle = setup.middle_ratios.iter().copied();
            Made::fixed(Interleave::among(
                std::iter::once(setup.fast_ratio).chain(middle),
            ))
        }),
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

/// Weighted interleave: each tier gets a fixed fraction of new nodes, inner nodes and leaves alike.
/// An operating system's weighted interleave treats an index in this way, so there is no single
/// boundary.
#[derive(Debug)]
pub struct Interleave {
    /// Of each tier but the slowest: its nodes among [`Self::PERIOD`] new ones that are in no
    /// faster tier.
    weights: Vec<u64>,
    made: AtomicU32,
}

impl Interleave {
    const PERIOD: u64 = 1 << 32;

    /// `fast_ratio` of new nodes are fast, spread evenly: among any run of nodes, the number of
    /// fast ones is off by less than one. A ratio outside 0–1 counts as the nearer of the two.
    pub fn new(fast_ratio: f64) -> Self {
        Interleave::among(std::iter::once(fast_ratio))
    }

    /// These fractions of new nodes are in the tiers from the fast one on, and the rest in the tier
    /// after them.
    pub fn among(ratios: impl Iterator<Item = f64>) -> Self {
        let mut left = 1.0;
        let weight = |ratio: f64| {
            let of_left = if left > 0.0 { ratio / left } else { 1.0 };
            left -= ratio;
            (of_left.clamp(0.0, 1.0) * Self::PERIOD as f64).round() as u64
        };
        Interleave {
            weights: ratios.map(weight).collect(),
            made: AtomicU32::new(0),
        }
    }
}

impl Placement for Interleave {
    fn place(&self, _: NewNode) -> TierId {
        // The n-th node is in a tier where a line of slope `weight / PERIOD` passes a whole number.
        // Those that are not are numbered anew for the next tier.
        let mut n = u128::from(self.made.fetch_add(1, Ordering::Relaxed));
        for (tier, &weight) in (0..).zip(&self.weights) {
            let before = |n: u128| n * u128::from(weight) / u128::from(Self::PERIOD);
            if before(n + 1) > before(n) {
                return TierId(tier);
            }
            n -= before(n);
        }
        TierId(self.weights.len() as u8)
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
    fn each_of_many_tiers_gets_its_ratio() {
        let placement = Interleave::among([0.1, 0.2, 0.5].into_iter());
        let mut found = [0; 4];
        for _ in 0..1000 {
            found[placement.place(node(0, TierId::FAST)).index()] += 1;
        }
        for (found, expected) in found.into_iter().zip([100i32, 200, 500, 200]) {
            assert!((found - expected).abs() <= 2, "{found} for {expected}");
        }
        let all = Interleave::among([1.0, 0.5].into_iter());
        assert_eq!(fast_among(&all, 10), 10);
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
