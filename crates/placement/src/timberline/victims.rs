//! Victim selection: the heat histogram of the leaves of a tier, and cold ones among them.
//!
//! It depends on where heat is kept. A heat table is swept as a whole in each round
//! ([`TableSweep`]); heat in leaves is visited by the hand of a CLOCK
//! ([`ClockSweep`](super::clock::ClockSweep)).

use std::sync::Arc;

use timberline_tier::TierId;

use super::Timberline;
use super::exchange::{HeatHistogram, Plan};
use crate::{KeyBytes, Placed};

/// A leaf that is cold enough to be demoted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    pub leaf: Found,
    /// Its heat when it was found.
    pub heat: u16,
}

/// How a leaf was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// By its address. By now another leaf may be there, or none.
    At(usize),
    /// By its lower fence.
    Named(KeyBytes),
}

pub trait VictimSelection: Send {
    /// The heat histogram of the tier's leaves, as far as it is known.
    fn histogram(&mut self, tree: &dyn Placed) -> &HeatHistogram;

    /// The number of these leaves, by the last histogram.
    fn leaves(&self, tree: &dyn Placed) -> usize;

    /// The victims of a plan: at most as many, perhaps fewer, none hotter. Called once a round,
    /// also if the plan has none.
    fn victims(&mut self, tree: &dyn Placed, plan: &Plan) -> Vec<Victim>;

    /// The same beside rounds, for a plan of few: it looks no further than it must.
    fn few_victims(&mut self, tree: &dyn Placed, plan: &Plan) -> Vec<Victim> {
        self.victims(tree, plan)
    }

    /// Whether the worker hurries, so that victims are worth a longer search.
    fn hurry(&mut self, hurries: bool) {
        let _ = hurries;
    }

    /// A leaf was promoted to the tier.
    fn promoted(&mut self, leaf: &KeyBytes, heat: u16) {
        let _ = (leaf, heat);
    }

    /// A victim was demoted, or was stale.
    fn demoted(&mut self, victim: &Victim) {
        let _ = victim;
    }

    /// All heat was halved.
    fn cooled(&mut self) {}
}

/// Sweeps the heat table: two bytes a slot, in order.
pub struct TableSweep {
    policy: Arc<Timberline>,
    tier: TierId,
    histogram: HeatHistogram,
    /// The slot where the next search for victims begins, so that equally cold leaves take turns.
    hand: usize,
}

impl TableSweep {
    pub fn new(policy: Arc<Timberline>, tier: TierId) -> Self {
        TableSweep {
            policy,
            tier,
            histogram: HeatHistogram::default(),
            hand: 0,
        }
    }
}

impl VictimSelection for TableSweep {
    fn histogram(&mut self, _tree: &dyn Placed) -> &HeatHistogram {
        self.histogram = HeatHistogram::default();
        let histogram = &mut self.histogram;
        let heat = &self.policy.heat;
        heat.sweep(self.tier, |_, heat| histogram.add(heat));
        histogram
    }

    fn leaves(&self, _tree: &dyn Placed) -> usize {
        self.histogram.total()
    }

    fn victims(&mut self, _tree: &dyn Placed, plan: &Plan) -> Vec<Victim> {
        if plan.demote == 0 {
            return Vec::new();
        }
        let heat = &self.policy.heat;
        // The sweep begins at the first slot, the search at the hand: of either side no more than
        // the plan needs, however many leaves are cold.
        let (mut found, mut behind) = (Vec::new(), Vec::new());
        heat.sweep(self.tier, |index, heat| {
            let side = match index < self.hand {
                true => &mut behind,
                false => &mut found,
            };
            if heat <= plan.coldest && side.len() < plan.demote {
                side.push((index, heat));
            }
        });
        behind.truncate(plan.demote - found.len());
        found.append(&mut behind);
        self.hand = found.last().map_or(0, |&(last, _)| last + 1);
        let victim = |(index, cold)| {
            let leaf = Found::At(heat.address(self.tier, index)?);
            Some(Victim { leaf, heat: cold })
        };
        found.into_iter().filter_map(victim).collect()
    }
}
