//! The search for broken paths that the queue dropped.
//!
//! While a map grows and a tier is full, tens of thousands of inner nodes can come to lie in slower
//! memory than their children within one round of the worker. The queue holds a few thousand. Below
//! the others are leaves that no walk over the faster tier finds: they are never demoted, and no
//! compaction empties their chunks. So once the queue has dropped a node, a walk over all leaves
//! finds those whose path is broken, some in each round.

use std::ops::ControlFlow;

use timberline_tier::TierId;

use crate::boundary;
use crate::queue::NodeQueue;
use crate::{KeyBytes, NodeKey, Placed};

/// The most leaves passed in a round: some milliseconds, as only those of the tier are read.
const STRIDE: usize = 131_072;
/// The most leaves of the tier among them: their names take heap.
const HELD: usize = 4096;

/// The walk, if one is under way.
#[derive(Default)]
pub struct Search {
    /// The first leaf not visited yet.
    hand: Option<KeyBytes>,
}

impl Search {
    /// Whether a walk is under way.
    pub fn is_active(&self) -> bool {
        self.hand.is_some()
    }

    /// A round: begins a walk if `queue` has dropped a node, and mends what it finds. Paths of
    /// which nothing else is known take no room from others: where the tier is full, what is below
    /// them goes to the next one.
    pub fn step(&mut self, queue: &NodeQueue, tier: TierId, tree: &dyn Placed) {
        if self.hand.is_none() && queue.take_dropped() {
            self.hand = Some(KeyBytes::default());
        }
        let Some(from) = self.hand.take() else { return };
        let (in_tier, next) = leaves_in(tree, tier, &from);
        self.hand = next;
        let broken = NodeQueue::default();
        for parent in parents_of_lost(tree, tier, &from, in_tier) {
            broken.push(parent);
            boundary::mend(&broken, tier, tree, || false);
        }
        // All tiers were full.
        for parent in broken.take() {
            queue.push(parent);
        }
        tree.reclaim();
    }
}

/// The leaves of a tier among the next ones from `from` on, and where the others begin.
fn leaves_in(tree: &dyn Placed, tier: TierId, from: &[u8]) -> (Vec<KeyBytes>, Option<KeyBytes>) {
    let (mut in_tier, mut next) = (Vec::new(), None);
    let passed = tree.each_leaf_of(tier, from, STRIDE, &mut |leaf| {
        if in_tier.len() == HELD {
            next = Some(leaf.fence.to_bytes());
            return ControlFlow::Break(());
        }
        in_tier.push(leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    (in_tier, next.or(passed))
}

/// The parents of those leaves that a walk from `from` on that does not enter slower nodes leaves
/// out, each once. (It also leaves out leaves above others of the tier, whose parents are in
/// order.)
fn parents_of_lost(
    tree: &dyn Placed,
    tier: TierId,
    from: &[u8],
    in_tier: Vec<KeyBytes>,
) -> Vec<NodeKey> {
    let mut rest = in_tier.into_iter().peekable();
    let mut lost = Vec::new();
    tree.each_leaf_in(tier, from, &mut |leaf| {
        let found = leaf.fence.to_bytes();
        lost.extend(std::iter::from_fn(|| rest.next_if(|it| *it < found)));
        rest.next_if_eq(&found);
        match rest.peek() {
            Some(_) => ControlFlow::Continue(()),
            None => ControlFlow::Break(()),
        }
    });
    lost.extend(rest);
    let parents = lost.into_iter().map(NodeKey::leaf);
    let mut parents: Vec<NodeKey> = parents.filter_map(|it| tree.parent_of(&it)).collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeTree;

    const FAST: TierId = TierId::FAST;

    /// A tree of 64 leaves and 21 inner nodes, with room for so many fast nodes, where a node above
    /// the leaves is slow between a fast path and a fast leaf, and another path is whole.
    fn with_broken(room: usize) -> (FakeTree, usize) {
        let (tree, lost) = (FakeTree::uniform(4, 4, room), 41);
        for leaf in [2, lost] {
            for height in 0..4 {
                let is_slow = leaf == lost && height == 1;
                let tier = if is_slow { TierId::SLOW } else { FAST };
                let word = FakeTree::leaf(leaf).key.word();
                tree.set_tier(&NodeKey::of_word(word, height), tier);
            }
        }
        (tree, lost)
    }

    fn dropping() -> NodeQueue {
        let queue = NodeQueue::within(0);
        queue.push(FakeTree::leaf(0));
        queue
    }

    #[test]
    fn a_dropped_path_is_mended_and_its_leaf_stays() {
        let (tree, lost) = with_broken(64);
        let (queue, mut search) = (NodeQueue::default(), Search::default());
        search.step(&queue, FAST, &tree);
        assert!(!tree.has_single_boundary(), "nothing was dropped");
        search.step(&dropping(), FAST, &tree);
        assert!(tree.has_single_boundary() && !search.is_active());
        assert!(tree.tier(&FakeTree::leaf(lost)).is_fast());
        assert_eq!(tree.moves().len(), 1);
    }

    #[test]
    fn where_the_tier_is_full_what_is_below_a_dropped_path_leaves() {
        let (tree, lost) = with_broken(6);
        Search::default().step(&dropping(), FAST, &tree);
        assert!(tree.has_single_boundary());
        let is_fast = |leaf| tree.tier(&FakeTree::leaf(leaf)).is_fast();
        assert_eq!([2, lost].map(is_fast), [true, false]);
    }
}
