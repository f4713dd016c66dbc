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
/// A round goes on so many times where leaves of the tier lie side by side and their paths are
/// whole: these cost a tenth of the others.
const TURNS: usize = 8;
/// A walk begins after a round in which the queue dropped nothing: what would break behind it takes
/// another walk. It waits for so many rounds at most.
const PATIENCE: u32 = 256;

/// The walk, if one is under way.
#[derive(Default)]
pub struct Search {
    /// The first leaf not visited yet.
    hand: Option<KeyBytes>,
    /// Whether the queue dropped a node that the walk under way may have passed.
    is_due: bool,
    /// Rounds since it was due.
    waited: u32,
}

impl Search {
    /// Whether a walk is under way, or due.
    pub fn is_active(&self) -> bool {
        self.hand.is_some() || self.is_due
    }

    /// A round: begins a walk if `queue` has dropped a node, and mends what it finds. Paths of
    /// which nothing else is known take no room from others: where the tier is full, what is below
    /// them goes to the next one.
    pub fn step(&mut self, queue: &NodeQueue, tier: TierId, tree: &dyn Placed) {
        self.begin(queue.take_dropped());
        if self.hand.is_none() {
            return;
        }
        let broken = NodeQueue::default();
        for _ in 0..TURNS {
            let Some(from) = self.hand.take() else { break };
            let (in_tier, next) = leaves_in(tree, tier, &from);
            self.hand = next;
            let are_dense = in_tier.len() == HELD;
            let parents = parents_of_lost(tree, tier, &from, in_tier);
            let are_whole = parents.is_empty();
            for parent in parents {
                broken.push(parent);
                boundary::mend(&broken, tier, tree, || false);
            }
            if !(are_dense && are_whole) {
                break;
            }
        }
        // All tiers were full.
        for parent in broken.take() {
            queue.push(parent);
        }
        tree.reclaim();
    }

    /// Begins a walk if one is due and none is under way.
    fn begin(&mut self, dropped: bool) {
        self.is_due |= dropped;
        if self.hand.is_some() || !self.is_due {
            return;
        }
        self.waited += 1;
        if !dropped || self.waited > PATIENCE {
            self.hand = Some(KeyBytes::default());
            (self.is_due, self.waited) = (false, 0);
        }
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
    use crate::fake::{FakeRecords, FakeTree};
    use crate::{AllFast, Relocate};
    use std::sync::Arc;

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

    /// A walk after a round in which a node was dropped, and one in which none was.
    fn walk(tree: &dyn Placed) -> Search {
        let (queue, mut search) = (NodeQueue::within(0), Search::default());
        queue.push(FakeTree::leaf(0));
        search.step(&queue, FAST, tree);
        assert!(search.is_active(), "it is due");
        search.step(&queue, FAST, tree);
        search
    }

    #[test]
    fn a_dropped_path_is_mended_and_its_leaf_stays() {
        let (tree, lost) = with_broken(64);
        let (queue, mut search) = (NodeQueue::default(), Search::default());
        search.step(&queue, FAST, &tree);
        assert!(!tree.has_single_boundary(), "nothing was dropped");
        search = walk(&tree);
        assert!(tree.has_single_boundary() && !search.is_active());
        assert!(tree.tier(&FakeTree::leaf(lost)).is_fast());
        assert_eq!(tree.moves().len(), 1);
    }

    #[test]
    fn where_the_tier_is_full_what_is_below_a_dropped_path_leaves() {
        let (tree, lost) = with_broken(6);
        walk(&tree);
        assert!(tree.has_single_boundary());
        let is_fast = |leaf| tree.tier(&FakeTree::leaf(leaf)).is_fast();
        assert_eq!([2, lost].map(is_fast), [true, false]);
    }

    #[test]
    fn a_walk_waits_until_the_queue_drops_nothing_but_not_for_ever() {
        let (tree, _) = with_broken(64);
        let (queue, mut search) = (NodeQueue::within(0), Search::default());
        for _ in 0..PATIENCE {
            queue.push(FakeTree::leaf(0));
            search.step(&queue, FAST, &tree);
            assert!(!tree.has_single_boundary());
        }
        queue.push(FakeTree::leaf(0));
        search.step(&queue, FAST, &tree);
        assert!(tree.has_single_boundary() && !search.is_active());
    }

    #[test]
    fn leaves_side_by_side_with_whole_paths_are_passed_in_one_round() {
        let leaves = (TURNS - 1) * HELD;
        let span = FakeRecords::addresses(leaves).next_multiple_of(2 << 20);
        let room = FakeRecords::bytes(leaves);
        let tree = FakeRecords::new(leaves, room, Arc::new(AllFast), [0..span, span..2 * span]);
        for leaf in 0..leaves {
            tree.promote_path(FakeRecords::leaf(leaf));
        }
        assert!(!walk(&tree).is_active());
    }
}
