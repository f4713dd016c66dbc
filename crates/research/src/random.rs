//! `random`: moves nodes at random (SIDLE §6.1, "Compared Systems": on each node access, promote
//! the current node with a probability of 1 % and demote a random one). The gain of another
//! placement over it comes from its choice of nodes.
//!
//! Invariants: every move keeps the single boundary; an access is chosen with a probability of 1 %,
//! whatever was chosen before.
//!
//! # Where this differs from the text
//!
//! - Only accesses to leaves are drawn, and a chosen leaf is promoted with its slow ancestors. A
//!   leaf below slow nodes would break the boundary, and an inner node drawn at its own accesses
//!   would be fast within moments anyway.
//! - The number of accesses to the next chosen one is drawn, not each access: the same distribution
//!   at a hundredth of the cost.
//! - A worker moves nodes, not the request. It demotes when a promotion finds no room, not at each.
//! - Ancestors without a fast child are demoted with a leaf.
//! - New nodes are fast below fast ones as long as there is room: the text does not say.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use timberline_tier::Striped;
use timberline_tier::TierId;

use timberline_placement::NodeQueue;
use timberline_placement::boundary::{self, demote_idle};
use timberline_placement::draws::{Draws, SharedDraws};
use timberline_placement::workers::{Next, Waker, Worker};
use timberline_placement::{
    Access, KeyBytes, LeafRef, MAX_SAMPLE_INTERVAL, Move, NewNode, NodeKey, Placed, Placement,
};

use crate::table::{Kind, Made, Make, Row, Style};

pub(crate) const ROW: Row = Row {
    paper: Some("SIDLE §6.1"),
    kind: Kind::Adaptive,
    style: Style::of("#94801e", "#cdb94f"),
    ..Row::new(
        "random",
        "promotes the leaf of one access in 100, and demotes random ones",
        Make::Nodes(|setup| {
            let random = Random::new(setup.seed);
            let workers = random.workers();
            Ok(Made::with_workers(random, workers))
        }),
    )
};

/// The probability that an access promotes its leaf.
const CHANCE: f64 = 0.01;
/// Promotions in a step, which bounds the wait of a pause or a stop.
const BATCH: usize = 64;
/// One in this many fast leaves is drawn during a walk over them, so a victim costs this many
/// visits.
const VICTIMS: u64 = 16;

/// The placement of this name, for one tree. Its worker, from [`Random::workers`], must run for
/// anything to move.
pub struct Random {
    seed: u64,
    draws: Striped<SharedDraws>,
    promotions: NodeQueue,
    /// Slow nodes above fast ones.
    broken: NodeQueue,
    wake: Waker,
}

impl Random {
    /// The same draws for the same seed, as far as threads come in the same order.
    pub fn new(seed: u64) -> Arc<Self> {
        let mut lane = 0;
        let mut draws = || {
            lane += 1;
            SharedDraws::new(seed.wrapping_add(lane))
        };
        Arc::new(Self {
            seed,
            draws: Striped::new(&mut draws),
            promotions: NodeQueue::default(),
            broken: NodeQueue::default(),
            wake: Waker::new(),
        })
    }

    /// The one worker.
    pub fn workers(self: &Arc<Self>) -> Vec<Box<dyn Worker>> {
        vec![Box::new(Shuffler {
            draws: Draws(self.seed),
            policy: self.clone(),
            victims: Vec::new(),
        })]
    }
}

impl Placement for Random {
    fn place(&self, node: NewNode) -> TierId {
        node.parent
    }

    fn on_access(&self, leaf: LeafRef<'_>, _: Access) -> u32 {
        if !leaf.tier.is_fast() {
            self.promotions.push(NodeKey::leaf(leaf.fence.to_bytes()));
            self.wake.wake();
        }
        gap(self.draws.assigned().unit())
    }

    fn boundary_broken(&self, node: NodeKey, _: TierId) {
        self.broken.push(node);
        self.wake.wake();
    }
}

/// The number of accesses to the next chosen one, for a draw from `[0, 1)`: geometrically
/// distributed.
fn gap(draw: f64) -> u32 {
    let passed = (1.0 - draw).ln() / (1.0 - CHANCE).ln();
    (1.0 + passed.floor()).min(MAX_SAMPLE_INTERVAL.into()) as u32
}

/// Promotes the chosen leaves, and demotes random ones.
struct Shuffler {
    policy: Arc<Random>,
    draws: Draws,
    /// Leaves drawn from the fast ones, not demoted yet.
    victims: Vec<KeyBytes>,
}

impl Shuffler {
    /// Demotes a random fast leaf, or an inner node where no leaf is fast; false when nothing but
    /// the root seems fast.
    fn demote_one(&mut self, tree: &dyn Placed) -> bool {
        if self.victims.is_empty() {
            self.draw_victims(tree);
        }
        let victim = match self.victims.pop() {
            Some(leaf) => Some(NodeKey::leaf(leaf)),
            None => tree.lowest_fast_inner(self.draws.bits()),
        };
        let Some(victim) = victim else {
            return false;
        };
        let parent = tree.parent_of(&victim);
        tree.demote(&victim);
        if let Some(parent) = parent {
            demote_idle(tree, TierId::FAST, parent);
        }
        // The old copy takes fast memory until it is reclaimed.
        tree.reclaim();
        true
    }

