//! The two traits through which trees and placements meet.
//!
//! A tree asks its [`Placement`] where a new node goes and tells it which leaf was touched.
//! A placement's workers see the tree only as something [`Placed`]: leaves with heat, and nodes
//! that move when told. Nodes are named by key ([`NodeKey`]), never by address: between naming
//! and moving, a node may be split, merged, moved or freed, and a stale name then finds nothing.
//!
//! **Locks.** A tree calls [`Placement::leaf_split`], [`Placement::leaf_moved`] and
//! [`Placement::boundary_broken`] while it holds nodes' locks, and [`Placement::leaf_freed`] from within any
//! operation of any thread, at its begin or end. So these must be brief and call nothing of [`Placed`]; and a
//! placement must hold none of the locks they take while it pins or calls [`Placed`].
//!
//! **Panics.** A placement that panics ends the operation that called it, and no more: a tree calls it before the first change of a
//! structure modification or after the last, and unlocks what it has locked. [`Placement::leaf_freed`] is called in anybody's
//! operation, so a panic there is printed, and forgotten.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU16;

use timberline_tier::{CompactionCandidates, TierId};

use crate::{Fence, KeyBytes, NodeKey, View};

/// A node about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewNode {
    /// Steps above the leaves.
    pub height: u8,
    /// Steps below the root.
    pub level: u8,
    /// The tier of its parent; the fastest for a new root.
    pub parent: TierId,
    /// The tier of the node it is split off from; its parent's where there is none.
    pub twin: TierId,
}

/// A leaf, as seen by whoever keeps its heat.
#[derive(Clone, Copy)]
pub struct LeafRef<'a> {
    /// Where it lies now.
    pub address: usize,
    /// Its tier.
    pub tier: TierId,
    /// Its lower fence (inclusive).
    pub fence: Fence<'a>,
    /// Two bytes in its header, for placements that keep heat there.
    pub heat: &'a AtomicU16,
}

/// What was done to a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Something that was there was read, changed or removed.
    Reuse,
    /// A record was changed, and its copy in the page of this number with it. Whoever read it just before by its copy saved nothing: the
    /// change needs the leaf all the same.
    Rewrite {
        /// As in [`Placement::copy_touched`].
        page: usize,
    },
    /// A new record came.
    Insert,
}

/// Decides which tier a node is in. One instance serves one tree.
pub trait Placement: Send + Sync {
    /// The tier for a new node. If that tier is full the tree takes the next slower one.
    fn place(&self, node: NewNode) -> TierId;

    /// A sampled access to a leaf. Returns how many accesses of this thread to let pass until the next
    /// call, at least 1 (every access is reported) and at most [`SELDOM`].
    fn touched(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        let _ = (leaf, access);
        SELDOM
    }

    /// `right` was split off from `left`; both are locked.
    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        let _ = (left, right);
    }

    /// A leaf's content went to a new address; both are locked.
    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        let _ = (from, to);
    }

    /// The memory of a former leaf is free again; no thread sees it any more.
    fn leaf_freed(&self, address: usize) {
        let _ = address;
    }

    /// For want of fast memory `node` was made slow above fast children: a worker should restore
    /// the single boundary.
    fn boundary_broken(&self, node: NodeKey) {
        let _ = node;
    }

    /// How many pages of copies of hot records the tree may have, if it makes any, where fast memory has room for so many nodes. A page takes
    /// the room of one. Asked once.
    fn record_pages(&self, nodes: usize) -> usize {
        let _ = nodes;
        0
    }

    /// A sampled access that found a copy of a record, in the page of this number. Returns the same as [`touched`](Self::touched).
    fn copy_touched(&self, page: usize) -> u32 {
        let _ = page;
        SELDOM
    }

    /// What it believes now, if it keeps heat. Cheap; never waits for a scan.
    fn view(&self) -> Option<View> {
        None
    }
}

/// The longest run of accesses between two calls of [`Placement::touched`].
pub const SELDOM: u32 = 4096;

/// How full a tier is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// In nodes.
    pub used: usize,
    /// The tier's limit.
    pub limit: usize,
}

