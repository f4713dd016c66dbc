//! `sidle-released`: SIDLE as in its authors' released code (SIDLE code, S-Masstree), which differs
//! from the text. Each difference with its place in that code is in the table of
//! `docs/design/sidle.md`.
//!
//! [`Rules`] are the differences in how the parameters are steered; the others are a line each
//! where they apply.

use super::params::Params;
use super::technique::{Technique, config};
use super::{ROW as PUBLISHED, Sidle, SidleConfig};
use crate::table::{Made, Make, Row, Setup};

pub(crate) const ROW: Row = Row {
    paper: Some("SIDLE code"),
    style: PUBLISHED.style.dashed("6 3"),
    ..Row {
        name: "sidle-released",
        about: "SIDLE as its released code has it, which differs from the text",
        make: Make::Nodes(make),
        ..PUBLISHED
    }
};

fn make(setup: &Setup<'_>) -> Result<Made, String> {
    let published = config(setup, Technique::Watermark);
    let sidle = Sidle::new(SidleConfig {
        // The constructor of the trigger multiplies the interval that it is given.
        trigger_period: 5 * published.trigger_period,
        rules: Rules::released(&published),
        ..published
    });
    let workers = sidle.workers();
    Ok(Made::with_workers(sidle, workers))
}

/// `max_local_depth`: no more levels are placed fast.
const MOST_LEVELS: u8 = 8;

/// How the watermark maintainer steers the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    /// As in the text (§4.3, Figure 13).
    Published,
    /// As in the released code.
    Released(Bounds),
}

/// The limits of the parameters in the released code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    first: Params,
    /// `P_hot` and `P_cold` at most.
    p_hot: u8,
    p_cold: u8,
}

impl Rules {
    /// Those of the released code, for the first values of this configuration.
    pub fn released(config: &SidleConfig) -> Rules {
        let l_fast = config.fixed_levels.clamp(1, MOST_LEVELS);
        let first = Params {
            l_fast,
            l_demote: l_fast - 1,
            p_hot: config.hot_percent,
            p_cold: config.cold_percent,
        };
        Rules::Released(Bounds {
            first,
            p_hot: first.p_hot.saturating_add(5).min(100),
            p_cold: first.p_cold.saturating_add(10).min(100),
        })
    }

    pub(super) fn is_released(self) -> bool {
        self != Rules::Published
    }

    /// The first values, where the rules have their own.
    pub(super) fn first(self) -> Option<Params> {
        match self {
            Rules::Published => None,
            Rules::Released(bounds) => Some(bounds.first),
        }
    }

    /// Rounds of demotions in a strain, at most.
    pub(super) fn most_rounds(self) -> u32 {
        match self {
            Rules::Published => u32::MAX,
            Rules::Released(_) => 3,
        }
    }

    /// When a strain begins, in a tree of this many levels.
    pub(super) fn strain_begins(self, now: Params, levels: u8) -> Params {
        match self {
            Rules::Published => now.capped(levels),
            // Levels change once a strain.
            Rules::Released(bounds) => {
                let now = bounds.within(now, levels);
                // The root stays in any case.
                let least = bounds.first.l_demote.saturating_sub(1).max(1);
                Params {
                    l_fast: now.l_fast.saturating_sub(1).max(1),
                    l_demote: now.l_demote.saturating_sub(1).max(least),
                    ..now
                }
            }
        }
    }

    /// One step towards less fast memory: a round of a strain.
    pub(super) fn harsher(self, now: Params, l_min: u8) -> Params {
        match self {
            Rules::Published => now.strained(l_min),
            Rules::Released(bounds) => bounds.colder(now),
        }
    }

    /// When a strain ends that began at `before`.
    pub(super) fn strain_ends(self, now: Params, before: Params, levels: u8) -> Params {
        match self {
            Rules::Published => now.halfway_to(before),
            Rules::Released(bounds) => bounds.colder(bounds.raised(now, levels)),
        }
    }

    /// Below the low watermark.
    pub(super) fn abundant(self, now: Params, levels: u8) -> Params {
        match self {
            Rules::Published => now.abundant(levels),
            Rules::Released(bounds) => Params {
                p_hot: now.p_hot.saturating_add(1).min(bounds.p_hot),
                p_cold: bounds.first.p_cold,
                ..bounds.raised(now, levels)
            },
        }
    }

    /// Between the watermarks.
    pub(super) fn between(self, now: Params, levels: u8) -> Params {
        match self {
            Rules::Published => now,
            Rules::Released(bounds) => bounds.colder(bounds.within(now, levels)),
        }
    }
}

impl Bounds {
    /// `P_hot` goes back to its first value, and `P_cold` rises.
    fn colder(self, now: Params) -> Params {
        Params {
            p_hot: self.first.p_hot,
            p_cold: now.p_cold.saturating_add(1).min(self.p_cold),
            ..now
        }
    }

    /// One level more is fast, and one more stays.
    fn raised(self, now: Params, levels: u8) -> Params {
        let raised = Params {
            l_fast: now.l_fast.saturating_add(1).min(MOST_LEVELS),
            l_demote: now.l_demote.saturating_add(1),
            ..now
        };
        self.within(raised, levels)
    }