    /// Draws from all fast leaves; takes all where they are few.
    fn draw_victims(&mut self, tree: &dyn Placed) {
        let Self { victims, draws, .. } = self;
        for one_in in [VICTIMS, 1] {
            tree.each_fast_leaf(&[], &mut |leaf| {
                if draws.bits().is_multiple_of(one_in) {
                    victims.push(leaf.fence.to_bytes());
                }
                ControlFlow::Continue(())
            });
            if !victims.is_empty() {
                break;
            }
        }
        draws.shuffle(victims);
    }
}

impl Worker for Shuffler {
    fn name(&self) -> &'static str {
        "random-shuffler"
    }

    fn waker(&self) -> Waker {
        self.policy.wake.clone()
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let policy = self.policy.clone();
        boundary::mend(&policy.broken, TierId::FAST, tree, || self.demote_one(tree));
        for _ in 0..BATCH {
            let Some(leaf) = policy.promotions.pop() else {
                return Next::WhenWoken;
            };
            if tree.promote_node(&leaf) == Move::Full && self.demote_one(tree) {
                // If it does not fit even now, the freed memory is left for the next candidate.
                tree.promote_node(&leaf);
            }
        }
        Next::After(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use timberline_placement::Walk;
    use timberline_placement::fake::{Clockwork, FakeTree};

    const NOW: Duration = Duration::ZERO;

    fn touch(policy: &Random, tree: &FakeTree, leaf: usize) -> u32 {
        tree.with_leaf(leaf, |leaf| policy.on_access(leaf, Access::Reuse))
    }

    #[test]
    fn one_access_in_a_hundred_is_chosen() {
        assert_eq!(gap(0.0), 1);
        // 1 % of the gaps are 1: the very next access is chosen with the same probability as any.
        assert_eq!((gap(0.009_999), gap(0.010_001)), (1, 2));
        assert_eq!(gap(1.0 - 2f64.powi(-53)), 3656);
        let (policy, tree) = (Random::new(7), FakeTree::uniform(2, 3, 9));
        let gaps = (0..50_000).map(|_| u64::from(touch(&policy, &tree, 0)));
        let mean = gaps.sum::<u64>() as f64 / 50_000.0;
        // The deviation of the mean is 100 / √50,000.
        assert!((mean - 100.0).abs() < 4.0 * 0.45, "{mean}");
    }

    /// Nine leaves below three nodes; room for the root, two of the three, and three leaves.
    #[test]
    fn a_chosen_leaf_becomes_fast_with_its_path_and_another_leaves() {
        let (policy, tree) = (Random::new(7), FakeTree::uniform(3, 3, 6));
        let mut shuffler = policy.workers().remove(0);
        let promoted = |leaf: usize| {
            let path = [2, 1, 0].map(|height| NodeKey::of_word(leaf as u64 * 10, height));
            path.map(|node| (node, TierId::FAST)).to_vec()
        };
        touch(&policy, &tree, 4);
        assert!(policy.wake.take());
        assert_eq!(shuffler.step(&tree, NOW), Next::WhenWoken);
        assert_eq!(tree.moves(), promoted(4));

        // It is fast now: nothing is to be done.
        touch(&policy, &tree, 4);
        assert!(!policy.wake.take() && policy.promotions.is_empty());

        for leaf in [0, 1] {
            touch(&policy, &tree, leaf);
        }
        shuffler.step(&tree, NOW);
        assert_eq!(tree.moves()[..2], promoted(0)[1..]);
        assert_eq!(tree.fill(TierId::FAST).used, 6 * tree.node_bytes());

        // Full: one of 0, 1 and 4 has to go, and its parent, if it has no other.
        touch(&policy, &tree, 2);
        shuffler.step(&tree, NOW);
        let moves = tree.moves();
        let (victim, tier) = &moves[0];
        let of_three = [0, 1, 4].map(FakeTree::leaf);
        assert!(of_three.contains(victim) && !tier.is_fast(), "{moves:?}");
        assert_eq!(moves.last(), Some(&(FakeTree::leaf(2), TierId::FAST)));
        let parent_goes = usize::from(*victim == FakeTree::leaf(4));
        assert_eq!(moves.len(), 2 + parent_goes);
    }

    #[test]
    fn every_fast_leaf_is_as_likely_to_go() {
        let tree = FakeTree::uniform(2, 8, 9);
        let mut gone = [0; 8];
        for seed in 0..4_000 {
            tree.set_all(TierId::FAST);
            let policy = Random::new(seed);
            let mut shuffler = Shuffler {
                draws: Draws(seed),
                policy,
                victims: Vec::new(),
            };
            assert!(shuffler.demote_one(&tree));
            let leaf = (0..8).find(|&leaf| !tree.tier(&FakeTree::leaf(leaf)).is_fast());
            gone[leaf.unwrap()] += 1;
        }
        // 500 each; the deviation is 21.
        assert!(
            gone.iter().all(|count| (415..585).contains(count)),
            "{gone:?}"
        );
    }

    #[test]
    fn a_broken_boundary_is_mended_upwards_or_downwards() {
        for room in [7, 3] {
            let (policy, tree) = (Random::new(1), FakeTree::uniform(3, 2, room));
            for (key, height) in [(0, 2), (0, 0), (10, 0)] {
                tree.set_tier(&NodeKey::of_word(key, height), TierId::FAST);
            }
            policy.boundary_broken(NodeKey::of_word(0, 1), TierId::FAST);
            Clockwork::new(policy.workers()).run_for(&tree, NOW);
            assert!(tree.has_single_boundary());
            assert!(tree.fill(TierId::FAST).used <= room * tree.node_bytes());
        }
    }
}