impl Fill {
    /// `used / limit`; 1 for a tier without room.
    pub fn ratio(self) -> f64 {
        if self.limit == 0 {
            1.0
        } else {
            self.used as f64 / self.limit as f64
        }
    }
}

/// What became of a request to move a node (or a path).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// This many nodes moved.
    Moved(usize),
    /// It was there already.
    There,
    /// No such node any more.
    Stale,
    /// Moving it would break the single boundary: a fast child (demotion).
    Blocked,
    /// The target tier is full; what moved before stays moved.
    Full,
}

/// What a tree lets a placement's workers see and do. All of it may run beside any operation.
pub trait Placed: Send + Sync {
    /// Levels of the tree, leaves included; at least 1. Where paths differ in length, those of the longest.
    fn levels(&self) -> u8;

    /// The steps from the root to a node: 0 for the root.
    fn level_of(&self, node: &NodeKey) -> u8;

    /// Bytes of a node; of a leaf, on average, where they differ.
    fn node_bytes(&self) -> usize;

    /// Bytes of this node.
    fn bytes_of(&self, node: &NodeKey) -> usize {
        let _ = node;
        self.node_bytes()
    }

    /// How full a tier is.
    fn fill(&self, tier: TierId) -> Fill;

    /// Frees the memory of nodes that moved or emptied, as far as no thread can see them any more. The calling thread must not be
    /// within a visit, or it holds back what it waits for.
    fn reclaim(&self);

    /// Visits all leaves in key order. A leaf that splits or moves meanwhile is seen once or twice.
    fn each_leaf(&self, visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>);

    /// Visits the fast leaves whose fence is `from` or greater, in key order, through fast nodes only: where the single boundary holds, it
    /// meets all of them, and costs nothing for slow ones. A leaf with something fast below it, as layers of Masstree are, is left
    /// out: it could not be demoted.
    fn each_fast_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>);

    /// A fast inner node without fast inner nodes below it, other than the root: one of many, chosen by `draw`. `None` where the walk
    /// found none.
    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey>;

    /// Moves the slow nodes on the path to a leaf to the fast tier, ancestors first, so that the
    /// single boundary holds at every moment.
    fn promote_path(&self, leaf: KeyBytes) -> Move {
        self.promote_node(&NodeKey::leaf(leaf))
    }

    /// Moves one node and its slow ancestors to the fast tier, ancestors first.
    fn promote_node(&self, node: &NodeKey) -> Move;

    /// Moves one node to the slow tier, unless a child of it is fast.
    fn demote(&self, node: &NodeKey) -> Move;

    /// Places in fast memory that hold back room from nodes of other sizes, if nodes have several: what lies in them would fit elsewhere.
    fn compaction_candidates(&self) -> CompactionCandidates {
        CompactionCandidates::NONE
    }

    /// Moves the nodes on the path to a fast leaf, itself included, that lie in such places elsewhere in fast memory. Returns how many
    /// moved.
    fn relocate_path(&self, leaf: &KeyBytes, away_from: &CompactionCandidates) -> usize {
        let _ = (leaf, away_from);
        0
    }

    /// How many pages of copies of hot records there are, and how many there may be. They are numbered from 0 on; the last one comes and goes
    /// next. Each takes the room of a fast leaf, and once it has learned what is hot, each is about as hot as any other. It comes from
    /// nowhere, and what is in it is lost when it goes, which does no harm.
    fn record_pages(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Makes one more. `false` where fast memory has no room, or if there are as many as there may be.
    fn add_record_page(&self) -> bool {
        false
    }

    /// Gives one back, if there is one.
    fn drop_record_page(&self) -> bool {
        false
    }

    /// Demotes all fast nodes below `node`, then `node` itself.
    fn demote_subtree(&self, node: &NodeKey) -> Move;

    /// The parent of a node, named by the parent's lower fence; `None` for the root and above.
    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey>;

    /// The lower fence of the leaf that seems to lie at `address`: a hint, which may be stale.
    /// `None` where no live leaf seems to lie; a slot that was never used may look like a leaf at 0. `address` must be that of a slot of this tree.
    fn fence_at(&self, address: usize) -> Option<KeyBytes>;
}
