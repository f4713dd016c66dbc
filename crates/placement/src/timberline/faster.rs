//! The faster tier of a boundary: which of its leaves are cold, and demoting them.
//!
//! Where there are more than two tiers there is one for each tier but the slowest. That of the
//! fast tier belongs to the [mover](super::mover), which exchanges leaves and pages of copies. The
//! others [exchange](FasterTier::exchange) leaves only: they take the candidates that are too cold
//! for the tiers above.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use timberline_tier::TierId;

use super::chance::Chance;
use super::clock::ClockSweep;
use super::compaction::Compaction;
use super::exchange::{Margin, Pages, Plan};
use super::mover::BATCH;
use super::search::Search;
use super::victims::{Found, TableSweep, Victim, VictimSelection};
use super::{Candidate, HeatIn, Promotable, Timberline};
use crate::boundary::{self, demote_idle};
use crate::{Fill, KeyBytes, Move, NodeKey, Placed};

/// A tier's free memory is of use again once one part in so many of it is free: enough that not
/// every other round promotes cold leaves until a slot is lacking.
const FREE_AGAIN: usize = 16;

pub struct FasterTier {
    policy: Arc<Timberline>,
    tier: TierId,
    pub victims: Box<dyn VictimSelection>,
    /// How many samples leaves of slower tiers have by chance; known at the fast tier only.
    pub chance: Chance,
    /// Memory of the tier is free, but in slots of other sizes.
    pub stranded: bool,
    /// Bytes of its nodes when the mover's last exchange had ended; known at the fast tier only.
    pub used: usize,
    compaction: Compaction,
    search: Search,
}

/// The leaves that one boundary leaves to the next slower one.
pub struct Rest {
    /// Candidates that were not promoted, hottest first.
    pub candidates: Vec<Candidate>,
    /// The slots that its moves take from the next tier; negative: that they free there.
    pub coming: isize,
    /// A leaf below this heat is no candidate of this boundary or one above.
    pub floor: u16,
}

impl FasterTier {
    pub fn new(policy: Arc<Timberline>, tier: TierId) -> Self {
        let victims: Box<dyn VictimSelection> = match policy.home {
            HeatIn::Table { .. } => Box::new(TableSweep::new(policy.clone(), tier)),
            HeatIn::Leaf { .. } => Box::new(ClockSweep::new(policy.clone(), tier)),
        };
        let pause = policy.scale.compaction_pause;
        FasterTier {
            policy,
            tier,
            victims,
            chance: Chance::default(),
            stranded: false,
            used: 0,
            compaction: Compaction::of(tier, pause),
            search: Search::default(),
        }
    }

    /// Bytes that come free with a leaf of the tier, which holds `fill`: its own and its part of
    /// the inner nodes.
    pub fn bytes_of_leaf(&self, tree: &dyn Placed, fill: Fill) -> usize {
        let leaves = self.victims.leaves(tree);
        self.policy
            .scale
            .bytes_of_leaf(tree.node_bytes(), fill.used, leaves)
    }

    /// A leaf was promoted to the tier.
    pub fn promoted(&mut self, leaf: &KeyBytes, heat: u16) {
        self.victims.promoted(leaf, heat);
        self.chance.promoted(heat);
    }

    /// All heat was halved.
    pub fn cooled(&mut self) {
        self.victims.cooled();
        self.chance.cooled();
    }

    /// The hot set has moved.
    pub fn hot_set_moved(&mut self) {
        self.compaction.hot_set_moved();
    }

    /// A round of compaction. Returns whether it goes on, or waits for a search for broken paths.
    pub fn compact(&mut self, tree: &dyn Placed, now: Duration) -> bool {
        // Nodes below a broken path would keep their chunks.
        let is_worth_it = self.stranded && !self.search.is_active();
        if self.compaction.step(tree, is_worth_it, now) {
            self.stranded = false;
        }
        self.compaction.is_active() || self.search.is_active()
    }

    /// Takes in how many promotions of a round found the tier full. Where nodes have many sizes,
    /// what is free is then of no use until enough nodes left or chunks came free.
    pub fn found_full(&mut self, tree: &dyn Placed, promotions: usize) {
        if promotions > 0 {
            self.stranded = self.policy.scale.records;
        } else if self.stranded {
            let fill = tree.fill(self.tier);
            let free = fill.limit.saturating_sub(fill.used);
            self.stranded = free < fill.limit / FREE_AGAIN;
        }
    }

