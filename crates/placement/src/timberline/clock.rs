//! CLOCK: a hand walks the leaves of a tier in key order, a bounded number each round.
//!
//! Where leaves keep their own heat there may be millions, and each visit is a cache miss.
//! Neighbours in key order are often equally hot, so one stretch of the walk is no sample of all
//! leaves. The histogram is therefore that of the last complete revolution, updated by the moves
//! and coolings since; before the first is complete, it is that of the leaves visited so far. That
//! is safe: victims are among the coldest visited, and promoted leaves are clearly hotter.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_tier::TierId;

use super::Timberline;
use super::exchange::{HeatHistogram, Plan};
use super::victims::{Found, Victim, VictimSelection};
use crate::{KeyBytes, LeafRef, Placed};

/// The leaves that the hand passes in a round: some milliseconds, if each is a cache miss with its
/// path.
const STRIDE: usize = 4096;
/// As many more for each victim that is wanted, at rest: where cold leaves are rarer than that, a
/// round exchanges fewer, as the search for them would cost far more than their exchange.
const FOR_A_VICTIM: usize = 32;
/// The fewest, after many rounds that wanted few victims: a stable hot set's heat hardly changes.
const SLOWEST: usize = STRIDE / 8;
/// Each of these rounds passes one part in so many less: some ten seconds until it is the slowest,
/// for the histogram must not be old where a hot spot moves again.
const SLOWS: usize = 32;
/// A round that wants more victims than that is no rest.
const FEW: usize = STRIDE / FOR_A_VICTIM / 2;
/// The most leaves that it passes in a round, used for many victims, while the worker hurries, and
/// in its first revolution.
const REACH: usize = 65_536;

pub struct ClockSweep {
    policy: Arc<Timberline>,
    tier: TierId,
    /// The first leaf not passed yet; empty: none is passed.
    hand: KeyBytes,
    /// Of the leaves before the hand.
    current: HeatHistogram,
    /// Of all leaves, at the end of the last revolution, updated since.
    complete: Option<HeatHistogram>,
    /// The fewest leaves that the next round passes, [`SLOWEST`] to [`STRIDE`].
    stride: usize,
    hurries: bool,
}

impl ClockSweep {
    pub fn new(policy: Arc<Timberline>, tier: TierId) -> Self {
        ClockSweep {
            policy,
            tier,
            hand: KeyBytes::default(),
            current: HeatHistogram::default(),
            complete: None,
            stride: STRIDE,
            hurries: true,
        }
    }

    /// Moves the hand until `visit` breaks before a leaf, or the revolution is complete. `visit`
    /// gets a leaf, its heat, and the number of leaves passed before.
    fn walk(
        &mut self,
        tree: &dyn Placed,
        visit: &mut dyn FnMut(LeafRef<'_>, u16, usize) -> ControlFlow<()>,
    ) {
        let start = self.hand.clone();
        let mut passed = 0;
        let mut wrapped = false;
        loop {
            let (heat, current) = (&self.policy.heat, &mut self.current);
            let mut stopped_at = None;
            tree.each_leaf_in(self.tier, &self.hand, &mut |leaf| {
                let warmth = heat.visit(leaf);
                let around = wrapped && leaf.fence.to_bytes() >= start;
                if around || visit(leaf, warmth, passed).is_break() {
                    stopped_at = Some(leaf.fence.to_bytes());
                    return ControlFlow::Break(());
                }
                current.add(warmth);
                passed += 1;
                ControlFlow::Continue(())
            });
            if let Some(fence) = stopped_at {
                self.hand = fence;
                return;
            }
            self.complete = Some(std::mem::take(&mut self.current));
            self.hand = KeyBytes::default();
            if wrapped || start.is_empty() {
                return;
            }
            wrapped = true;
        }
    }

    /// Moves the hand by at least and at most so many leaves, until it has a plan's victims.
    fn pass(&mut self, tree: &dyn Placed, plan: &Plan, least: usize, most: usize) -> Vec<Victim> {
        let mut victims = Vec::new();
        self.walk(tree, &mut |leaf, heat, passed| {
            let served = victims.len() >= plan.demote;
            if passed >= most || (passed >= least && served) {
                return ControlFlow::Break(());
            }
            if !served && heat <= plan.coldest {
                let leaf = Found::Named(leaf.fence.to_bytes());
                victims.push(Victim { leaf, heat });
            }
            ControlFlow::Continue(())
        });
        victims
    }
}

impl VictimSelection for ClockSweep {
    fn histogram(&mut self, tree: &dyn Placed) -> &HeatHistogram {
        // A revolution of fewer leaves than the hand has passed since was of a tier that was nearly
        // empty: the present one is the first that counts.
        let passed = self.current.total();
        self.complete.take_if(|it| it.total() < passed);
        if self.complete.is_none() {
            self.walk(tree, &mut |_, _, passed| match passed < REACH {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            });
        }
        self.complete.as_ref().unwrap_or(&self.current)
    }

