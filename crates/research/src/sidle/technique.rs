//! The techniques of SIDLE, to measure what each contributes: the ablation of Figure 19 (SIDLE
//! §6.5.1).
//!
//! Each step adds a technique to those before it, in the paper's order:
//!
//! - `sidle+layering`: new nodes are fast above level `L_fast`, below a fast parent. Without it a
//!   fixed fraction of all nodes is fast: `interleave`.
//! - `sidle+tracking`: every access counts in its leaf, and the cooler keeps the counts recent.
//!   Without it there is no heat.
//! - `sidle+migration`: trigger, promoter and demoter move hot paths and cold leaves. Without it
//!   nothing moves.
//! - `sidle+histogram`: `T_hot` and `T_cold` follow from the histogram, `P_hot` and `P_cold`.
//!   Without it they are fixed.
//! - `sidle+watermark`: the fill of fast memory steers `L_fast`, `L_demote`, `P_hot` and `P_cold`.
//!   This is `sidle`. Without it they are fixed.
//!
//! The figure ends with the histogram; the paper measures the watermark apart (§6.5.2). The text
//! leaves two things open:
//!
//! - *The fixed values.* The thresholds are 128 and 4 and the percentages 5 and 80, the defaults of
//!   the authors' released code. The levels are those that fit into fast memory, which that code
//!   estimates from node sizes; here they are a setting. A tree that grows at its root pushes its
//!   leaves down, so the leaves of a small tree would be within these levels and fill fast memory
//!   before the inner nodes come, and nothing would demote them. So where the fixed levels end
//!   above the leaves, new leaves are slow.
//! - *The cooler* belongs to tracking: counts that are never halved saturate on the hottest leaves,
//!   and cost nothing from then on.
//!
//! From migration on, a single boundary that broke for lack of fast memory is restored.

use super::{Sidle, SidleConfig};
use crate::table::{Kind, Made, Make, Parameter, Row, Setup, Style};

const STYLE: Style = Style::of("#2c6fd1", "#6ea6f7");

/// SIDLE as published.
pub(crate) const ROW: Row = Row {
    paper: Some("SIDLE §4"),
    kind: Kind::Adaptive,
    heeds: &[Parameter::Interval, Parameter::Watermarks],
    style: STYLE,
    ..Row::new(
        "sidle",
        "SIDLE as published: heat in leaves, five workers, watermarks",
        Make::Nodes(|setup| make(setup, Technique::Watermark)),
    )
};

pub(crate) const LAYERING: Row = Row {
    kind: Kind::Static,
    heeds: &[],
    style: STYLE.pale(30),
    ..step(
        "sidle+layering",
        "a step of SIDLE's ablation: new nodes are fast near the root",
        Make::Nodes(|setup| make(setup, Technique::Layering)),
    )
};

pub(crate) const TRACKING: Row = Row {
    style: STYLE.pale(45),
    ..step(
        "sidle+tracking",
        "a step of SIDLE's ablation: layering and heat in leaves",
        Make::Nodes(|setup| make(setup, Technique::Tracking)),
    )
};

pub(crate) const MIGRATION: Row = Row {
    style: STYLE.pale(62),
    ..step(
        "sidle+migration",
        "a step of SIDLE's ablation: tracking, and hot paths and cold leaves move",
        Make::Nodes(|setup| make(setup, Technique::Migration)),
    )
};

pub(crate) const HISTOGRAM: Row = Row {
    style: STYLE.pale(80),
    ..step(
        "sidle+histogram",
        "a step of SIDLE's ablation: migration, with thresholds from a histogram",
        Make::Nodes(|setup| make(setup, Technique::Histogram)),
    )
};

pub(crate) const WATERMARK: Row = Row {
    heeds: ROW.heeds,
    ..step(
        "sidle+watermark",
        "the last step of SIDLE's ablation, the same as sidle",
        ROW.make,
    )
};

/// A step of the ablation.
const fn step(name: &'static str, about: &'static str, make: Make) -> Row {
    Row {
        paper: Some("SIDLE §6.5.1"),
        kind: Kind::Adaptive,
        heeds: &[Parameter::Interval],
        style: STYLE,
        ..Row::new(name, about, make)
    }
}

fn make(setup: &Setup<'_>, up_to: Technique) -> Result<Made, String> {
    let sidle = Sidle::new(config(setup, up_to));
    let workers = sidle.workers();
    Ok(Made::with_workers(sidle, workers))
}

/// The configuration for a run, with the techniques up to this one.
pub(super) fn config(setup: &Setup<'_>, up_to: Technique) -> SidleConfig {
    let whole = SidleConfig::default();
    let trigger_period = setup.interval.unwrap_or(whole.trigger_period);
    let published = (whole.low_watermark, whole.high_watermark);
    let (low_watermark, high_watermark) = setup.watermarks.unwrap_or(published);
    SidleConfig {
        up_to,
        fixed_levels: setup.fast_levels,
        trigger_period,
        cooler_period: 4 * trigger_period,
        low_watermark,
        high_watermark,
        ..whole
    }
}

/// A technique of SIDLE, in the order of Figure 19.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Technique {
    /// Layer-aware allocation (§4.1).
    Layering,
    /// Leaf-centric access tracking (§4.1).
    Tracking,
    /// Structure-aware migration (§4.2.1, §4.2.2).
    Migration,
    /// Histogram-based hotness identification (§4.2.3).
    Histogram,
    /// The hyper watermark (§4.3).
    Watermark,
}

