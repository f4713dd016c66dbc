//! The worker of `timberline`: looks at heat, exchanges leaves, keeps the reserve, restores the boundary.
//!
//! One round costs a pass over the fast tier's heat (two bytes a leaf, in order) and the moves it decides on. It
//! never looks at slow leaves but those that samples suggested.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_sync::epoch;
use timberline_tier::TierId;

use super::exchange::{Census, Plan, worth_it};
use super::pace::Pace;
use super::{Seen, Suggestion, Timberline, reserve};
use crate::workers::{Next, Worker, lock};
use crate::{Move, NodeKey, Placed};

/// Moves before the memory of demoted nodes is asked back: small enough for the reserve to last.
const BATCH: usize = 64;

/// See the [module's text](self).
pub struct Mover {
    policy: Arc<Timberline>,
    pace: Pace,
    /// Where the next sweep for victims begins, so that equally cold leaves take turns.
    hand: usize,
    uncooled: u64,
    fast_leaves: usize,
    /// A sequence of draws, for picking inner nodes where no leaf is left to demote.
    draw: u64,
}

impl Mover {
    pub(super) fn new(policy: Arc<Timberline>) -> Self {
        let pace = Pace::new(policy.config.densest, policy.config.sparsest);
        Mover {
            policy,
            pace,
            hand: 0,
            uncooled: 0,
            fast_leaves: 0,
            draw: 0,
        }
    }

    /// Suggestions since the last round, each leaf once, hottest first.
    fn suggestions(&self) -> Vec<Suggestion> {
        let mut all = Vec::new();
        for seen in self.policy.seen.iter() {
            all.append(&mut lock(&seen.suggestions));
        }
        all.sort_unstable_by(|one, two| one.fence.cmp(&two.fence).then(two.heat.cmp(&one.heat)));
        all.dedup_by(|later, kept| later.fence == kept.fence);
        all.sort_by_key(|s| std::cmp::Reverse(s.heat));
        all
    }

    fn exchange(&mut self, tree: &dyn Placed) -> usize {
        let policy = self.policy.clone();
        let asking = self.suggestions();
        let census = self.census();
        self.fast_leaves = census.total();
        let fill = tree.fill(TierId::FAST);
        let nodes = fill.limit / tree.node_bytes();
        let kept = reserve(nodes, policy.config.reserve) as isize;
        let free = nodes as isize - (fill.used / tree.node_bytes()) as isize - kept;

        let plan = census.plan(&asking, free);
        let mut hot = asking[..plan.promote].iter();
        let mut victims = self.victims(&plan).into_iter();
        let mut promoted = 0;
        // Alternating in batches: what was demoted makes room for what is promoted.
        loop {
            let cold: Vec<usize> = victims.by_ref().take(BATCH).collect();
            let demoted = cold
                .iter()
                .filter(|&&address| self.demote(tree, address))
                .count();
            if demoted > 0 {
                epoch::collect();
            }
            let mut full = false;
            let mut batch = 0;
            for suggestion in hot.by_ref().take(BATCH.max(free.max(0) as usize)) {
                batch += 1;
                match tree.promote_path(suggestion.fence.clone()) {
                    Move::Moved(_) => promoted += 1,
                    Move::Full => {
                        full = true;
                        break;
                    }
                    Move::There | Move::Stale | Move::Blocked => {}
                }
            }
            if full || (cold.is_empty() && batch == 0) {
                break;
            }
        }
        // Leaves ask, but fast memory holds no leaf to exchange: cold inner nodes are in the way.
        let stuck = match plan.demote == self.fast_leaves {
            true => asking.len() - plan.promote,
            false => 0,
        };
        let short = ((-free).max(0) as usize).saturating_sub(plan.demote);
        if short > 0 || stuck > 0 {
            self.demote_inner(tree, short.max(stuck.min(BATCH)));
        }
        // The next suggestion must beat what will then be among the coldest hundredth.
        let room = free - (plan.promote as isize - plan.demote as isize);
        let floor = match room > 0 || plan.demote == self.fast_leaves {
            // With no fast leaf to beat, any may ask.
            true => super::SAMPLE,
            false => worth_it(census.nth_coldest(1 + plan.demote + self.fast_leaves / 100)),
        };
        policy.floor.store(floor, Relaxed);
        policy.allowance.store(room.max(0) as i64, Relaxed);
        promoted
    }

    /// The addresses of fast leaves that the plan wants gone.
    fn victims(&mut self, plan: &Plan) -> Vec<usize> {
        if plan.demote == 0 {
            return Vec::new();
        }
        let heat = &self.policy.heat;
        let cold = heat
            .sweep(TierId::FAST)
            .filter(|&(_, heat)| heat <= plan.coldest);
        let mut found: Vec<usize> = cold.map(|(index, _)| index).collect();
        let start = found.partition_point(|&index| index < self.hand);
        found.rotate_left(start);
        found.truncate(plan.demote);
        self.hand = found
            .last()
            .map_or(0, |&last| (last + 1) % heat.slots(TierId::FAST));
        found
            .into_iter()
            .map(|index| heat.address(TierId::FAST, index))
            .collect()
    }

    fn demote(&self, tree: &dyn Placed, address: usize) -> bool {
        let fence = tree.fence_at(address);
        match fence.clone().map(|key| tree.demote(&NodeKey::leaf(key))) {
            Some(Move::Moved(_)) => true,
            Some(Move::Full | Move::Blocked) => false,
            Some(Move::There | Move::Stale) | None => {
                // The table said leaf, the tree says no: a sample came in while the slot was freed. Or the leaf has
                // another fence since; then it is still there.
                if tree.fence_at(address) == fence {
                    self.policy.heat.clear(address);
                }
                false
            }
        }
    }

