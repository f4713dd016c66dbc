//! What placements' workers see of a tree and do to it: one trait for each use. All of it may run
//! beside any operation.

use std::ops::ControlFlow;

use timberline_tier::{CompactionCandidates, TierId};

use crate::{KeyBytes, LeafRef, NodeKey};

/// How full a tier is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// In nodes.
    pub used: usize,
    /// The tier's limit.
    pub limit: usize,
}

impl Fill {
    /// `used / limit`; 1 for a tier with a limit of 0.
    pub fn ratio(self) -> f64 {
        if self.limit == 0 {
            1.0
        } else {
            self.used as f64 / self.limit as f64
        }
    }
}

/// The outcome of a request to move a node, or a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// This many nodes moved.
    Moved(usize),
    /// All of it was in the target tier.
    AlreadyThere,
    /// The node no longer exists.
    Stale,
    /// A child is in a faster tier than the target: the demotion would break the single boundary.
    Blocked,
    /// The target tier is full; nodes that moved before stay there.
    Full,
}

/// The shape of a tree, and its leaves.
pub trait Walk: Send + Sync {
    /// Levels of the tree, leaves included; at least 1. Where paths differ in length, those of the
    /// longest.
    fn levels(&self) -> u8;

    /// The steps from the root to a node: 0 for the root.
    fn level_of(&self, node: &NodeKey) -> u8;

    /// Bytes of a node; where sizes differ, of a leaf on average.
    fn node_bytes(&self) -> usize;

    /// Bytes of this node.
    fn bytes_of(&self, node: &NodeKey) -> usize {
        let _ = node;
        self.node_bytes()
    }

    /// How full a tier is.
    fn fill(&self, tier: TierId) -> Fill;

    /// Visits the leaves whose fence is `from` or greater, in key order. A leaf that splits or
    /// moves meanwhile is seen once or twice.
    fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>);

    /// Visits the leaves of a tier whose fence is `from` or greater, in key order. The walk enters
    /// nodes of this tier and faster ones only: where no node is in a faster tier than its parent
    /// it finds every such leaf, at no cost for those of slower tiers. It leaves out leaves with
    /// something below them that is no slower, such as layers of a Masstree, as these cannot be
    /// demoted.
    fn each_leaf_in(
        &self,
        tier: TierId,
        from: &[u8],
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    );

    /// Visits the leaves of a tier whose fence is `from` or greater, in key order, below nodes of
    /// any tier, until it has passed about `most` leaves, of other tiers too. Returns where to go
    /// on; `None` at the end, and where `visit` breaks. A tree whose links tell the tier of a leaf
    /// reads none of another tier.
    fn each_leaf_of(
        &self,
        tier: TierId,
        from: &[u8],
        most: usize,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) -> Option<KeyBytes> {
        let (mut next, mut passed) = (None, 0);
        self.each_leaf(from, &mut |leaf| {
            if passed == most {
                next = Some(leaf.fence.to_bytes());
                return ControlFlow::Break(());
            }
            passed += 1;
            match leaf.tier == tier {
                true => visit(leaf),
                false => ControlFlow::Continue(()),
            }
        });
        next
    }

    /// [`Self::each_leaf_in`] for the fast tier.
    fn each_fast_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        self.each_leaf_in(TierId::FAST, from, visit);
    }

    /// A fast inner node, other than the root, without fast inner nodes below it; `draw` chooses
    /// among several. `None` where the walk found none.
    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey>;

    /// The parent of a node, named by the parent's lower fence; `None` for the root and above.
    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey>;

    /// The lower fence of the leaf that seems to be at `address`: a hint, which may be stale.
    /// `None` where no live leaf seems to be; a slot that was never used may look like a leaf at 0.
    /// `address` must be that of a slot of this tree.
    fn fence_at(&self, address: usize) -> Option<KeyBytes>;
}

/// Promotion and demotion of nodes. Down every path, tiers get slower or stay the same: no move
/// breaks that.
pub trait Relocate {
    /// How many tiers there are; at least 1.
    fn tiers(&self) -> u8;