impl Technique {
    /// All, in order.
    pub const ALL: [Technique; 5] = [
        Technique::Layering,
        Technique::Tracking,
        Technique::Migration,
        Technique::Histogram,
        Technique::Watermark,
    ];
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use timberline_tier::TierId;

    use super::*;
    use crate::sidle::tests::{demotions, drain};
    use crate::sidle::trigger::Trigger;
    use crate::sidle::{Sidle, SidleConfig};
    use timberline_placement::fake::{Clockwork, FakeTree};
    use timberline_placement::workers::Worker;
    use timberline_placement::{Access, MAX_SAMPLE_INTERVAL, NewNode, Placement, Relocate};

    /// Two levels fit; the thresholds are the fixed ones.
    fn up_to(technique: Technique) -> Arc<Sidle> {
        Sidle::new(SidleConfig {
            up_to: technique,
            fixed_levels: 2,
            ..SidleConfig::default()
        })
    }

    /// Figure 19, step by step: what each technique adds, on one tree of three levels with two
    /// leaves a parent.
    #[test]
    fn each_technique_adds_what_figure_19_says() {
        let (fast, slow) = (TierId::FAST, TierId::SLOW);
        for technique in Technique::ALL {
            let (sidle, tree) = (up_to(technique), FakeTree::uniform(3, 2, 7));
            let uses = |it| technique >= it;
            // Layering: by level and parent. Only the watermark finds out by itself how many levels
            // fit, and how far leaves do.
            let place = |height, level, parent| {
                sidle.place(NewNode {
                    height,
                    level,
                    parent,
                    split_from: parent,
                })
            };
            assert_eq!((place(1, 1, fast), place(1, 1, slow)), (fast, slow));
            let by_watermark = match uses(Technique::Watermark) {
                true => fast,
                false => slow,
            };
            assert_eq!(place(0, 2, fast), by_watermark, "{technique:?}");
            assert_eq!(place(0, 1, fast), by_watermark, "of a small tree");

            // Tracking: 3,000 accesses to leaf 3, 60 to leaf 2, some to leaf 1.
            (0..2).for_each(|leaf| {
                tree.promote_node(&FakeTree::leaf(leaf));
            });
            tree.moves();
            for (leaf, accesses) in [(1, 5), (2, 60), (3, 3_000)] {
                for _ in 0..accesses {
                    let pass = tree.with_leaf(leaf, |leaf| sidle.on_access(leaf, Access::Reuse));
                    assert_eq!(
                        pass,
                        if uses(Technique::Tracking) {
                            1
                        } else {
                            MAX_SAMPLE_INTERVAL
                        }
                    );
                }
            }
            let heats = [1, 2, 3].map(|leaf| tree.heat(leaf));
            let counted = if uses(Technique::Tracking) {
                [5, 60, 3_000]
            } else {
                [0; 3]
            };
            assert_eq!(heats, counted);

            // Workers as far as they are needed; the cooler halves all heat after a look of the
            // others.
            let names: Vec<_> = sidle.workers().iter().map(|worker| worker.name()).collect();
            let all = ["trigger", "promoter", "demoter", "cooler", "watermark"];
            let needed = [
                Technique::Migration,
                Technique::Migration,
                Technique::Migration,
                Technique::Tracking,
                Technique::Watermark,
            ];
            let expected = all.into_iter().zip(needed).filter(|&(_, it)| uses(it));
            let expected: Vec<_> = expected.map(|(name, _)| format!("sidle-{name}")).collect();
            assert_eq!(names, expected);

            // Migration: leaf 3 is above 128, leaf 0 below 4. Histogram: of four leaves none is
            // among 5 %, so the hottest bin is hot from its upper bound on, and of 80 % no more
            // than three are cold.
            if uses(Technique::Migration) {
                Trigger::new(sidle.clone()).step(&tree, Duration::ZERO);
                let thresholds = sidle.thresholds.load();
                if uses(Technique::Histogram) {
                    assert_eq!((thresholds.t_hot, thresholds.t_cold), (4096, 2048));
                } else {
                    assert_eq!((thresholds.t_hot, thresholds.t_cold), (128, 4));
                    assert_eq!(drain(&sidle.promotions), [FakeTree::leaf(3)]);
                    assert_eq!(drain(&sidle.demotions), [FakeTree::leaf(0)]);
                }
            }
        }
    }

    #[test]
    fn fixed_levels_protect_what_is_above_them() {
        let (sidle, tree) = (up_to(Technique::Migration), FakeTree::uniform(3, 2, 7));
        tree.set_all(TierId::FAST);
        Clockwork::new(sidle.workers()).run_for(&tree, Duration::from_secs(5));
        let left = [0, 1, 2, 3].map(FakeTree::leaf);
        assert_eq!(
            demotions(&tree),
            left,
            "all leaves are cold, and no inner node goes"
        );
    }

    #[test]
    fn the_last_step_is_the_whole() {
        let whole = Sidle::new(SidleConfig::default());
        let last = up_to(Technique::Watermark);
        assert_eq!(last.snapshot(), whole.snapshot());
        assert_eq!(last.workers().len(), whole.workers().len());
        assert_eq!(
            SidleConfig::default().up_to,
            *Technique::ALL.last().unwrap()
        );
    }
}