    /// Exchanges leaves of this tier, which is not the fast one, with promotion candidates from
    /// slower ones, and makes room for what the boundary above sends. Takes that one's rest, and
    /// returns its own.
    pub fn exchange(&mut self, tree: &dyn Placed, mut rest: Rest) -> Rest {
        let policy = self.policy.clone();
        let tier = self.tier;
        rest.candidates
            .retain(|it| it.from > tier && it.what != Promotable::Page);
        let (fill, slot_bytes) = (tree.fill(tier), tree.node_bytes());
        let slots = fill.limit / slot_bytes;
        let reserve = policy.config.reserve;
        let kept = policy.scale.reserve(slots, slot_bytes, reserve) as isize;
        let free = slots as isize - (fill.used / slot_bytes) as isize - kept - rest.coming;
        let free = match self.stranded {
            // Leaves can still change places.
            true => free.min(0),
            false => free,
        };

        let margin = Margin {
            sample: policy.sampling().finest(),
            ..policy.scale.margin
        };
        let histogram = self.victims.histogram(tree);
        let leaves = histogram.total();
        let plan = histogram.plan(Pages::default(), &rest.candidates, free, margin);
        let then_coldest = histogram.nth_coldest(1 + plan.demote + leaves / 100);
        let room = free + plan.demote as isize - plan.promote as isize;
        let floor = match room > 0 || plan.demote == leaves {
            true => margin.sample,
            false => margin.worth_it(then_coldest),
        };
        let floor = floor.min(rest.floor);
        let boundary = &policy.boundaries[tier.index()];
        boundary.floor.store(floor, Relaxed);
        let leaves = policy.scale.leaves_in(room.max(0) as usize);
        boundary.allowance.renew(leaves as i64);

        let below = rest.candidates.split_off(plan.promote);
        let failed = self.move_both_ways(tree, &plan, &rest.candidates);
        self.found_full(tree, failed);
        let next = TierId(tier.0 + 1);
        let from_next = rest.candidates.iter().filter(|it| it.from == next).count();
        Rest {
            candidates: below,
            coming: plan.demote as isize - from_next as isize,
            floor,
        }
    }

    /// Demotes the plan's victims and promotes `hot`, by turns, as demotions make room. Returns how
    /// many promotions found the tier full.
    fn move_both_ways(&mut self, tree: &dyn Placed, plan: &Plan, hot: &[Candidate]) -> usize {
        let mut hot = hot.chunks(BATCH);
        let mut victims = self.victims.victims(tree, plan).into_iter();
        let mut failed = 0;
        loop {
            let cold: Vec<Victim> = victims.by_ref().take(BATCH).collect();
            self.demote_all(tree, &cold);
            let batch = match failed < self.policy.scale.patience {
                true => hot.next().unwrap_or_default(),
                false => &[],
            };
            for candidate in batch {
                let Promotable::Leaf(fence) = &candidate.what else {
                    continue;
                };
                match tree.promote_to(&NodeKey::leaf(fence.clone()), self.tier) {
                    Move::Moved(_) => self.promoted(fence, candidate.heat),
                    Move::Full => failed += 1,
                    Move::AlreadyThere | Move::Stale | Move::Blocked => {}
                }
            }
            if cold.is_empty() && batch.is_empty() {
                return failed;
            }
        }
    }

    /// Promotes nodes of slower tiers above children in this one; if it is full even without its
    /// coldest leaves, demotes those children. `drop_pages` gives back pages of copies.
    pub fn restore_boundary(
        &mut self,
        tree: &dyn Placed,
        pages: Pages,
        drop_pages: impl Fn(usize),
    ) {
        let policy = self.policy.clone();
        let broken = &policy.boundaries[self.tier.index()].broken;
        self.search.step(broken, self.tier, tree);
        boundary::mend(broken, self.tier, tree, || {
            let relief = policy.scale.relief(tree.node_bytes()) as isize;
            let plan = self
                .victims
                .histogram(tree)
                .plan(pages, &[], -relief, policy.scale.margin);
            drop_pages(plan.pages);
            let victims = self.victims.few_victims(tree, &plan);
            self.demote_all(tree, &victims);
            tree.reclaim();
            true
        });
    }

    /// Demotes victims that are not stale, and reclaims their memory. Returns how many it demoted.
    pub fn demote_all(&mut self, tree: &dyn Placed, cold: &[Victim]) -> usize {
        let mut demoted = Vec::new();
        for victim in cold {
            demoted.extend(self.demote(tree, victim));
        }
        let count = demoted.len();
        if count == 0 {
            return 0;
        }
        if self.policy.scale.records {
            let mut parents: Vec<NodeKey> = demoted
                .into_iter()
                .filter_map(|leaf| tree.parent_of(&NodeKey::leaf(leaf)))
                .collect();
            // Victims come nearly in the order of their keys.
            parents.dedup();
            for parent in parents {
                demote_idle(tree, self.tier, parent);
            }
        }
        tree.reclaim();
        count
    }