    fn leaves(&self, tree: &dyn Placed) -> usize {
        match &self.complete {
            Some(histogram) => histogram.total(),
            None => tree.fill(self.tier).used / tree.node_bytes(),
        }
    }

    fn victims(&mut self, tree: &dyn Placed, plan: &Plan) -> Vec<Victim> {
        self.stride = match self.hurries || plan.demote > FEW {
            true => STRIDE,
            false => (self.stride - self.stride / SLOWS).max(SLOWEST),
        };
        let reach = match self.hurries {
            true => REACH,
            false => (self.stride + FOR_A_VICTIM * plan.demote).min(REACH),
        };
        self.pass(tree, plan, self.stride, reach)
    }

    fn few_victims(&mut self, tree: &dyn Placed, plan: &Plan) -> Vec<Victim> {
        self.pass(tree, plan, 0, STRIDE + FOR_A_VICTIM * plan.demote)
    }

    fn hurry(&mut self, hurries: bool) {
        self.hurries = hurries;
    }

    fn promoted(&mut self, leaf: &KeyBytes, heat: u16) {
        if *leaf < self.hand {
            self.current.add(heat);
        }
        if let Some(complete) = &mut self.complete {
            complete.add(heat);
        }
    }

    fn demoted(&mut self, victim: &Victim) {
        // The hand has passed it in this revolution.
        if matches!(&victim.leaf, Found::Named(leaf) if *leaf < self.hand) {
            self.current.remove(victim.heat);
        }
        if let Some(complete) = &mut self.complete {
            complete.remove(victim.heat);
        }
    }