    /// Levels end at the leaves, which are always demoted.
    fn within(self, now: Params, levels: u8) -> Params {
        Params {
            l_fast: now.l_fast.min(levels),
            l_demote: now.l_demote.min(levels.saturating_sub(1)),
            ..now
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::sidle::tests::drain;
    use crate::sidle::{demoter, trigger, watermark};
    use timberline_placement::fake::{Clockwork, FakeTree};
    use timberline_placement::workers::Worker;
    use timberline_placement::{Access, Placement, Relocate};
    use timberline_tier::TierId;

    const NOW: Duration = Duration::ZERO;

    /// Three levels fit into fast memory.
    fn released() -> Arc<Sidle> {
        let config = SidleConfig {
            fixed_levels: 3,
            ..SidleConfig::default()
        };
        let rules = Rules::released(&config);
        Sidle::new(SidleConfig { rules, ..config })
    }

    fn params(l_fast: u8, l_demote: u8, p_hot: u8, p_cold: u8) -> Params {
        Params {
            l_fast,
            l_demote,
            p_hot,
            p_cold,
        }
    }

    #[test]
    fn percentages_stay_within_five_and_ten() {
        let rules = released().config.rules;
        let mut now = rules.first().unwrap();
        assert_eq!(now, params(3, 2, 5, 80));
        for _ in 0..20 {
            now = rules.abundant(now, 4);
        }
        assert_eq!(now, params(4, 3, 10, 80));
        assert_eq!(rules.between(now, 4), params(4, 3, 5, 81));
        for _ in 0..20 {
            now = rules.between(now, 4);
        }
        assert_eq!(now, params(4, 3, 5, 90));
    }

    #[test]
    fn levels_change_once_a_strain_and_come_back() {
        let rules = released().config.rules;
        let before = params(3, 2, 8, 80);
        let mut now = rules.strain_begins(before, 4);
        assert_eq!(now, params(2, 1, 8, 80));
        for _ in 0..rules.most_rounds() {
            now = rules.harsher(now, 0);
        }
        assert_eq!(now, params(2, 1, 5, 83));
        assert_eq!(rules.strain_ends(now, before, 4), params(3, 2, 5, 84));
        let low = (0..9).fold(now, |now, _| rules.strain_begins(now, 4));
        assert_eq!((low.l_fast, low.l_demote), (1, 1));
    }

    #[test]
    fn a_strain_has_three_rounds_at_most_and_drops_promotions() {
        let sidle = released();
        let tree = FakeTree::uniform(3, 2, 7);
        tree.set_all(TierId::FAST);
        // All leaves are warm: no round finds any of them cold.
        (0..4).for_each(|leaf| tree.set_heat(leaf, 100));
        let mut watermark = watermark::Watermark::new(sidle.clone());
        let mut trigger = trigger::Trigger::new(sidle.clone());
        let mut demoter = demoter::Demoter::new(sidle.clone());
        let mut rounds = 0;
        sidle.promotions.push(FakeTree::leaf(0));
        watermark.step(&tree, NOW);
        while sidle.is_strained() {
            rounds += 1;
            trigger.step(&tree, NOW);
            demoter.step(&tree, NOW);
            watermark.step(&tree, NOW);
        }
        assert_eq!(rounds, 3);
        assert_eq!(tree.moves(), []);
        assert!(sidle.promotions.is_empty());
        assert_eq!(sidle.params.load(), params(3, 2, 5, 84));
    }

    #[test]
    fn an_access_is_a_plain_increment_that_wraps() {
        let (sidle, tree) = (released(), FakeTree::uniform(2, 2, 9));
        tree.set_heat(0, u16::MAX);
        tree.with_leaf(0, |leaf| sidle.on_access(leaf, Access::Reuse));
        assert_eq!(tree.heat(0), 0);
    }

    #[test]
    fn the_first_scan_judges_by_fixed_thresholds() {
        let (sidle, tree) = (released(), FakeTree::uniform(3, 2, 7));
        tree.promote_node(&FakeTree::leaf(0));
        for (leaf, heat) in [(0, 3), (1, 100), (2, 129), (3, 3)] {
            tree.set_heat(leaf, heat);
        }
        trigger::Trigger::new(sidle.clone()).step(&tree, NOW);
        assert_eq!(drain(&sidle.promotions), [FakeTree::leaf(2)]);
        assert_eq!(drain(&sidle.demotions), [FakeTree::leaf(0)]);
    }

    #[test]
    fn a_relieved_strain_halts_demotions_until_the_next() {
        let (sidle, tree) = (released(), FakeTree::uniform(3, 2, 7));
        tree.set_all(TierId::FAST);
        Clockwork::new(sidle.workers()).run_for(&tree, Duration::ZERO);
        let relieved = tree.moves().len();
        assert!(relieved > 0 && !sidle.is_strained());
        // Cold leaves stay fast from now on.
        let mut demoter = demoter::Demoter::new(sidle.clone());
        sidle.demotions.push(FakeTree::leaf(3));
        demoter.step(&tree, NOW);
        assert_eq!(tree.moves(), []);
        tree.set_all(TierId::FAST);
        watermark::Watermark::new(sidle.clone()).step(&tree, NOW);
        assert!(sidle.is_strained());
        sidle.demotions.push(FakeTree::leaf(3));
        demoter.step(&tree, NOW);
        assert_eq!(tree.moves().len(), 1);
    }
}