    /// Demotes a leaf. Returns its name if it is slower now.
    fn demote(&mut self, tree: &dyn Placed, victim: &Victim) -> Option<KeyBytes> {
        let name = match &victim.leaf {
            Found::At(address) => tree.fence_at(*address),
            Found::Named(name) => Some(name.clone()),
        };
        let outcome = name
            .clone()
            .map(|name| tree.demote_out_of(self.tier, &NodeKey::leaf(name)))
            .unwrap_or(Move::Stale);
        match outcome {
            Move::Moved(_) => {
                self.victims.demoted(victim);
                self.chance.demoted(victim.heat);
                name
            }
            Move::Full | Move::Blocked => None,
            Move::AlreadyThere | Move::Stale => {
                self.victims.demoted(victim);
                // The table has heat of a slot without a leaf: a sample came while the slot was
                // freed. If the leaf has another fence by now, its heat stays.
                if let Found::At(address) = victim.leaf
                    && tree.fence_at(address) == name
                {
                    self.policy.heat.forget(address);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Clockwork, FakeTree};
    use crate::timberline::{SAMPLE, TimberlineConfig};
    use crate::workers::lock;
    use crate::{Access, Fence, LeafRef, Placement, Relocate, Walk};
    use std::sync::atomic::AtomicU16;
    use std::time::Duration;
    use timberline_tier::{Arenas, ArenasConfig, TierConfig};

    const MIDDLE: TierId = TierId(1);
    const SLOWEST: TierId = TierId(2);
    const IN_TABLE: HeatIn = HeatIn::Table { node_bytes: 1024 };

    /// A placement for three tiers, and a tree of 1 + 4 + 16 + 64 nodes in the slowest, with room
    /// for 8 fast nodes and 40 in the middle tier (three quarters of either, the rest is kept).
    fn three_tiers(home: HeatIn) -> (Arenas, Arc<Timberline>, FakeTree) {
        let mut arenas = ArenasConfig::two_tiers(1 << 20, 1 << 20);
        arenas.tiers.push(TierConfig::new(1 << 20, Vec::new()));
        let arenas = Arenas::new(&arenas).unwrap();
        let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
        (arenas, policy, FakeTree::uniform(4, 4, 10).with_middle(40))
    }

    /// Reports accesses to the n-th leaf, of a slow tier, that have the heat of so many samples.
    fn touch(policy: &Timberline, arenas: &Arenas, tree: &FakeTree, n: usize, samples: usize) {
        let (heat, tier) = (AtomicU16::new(0), tree.tier(&FakeTree::leaf(n)));
        let leaf = LeafRef {
            address: arenas.range_of(tier).start + 1024 * n,
            tier,
            fence: Fence::of_word(FakeTree::leaf(n).key.word()),
            heat: &heat,
        };
        let finer = usize::from(SAMPLE / policy.sampling().finest());
        for _ in 0..samples * finer {
            policy.on_access(leaf, Access::Reuse);
        }
    }

    #[test]
    fn the_hottest_go_straight_to_the_fast_tier_and_the_next_to_the_middle() {
        let (arenas, policy, tree) = three_tiers(IN_TABLE);
        for n in 0..40 {
            touch(&policy, &arenas, &tree, n, 3);
        }
        for n in [5, 6] {
            touch(&policy, &arenas, &tree, n, 40);
        }
        let mut time = Clockwork::new(policy.workers());
        time.run_for(&tree, Duration::ZERO);
        let tier = |n| tree.tier(&FakeTree::leaf(n));
        assert_eq!([tier(5), tier(6)], [TierId::FAST; 2]);
        assert!(tree.has_single_boundary());
        let of = |wanted| (0..64).filter(|&n| tier(n) == wanted).count();
        assert!(of(MIDDLE) > 10, "{}", of(MIDDLE));
        assert!((40..64).all(|n| tier(n) == SLOWEST), "cold");
        // By one step: nothing moves through the middle tier.
        let moves = tree.moves();
        let name = FakeTree::leaf(5);
        assert_eq!(moves.iter().filter(|(node, _)| *node == name).count(), 1);
    }

    #[test]
    fn a_full_middle_tier_gives_its_coldest_leaves_to_the_slowest() {
        let (_arenas, policy, tree) = three_tiers(HeatIn::Leaf { leaf_bytes: 24 });
        for n in 0..29 {
            tree.promote_to(&FakeTree::leaf(n), MIDDLE);
            tree.with_leaf(n, |leaf| policy.heat.set(leaf, if n < 20 { 8 } else { 80 }));
        }
        assert_eq!(tree.fill(MIDDLE).used / tree.node_bytes(), 40);
        let candidate = |n, heat| Candidate {
            what: Promotable::Leaf(FakeTree::leaf(n).key),
            heat,
            from: SLOWEST,
        };
        let rest = Rest {
            // The last is no hotter than what is there.
            candidates: vec![candidate(61, 100), candidate(63, 90), candidate(62, 10)],
            coming: 2,
            floor: u16::MAX,
        };
        let mut middle = FasterTier::new(policy, MIDDLE);
        let rest = middle.exchange(&tree, rest);
        let tier = |n| tree.tier(&FakeTree::leaf(n));
        assert_eq!([61, 63, 62].map(tier), [MIDDLE, MIDDLE, SLOWEST]);
        assert_eq!(rest.candidates, [candidate(62, 10)]);
        // Eight places are kept, two come from above, and two are exchanged.
        let demoted = (0..20).filter(|&n| tier(n) == SLOWEST).count();
        assert_eq!((demoted, rest.coming), (12, 10));
        assert!((20..29).all(|n| tier(n) == MIDDLE));
        assert!(rest.floor < 80, "{}", rest.floor);
        assert!(tree.has_single_boundary());
    }

    #[test]
    fn what_is_free_in_a_tier_that_was_full_is_of_no_use_until_it_is_some() {
        let (_arenas, policy, tree) = three_tiers(HeatIn::Leaf { leaf_bytes: 24 });
        for n in 0..29 {
            tree.promote_to(&FakeTree::leaf(n), MIDDLE);
        }
        let mut middle = FasterTier::new(policy, MIDDLE);
        let mut strands = |failed| {
            middle.found_full(&tree, failed);
            middle.stranded
        };
        assert_eq!([0, 1, 0].map(&mut strands), [false, true, true]);
        for n in 0..2 {
            tree.demote_to(&FakeTree::leaf(n), SLOWEST);
        }
        assert!(strands(0), "a twentieth");
        tree.demote_to(&FakeTree::leaf(2), SLOWEST);
        assert_eq!([1, 0].map(strands), [true, false]);
    }

    #[test]
    fn a_tier_whose_free_memory_is_stranded_is_compacted() {
        let (_arenas, policy, tree) = three_tiers(HeatIn::Leaf { leaf_bytes: 24 });
        let mut middle = FasterTier::new(policy, MIDDLE);
        middle.compact(&tree, Duration::ZERO);
        assert!(lock(&tree.asked_for_candidates).is_empty());
        middle.stranded = true;
        assert!(!middle.compact(&tree, Duration::ZERO), "there are none");
        assert_eq!(*lock(&tree.asked_for_candidates), [MIDDLE]);
    }

    #[test]
    fn a_path_that_broke_at_the_second_boundary_is_mended_there() {
        let (_arenas, policy, tree) = three_tiers(IN_TABLE);
        tree.set_all(MIDDLE);
        let above = NodeKey::of_word(0, 3);
        tree.set_tier(&above, SLOWEST);
        policy.boundary_broken(above.clone(), MIDDLE);
        Clockwork::new(policy.workers()).run_for(&tree, Duration::ZERO);
        assert!(tree.has_single_boundary());
        // The middle tier has no room for it: what is below it went to the slowest.
        assert!(tree.fill(MIDDLE).used <= 40 * tree.node_bytes());
    }

    #[test]
    fn new_leaves_fall_past_a_tier_whose_allowance_is_used_up() {
        let (_arenas, policy, _) = three_tiers(IN_TABLE);
        let place = |parent, split_from| {
            policy.place(crate::NewNode {
                height: 0,
                level: 3,
                parent,
                split_from,
            })
        };
        let mut made = [0; 3];
        for _ in 0..3000 {
            made[place(TierId::FAST, TierId::FAST).index()] += 1;
        }
        assert!(made[0] > 900 && made[1] > 900 && made[2] > 900, "{made:?}");
        assert_eq!(place(MIDDLE, TierId::FAST), SLOWEST);
        assert_eq!(place(TierId::FAST, SLOWEST), SLOWEST);
    }
}