    /// Fast memory is short and holds inner nodes only: demotes some of the lowest, wherever none of
    /// their children is fast. Those that are needed come back with their hot leaves.
    fn demote_inner(&mut self, tree: &dyn Placed, wanted: usize) {
        let mut demoted = 0;
        for _ in 0..4 * wanted {
            if demoted == wanted {
                break;
            }
            // Weyl's sequence: equidistributed, no state but a word.
            self.draw = self.draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let Some(inner) = tree.lowest_fast_inner(self.draw) else {
                continue;
            };
            if let Move::Moved(_) = tree.demote(&inner) {
                demoted += 1;
            }
        }
        epoch::collect();
    }

    /// Makes fast again what has fast children; where fast memory has no room even after the coldest leaves left it,
    /// makes those children slow.
    fn restore_boundary(&mut self, tree: &dyn Placed) {
        let policy = self.policy.clone();
        let broken = std::mem::take(&mut *lock(&policy.broken));
        for node in broken {
            let mut outcome = tree.promote_node(&node);
            if outcome == Move::Full {
                let plan = self.census().plan(&[], -(BATCH as isize));
                for address in self.victims(&plan) {
                    self.demote(tree, address);
                }
                epoch::collect();
                outcome = tree.promote_node(&node);
            }
            if outcome == Move::Full {
                tree.demote_subtree(&node);
            }
        }
    }

    /// The heat of all fast leaves.
    fn census(&self) -> Census {
        Census::new(self.policy.heat.sweep(TierId::FAST).map(|(_, heat)| heat))
    }
}

impl Worker for Mover {
    fn name(&self) -> &'static str {
        "tl-mover"
    }

    fn step(&mut self, tree: &dyn Placed, _now: Duration) -> Next {
        self.restore_boundary(tree);
        let promoted = self.exchange(tree);
        let policy = &self.policy;
        let taken = |counter: fn(&Seen) -> &AtomicU64| -> u64 {
            policy
                .seen
                .iter()
                .map(|seen| counter(seen).swap(0, Relaxed))
                .sum()
        };
        let samples = taken(|seen| &seen.samples);
        let slow = taken(|seen| &seen.slow);
        self.uncooled += samples;
        let enough = u64::from(policy.config.samples_per_cooling) * self.fast_leaves.max(64) as u64;
        if self.uncooled >= enough {
            policy.heat.cool();
            self.uncooled = 0;
        }
        let fast = self.fast_leaves;
        for _ in 0..self.pace.observe(samples, slow, promoted, fast) {
            policy.heat.cool();
        }
        policy.interval.store(self.pace.interval(), Relaxed);
        Next::After(self.pace.round())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fence;
    use crate::fake::{Clockwork, FakeTree};
    use crate::timberline::TimberlineConfig;
    use crate::{LeafRef, Placement};
    use std::sync::atomic::AtomicU16;
    use timberline_tier::{Arenas, ArenasConfig};

    /// The placement of a tree that is not there: what it believes of leaves is up to the test.
    fn policy() -> (Arenas, Arc<Timberline>) {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let policy = Timberline::new(&arenas, 1024, TimberlineConfig::default()).unwrap();
        (arenas, policy)
    }

    fn ask(policy: &Timberline, arenas: &Arenas, n: usize, samples: usize) {
        let heat = AtomicU16::new(0);
        let leaf = LeafRef {
            address: arenas.range_of(TierId::SLOW).start + 1024 * n,
            tier: TierId::SLOW,
            fence: Fence::of_word(FakeTree::leaf(n).key.word()),
            heat: &heat,
        };
        for _ in 0..samples {
            policy.touched(leaf, crate::Access::Reuse);
        }
    }

    fn run(policy: &Arc<Timberline>, tree: &FakeTree) {
        Clockwork::new(policy.workers()).run_for(tree, Duration::ZERO);
    }

    #[test]
    fn hot_leaves_come_with_their_paths_and_leave_the_reserve() {
        let (arenas, policy) = policy();
        // Room for 16 of 1 + 4 + 16 + 64 nodes; a quarter is kept.
        let tree = FakeTree::uniform(4, 4, 16);
        for n in 0..64 {
            ask(&policy, &arenas, n, 4);
        }
        ask(&policy, &arenas, 40, 40);
        run(&policy, &tree);
        assert!(tree.tier(&FakeTree::leaf(40)).is_fast(), "the hottest");
        assert!(tree.has_single_boundary());
        assert!(tree.fill(TierId::FAST).used <= tree.fill(TierId::FAST).limit);
    }

    #[test]
    fn an_entry_without_a_leaf_is_cleared() {
        let (arenas, policy) = policy();
        let slot = arenas.range_of(TierId::FAST).start;
        policy.heat.set(slot, 8);
        // Fast memory is over its reserve, so the coldest entry is to go; the tree knows no such leaf.
        let tree = FakeTree::uniform(2, 4, 5);
        tree.set_all(TierId::FAST);
        run(&policy, &tree);
        assert_eq!(policy.heat.get(slot), 0);
    }

    #[test]
    fn a_broken_boundary_is_mended_upwards_or_downwards() {
        for (limit, root_is_fast) in [(16, true), (4, false)] {
            let (_arenas, policy) = policy();
            let tree = FakeTree::uniform(2, 4, limit);
            let root = NodeKey::of_word(0, 1);
            tree.set_all(TierId::FAST);
            tree.set_tier(&root, TierId::SLOW);
            policy.boundary_broken(root.clone());
            run(&policy, &tree);
            assert!(tree.has_single_boundary());
            assert_eq!(tree.tier(&root).is_fast(), root_is_fast, "room for {limit}");
        }
    }
}