    fn cooled(&mut self) {
        self.current.cool();
        self.complete
            .as_mut()
            .into_iter()
            .for_each(HeatHistogram::cool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Relocate;
    use crate::fake::FakeRecords;
    use crate::timberline::heat::HOTTEST;
    use crate::timberline::{HeatIn, TimberlineConfig};
    use timberline_tier::{Arenas, ArenasConfig};

    /// A tree of which every `step`th leaf is fast, the first half of them with a heat of 80, the
    /// others of 1.
    fn half_warm(leaves: usize, step: usize) -> (Arenas, FakeRecords, ClockSweep) {
        let span = FakeRecords::addresses(leaves).next_multiple_of(2 << 20);
        let arenas = Arenas::new(&ArenasConfig::two_tiers(span, span)).unwrap();
        let home = HeatIn::Leaf { leaf_bytes: 24 };
        let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
        let ranges = [TierId::FAST, TierId::SLOW].map(|tier| arenas.range_of(tier));
        let room = FakeRecords::bytes(leaves);
        let tree = FakeRecords::new(leaves, room, policy.clone(), ranges);
        for leaf in (0..leaves).step_by(step) {
            tree.promote_path(FakeRecords::leaf(leaf));
            if leaf < leaves / 2 {
                tree.with_leaf(leaf, |leaf| policy.heat.set(leaf, 80));
            }
        }
        let clock = ClockSweep::new(policy, TierId::FAST);
        (arenas, tree, clock)
    }

    fn wanting(demote: usize, coldest: u16) -> Plan {
        Plan {
            demote,
            coldest,
            ..Plan::default()
        }
    }

    fn word(victim: &Victim) -> u64 {
        match &victim.leaf {
            Found::Named(name) => name.word(),
            Found::At(address) => panic!("{address:#x} is no name"),
        }
    }

    /// Found with 20 million records: the first round's revolution was of an empty tier. Until the
    /// hand had come around a million leaves, no leaf was known that could be demoted.
    #[test]
    fn a_census_of_a_tier_that_was_nearly_empty_is_given_up() {
        let (_arenas, tree, mut clock) = half_warm(4 * REACH, 4 * REACH);
        clock.histogram(&tree);
        assert_eq!(clock.histogram(&tree).total(), 1);
        for leaf in 0..4 * REACH {
            tree.promote_path(FakeRecords::leaf(leaf));
        }
        clock.victims(&tree, &Plan::default());
        assert!(clock.histogram(&tree).total() > REACH);
    }

    #[test]
    fn a_census_covers_whole_revolutions() {
        let (_arenas, tree, mut clock) = half_warm(4 * REACH, 2);
        let fast = 2 * REACH;
        // The first sweep meets warm leaves only.
        let first = clock.histogram(&tree);
        assert_eq!((first.total(), first.nth_coldest(1)), (REACH, 80));
        let whole = clock.histogram(&tree);
        assert_eq!((whole.total(), whole.nth_coldest(fast / 2)), (fast, 1));
        assert_eq!(whole.nth_coldest(fast / 2 + 1), 80);
        assert_eq!(clock.leaves(&tree), fast);
        // The hand moves on, but the histogram of the whole does not depend on its position.
        for _ in 0..20 {
            assert!(clock.victims(&tree, &wanting(0, 0)).is_empty());
            assert_eq!(clock.histogram(&tree).nth_coldest(fast / 2 + 1), 80);
        }
    }

    #[test]
    fn cold_leaves_take_turns() {
        let (_arenas, tree, mut clock) = half_warm(4 * STRIDE, 1);
        clock.histogram(&tree);
        let cold = 2 * STRIDE..4 * STRIDE;
        let mut found = Vec::new();
        for _ in 0..5 {
            let victims = clock.victims(&tree, &wanting(STRIDE, 79));
            assert!(victims.iter().all(|victim| victim.heat == 1));
            found.push(victims.iter().map(word).collect::<Vec<_>>());
        }
        let words = |range: std::ops::Range<usize>| range.map(|n| n as u64).collect::<Vec<_>>();
        let middle = 3 * STRIDE;
        assert_eq!(found[0], words(cold.start..middle));
        assert_eq!(found[1], words(middle..cold.end));
        assert_eq!(found[2], found[0], "round again, past the warm ones");
        assert_eq!(found[3], found[1]);
    }

    #[test]
    fn rare_victims_are_searched_for_while_the_worker_hurries() {
        // Warm leaves come first.
        let (_arenas, tree, mut clock) = half_warm(16 * STRIDE, 1);
        while clock.complete.is_none() {
            clock.histogram(&tree);
        }
        clock.hand = KeyBytes::default();
        let wanted = FEW + 1;
        let found = |clock: &mut ClockSweep| clock.victims(&tree, &wanting(wanted, 1)).len();
        clock.hurry(false);
        let rounds = (1..).find(|_| found(&mut clock) > 0);
        let passed = STRIDE + wanted * FOR_A_VICTIM;
        assert_eq!(rounds, Some(1 + 8 * STRIDE / passed), "a bounded walk each");
        clock.hand = KeyBytes::default();
        clock.hurry(true);
        assert_eq!(found(&mut clock), wanted);
    }

    #[test]
    fn the_hand_slows_down_where_few_victims_are_wanted() {
        let (_arenas, tree, mut clock) = half_warm(16 * STRIDE, 1);
        while clock.complete.is_none() {
            clock.histogram(&tree);
        }
        clock.hurry(false);
        let passed = |clock: &mut ClockSweep, wanted| {
            let before = clock.current.total();
            clock.victims(&tree, &wanting(wanted, 0));
            (16 * STRIDE + clock.current.total() - before) % (16 * STRIDE)
        };
        let paces: Vec<_> = (0..80).map(|_| passed(&mut clock, 0)).collect();
        assert!(paces.is_sorted_by(|one, next| one >= next));
        assert_eq!((paces[0], paces[79]), (STRIDE - STRIDE / SLOWS, SLOWEST));
        assert_eq!(passed(&mut clock, FEW), SLOWEST + FEW * FOR_A_VICTIM);
        let many = FEW + 1;
        assert_eq!(passed(&mut clock, many), STRIDE + many * FOR_A_VICTIM);
    }

    #[test]
    fn a_hand_that_finds_too_little_goes_round_once() {
        let (_arenas, tree, mut clock) = half_warm(1000, 1);
        clock.histogram(&tree);
        for _ in 0..3 {
            let mut victims = clock.victims(&tree, &wanting(600, 79));
            victims.sort_by_key(word);
            victims.dedup();
            assert_eq!(victims.len(), 500, "each once");
        }
        assert_eq!(clock.histogram(&tree).total(), 1000);
    }

    #[test]
    fn what_the_mover_does_is_known_at_once() {
        let (_arenas, tree, mut clock) = half_warm(3 * STRIDE, 1);
        let all = clock.histogram(&tree).total();
        let victims = clock.victims(&tree, &wanting(10, 80));
        for victim in &victims {
            assert!(tree.demote(&crate::NodeKey::of_word(word(victim), 0)) != crate::Move::Blocked);
            clock.demoted(victim);
        }
        assert_eq!(clock.histogram(&tree).total(), all - 10);
        clock.promoted(&FakeRecords::leaf(3), 2000);
        assert_eq!(clock.histogram(&tree).nth_coldest(all - 9), 2000);
        clock.policy.heat.cool();
        clock.cooled();
        assert_eq!(clock.histogram(&tree).nth_coldest(all - 9), 1000);
        // Nothing of the kind is in the tree, as the second revolution from now knows.
        for _ in 0..5 {
            clock.victims(&tree, &wanting(0, 0));
        }
        let histogram = clock.histogram(&tree);
        assert_eq!(
            (histogram.total(), histogram.nth_coldest(all)),
            (all - 10, HOTTEST)
        );
        assert_eq!(histogram.nth_coldest(all - 10), 40);
    }
}
