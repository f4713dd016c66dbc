//! How the mover knows the fast leaves: how many there are of each heat, and which of them are
//! cold.
//!
//! It depends on where heat is kept. A table is swept as a whole, each round anew ([`Sweep`]);
//! leaves are visited by the hand of a clock ([`Clock`](super::clock::Clock)).

use std::sync::Arc;

use super::Timberline;
use super::exchange::{Census, Plan};
use crate::{KeyBytes, Placed};

/// A fast leaf that is cold enough to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Which one.
    pub leaf: Found,
    /// Its heat when it was found.
    pub heat: u16,
}

/// How a leaf was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// By its address, at which there may be another one by now, or none.
    At(usize),
    /// By its lower fence.
    Named(KeyBytes),
}

/// See the [module's text](self).
pub trait Watch: Send {
    /// How many fast leaves there are of each heat, for all that is known.
    fn census(&mut self, tree: &dyn Placed) -> &Census;

    /// How many fast leaves there are, by the last census.
    fn fast_leaves(&self, tree: &dyn Placed) -> usize;

    /// Fast leaves that the plan wants gone: at most as many, perhaps fewer, none hotter.
    /// Called once a round, also when the plan wants none.
    fn victims(&mut self, tree: &dyn Placed, plan: &Plan) -> Vec<Victim>;

    /// A leaf became fast.
    fn promoted(&mut self, leaf: &KeyBytes, heat: u16) {
        let _ = (leaf, heat);
    }

    /// A victim became slow, or was none.
    fn demoted(&mut self, victim: &Victim) {
        let _ = victim;
    }

    /// All heat was halved.
    fn cooled(&mut self) {}
}

/// Sweeps the table of heat: two bytes a slot, in order.
pub struct Sweep {
    policy: Arc<Timberline>,
    census: Census,
    /// Where the next sweep for victims begins, so that equally cold leaves take turns.
    hand: usize,
}

impl Sweep {
    pub fn new(policy: Arc<Timberline>) -> Self {
        Sweep {
            policy,
            census: Census::default(),
            hand: 0,
        }
    }
}

impl Watch for Sweep {
    fn census(&mut self, _tree: &dyn Placed) -> &Census {
        self.census = Census::new(self.policy.heat.sweep().map(|(_, heat)| heat));
        &self.census
    }

    fn fast_leaves(&self, _tree: &dyn Placed) -> usize {
        self.census.total()
    }

    fn victims(&mut self, _tree: &dyn Placed, plan: &Plan) -> Vec<Victim> {
        if plan.demote == 0 {
            return Vec::new();
        }
        let heat = &self.policy.heat;
        let cold = heat.sweep().filter(|&(_, heat)| heat <= plan.coldest);
        let mut found: Vec<(usize, u16)> = cold.collect();
        let start = found.partition_point(|&(index, _)| index < self.hand);
        found.rotate_left(start);
        found.truncate(plan.demote);
        self.hand = found
            .last()
            .map_or(0, |&(last, _)| (last + 1) % heat.slots());
        let victim = |(index, cold)| {
            let leaf = Found::At(heat.address(index)?);
            Some(Victim { leaf, heat: cold })
        };
        found.into_iter().filter_map(victim).collect()
    }
}