    /// Moves one node and its ancestors to this tier, ancestors first. Those that are there or in a
    /// faster tier stay where they are.
    fn promote_to(&self, node: &NodeKey, to: TierId) -> Move;

    /// Moves one node and its slow ancestors to the fast tier, however slow the tier it is in.
    fn promote_node(&self, node: &NodeKey) -> Move {
        self.promote_to(node, TierId::FAST)
    }

    /// Moves a leaf and its slow ancestors to the fast tier, like [`Self::promote_node`].
    fn promote_path(&self, leaf: KeyBytes) -> Move {
        self.promote_node(&NodeKey::leaf(leaf))
    }

    /// Moves one node to this tier, unless it is there or in a slower one, or a child of it is in a
    /// faster one. A tier beyond the slowest means the slowest.
    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move;

    /// Moves one node out of this tier, or a faster one, to the next slower tier that has room,
    /// unless a child of it is faster than that.
    fn demote_out_of(&self, tier: TierId, node: &NodeKey) -> Move {
        let next = tier.0 + 1;
        let mut outcome = Move::AlreadyThere;
        for tier in next..self.tiers() {
            outcome = match self.demote_to(node, TierId(tier)) {
                // A child is in the tier that is full.
                Move::Blocked if tier > next => Move::Full,
                outcome => outcome,
            };
            if outcome != Move::Full {
                break;
            }
        }
        outcome
    }

    /// [`Self::demote_out_of`] the fast tier.
    fn demote(&self, node: &NodeKey) -> Move {
        self.demote_out_of(TierId::FAST, node)
    }

    /// Moves all nodes below `node` that are in faster tiers than this to it, then `node` itself.
    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move;

    /// Demotes all fast nodes below `node`, then `node` itself, to the next slower tier; where that
    /// is full, nodes in it or in faster tiers move to the tier after it.
    fn demote_subtree(&self, node: &NodeKey) -> Move {
        let mut outcome = Move::AlreadyThere;
        for tier in 1..self.tiers() {
            outcome = self.demote_subtree_to(node, TierId(tier));
            if outcome != Move::Full {
                break;
            }
        }
        outcome
    }

    /// Reclaims the memory of moved nodes that no thread can see any more. The calling thread must
    /// not be within a visit: it would wait for itself.
    fn reclaim(&self);
}

/// Compaction of tiers, for trees whose nodes have several sizes.
pub trait Compaction {
    /// Compaction candidates: chunks of a tier with few nodes, which would fit elsewhere. Such
    /// chunks withhold memory from nodes of other sizes.
    fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        let _ = tier;
        CompactionCandidates::NONE
    }

    /// Moves the children of an inner node out of these chunks, to other places in their tier, with
    /// a leaf of that tier what lies beside it there. `None` stands for what is above the root.
    /// Returns how many nodes moved. Adds the children to `inner` that may have children, and are
    /// in the tier `slowest` or a faster one.
    fn relocate_below(
        &self,
        node: Option<&NodeKey>,
        slowest: TierId,
        away_from: &CompactionCandidates,
        inner: &mut Vec<NodeKey>,
    ) -> usize {
        let _ = (node, slowest, away_from, inner);
        0
    }
}

/// The record cache: pages of copies of hot records whose leaves are slow. Pages are numbered from
/// 0, and the last one is added and dropped next. Each takes as much memory as a fast leaf.
/// Once a page has warmed up, it is about as hot as any other. A dropped page loses only copies.
pub trait RecordCache {
    /// How many pages there are, and how many there may be.
    fn record_pages(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Adds a page. `false` where fast memory is full, or if there are as many as there may be.
    fn add_record_page(&self) -> bool {
        false
    }

    /// Drops the last page, if there is one.
    fn drop_record_page(&self) -> bool {
        false
    }

    /// The placement tells anew how many pages there may be, since fast memory has another limit.
    /// Drops all of them if that makes a great difference.
    fn refit_record_pages(&self) {}
}

/// All that a tree offers to a placement's workers.
pub trait Placed: Walk + Relocate + Compaction + RecordCache {}

impl<T: Walk + Relocate + Compaction + RecordCache> Placed for T {}
