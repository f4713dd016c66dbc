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
use crate::workers::{Next, Worker};
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
    /// A sequence of keys, for picking inner nodes where no leaf is left to demote.
    key: u64,
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
            key: 0,
        }
    }

    /// Suggestions since the last round, each leaf once, hottest first.
    fn suggestions(&self) -> Vec<Suggestion> {
        let mut all = Vec::new();
        for seen in self.policy.seen.iter() {
            all.append(&mut seen.suggestions.lock().unwrap_or_else(|e| e.into_inner()));
        }
        all.sort_unstable_by_key(|s| (s.fence, std::cmp::Reverse(s.heat)));
        all.dedup_by_key(|s| s.fence);
        all.sort_by_key(|s| std::cmp::Reverse(s.heat));
        all
    }

    fn exchange(&mut self, tree: &dyn Placed) -> usize {
        let policy = self.policy.clone();
        let asking = self.suggestions();
        let census = Census::new(policy.heat.sweep(TierId::FAST).map(|(_, heat)| heat));
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
                match tree.promote_path(suggestion.fence) {
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
        if plan.demote < (-free).max(0) as usize {
            self.demote_inner(tree, (-free) as usize - plan.demote);
        }
        // The next suggestion must beat what will then be among the coldest hundredth.
        let room = free - (plan.promote as isize - plan.demote as isize);
        let floor = match room > 0 {
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
        let moved = tree
            .fence_at(address)
            .map(|key| tree.demote(NodeKey { key, height: 0 }));
        match moved {
            Some(Move::Moved(_)) => true,
            Some(Move::Full | Move::Blocked) => false,
            // The table said leaf, the tree says no: a sample came in while the slot was freed.
            Some(Move::There | Move::Stale) | None => {
                self.policy.heat.clear(address);
                false
            }
        }
    }

    /// Fast memory is short and holds inner nodes only: demotes some of the lowest, wherever none of
    /// their children is fast. Those that are needed come back with their hot leaves.
    fn demote_inner(&mut self, tree: &dyn Placed, wanted: usize) {
        let mut demoted = 0;
        for height in 1..tree.levels().saturating_sub(1) {
            for _ in 0..4 * wanted {
                if demoted == wanted {
                    return epoch::collect();
                }
                // Weyl's sequence: equidistributed, no state but a word.
                self.key = self.key.wrapping_add(0x9e37_79b9_7f4a_7c15);
                if let Move::Moved(_) = tree.demote(NodeKey {
                    key: self.key,
                    height,
                }) {
                    demoted += 1;
                }
            }
        }
        epoch::collect();
    }

    /// Makes fast again what has fast children, or else makes those slow.
    fn restore_boundary(&self, tree: &dyn Placed) {
        let broken =
            std::mem::take(&mut *self.policy.broken.lock().unwrap_or_else(|e| e.into_inner()));
        for node in broken {
            if let Move::Full = tree.promote_node(node) {
                tree.demote_subtree(node);
            }
        }
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
