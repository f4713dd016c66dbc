//! How a tree speaks to its placement.
//!
//! A tree asks its [`Placement`] where a new node goes, and reports accesses to leaves. A
//! placement's workers see the tree as [`Placed`](crate::Placed). Nodes are named by key
//! ([`NodeKey`]), never by address: before a worker moves a node, the node may be split, merged,
//! moved or freed, and its stale name then finds nothing.
//!
//! **Locks.** A tree calls [`Placement::leaf_split`], [`Placement::leaf_moved`] and
//! [`Placement::boundary_broken`] while it holds locks of nodes, and [`Placement::leaf_freed`] at
//! the begin or the end of an operation of any thread. So these must be brief and must not call the
//! tree. A placement must not call the tree while it holds a lock that one of them takes.
//!
//! **Panics.** A placement that panics ends the operation that called it, and nothing else: a tree
//! calls it before the first change of a structure modification or after the last, and releases its
//! locks. [`Placement::leaf_freed`] runs within the operation of any thread, so a panic there is
//! printed and then ignored.

use std::sync::atomic::AtomicU16;

use timberline_tier::TierId;

use crate::{Fence, NodeKey, View};

/// A node about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewNode {
    /// Steps above the leaves.
    pub height: u8,
    /// Steps below the root.
    pub level: u8,
    /// The tier of its parent; the fastest for a new root.
    pub parent: TierId,
    /// The tier of the node that it is split from; its parent's tier where there is none.
    pub split_from: TierId,
}

/// A leaf, as a placement sees it.
#[derive(Clone, Copy)]
pub struct LeafRef<'a> {
    /// Its address now.
    pub address: usize,
    /// Its tier.
    pub tier: TierId,
    /// Its lower fence (inclusive).
    pub fence: Fence<'a>,
    /// Two bytes in its header, for a placement that keeps heat there.
    pub heat: &'a AtomicU16,
}

/// The kind of an access to a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// An existing record was read, changed or removed.
    Reuse,
    /// A new record was inserted.
    Insert,
}

/// Decides which tier a node is in. One instance serves one tree.
pub trait Placement: Send + Sync {
    /// The tier for a new node. If that tier is full, the tree takes the next slower one.
    fn place(&self, node: NewNode) -> TierId;

    /// A sampled access to a leaf. Returns after how many accesses of this thread the next one is
    /// sampled: from 1 (every access) to [`MAX_SAMPLE_INTERVAL`].
    fn on_access(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        let _ = (leaf, access);
        MAX_SAMPLE_INTERVAL
    }

    /// `right` was split off from `left`; both are locked.
    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        let _ = (left, right);
    }

    /// A leaf was moved to a new address; both copies are locked.
    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        let _ = (from, to);
    }

    /// The memory of a retired leaf was reclaimed: no thread can see it.
    fn leaf_freed(&self, address: usize) {
        let _ = address;
    }

    /// A tier was full, so `node` was made in a slower one, above children in `fastest` (the
    /// fastest tier of any of them): a worker should restore the single boundary.
    fn boundary_broken(&self, node: NodeKey, fastest: TierId) {
        let _ = (node, fastest);
    }

    /// Whether it asks for the names of leaves that it knows by their addresses, or its workers do.
    /// Where not, a tree in one tier may keep none. The tree asks once.
    fn reads_names(&self) -> bool {
        true
    }

    /// The most pages that the tree's record cache may have, if fast memory holds `nodes` nodes. A
    /// page takes as much memory as a node. The tree asks when it is made, and when the limit of
    /// fast memory changes.
    fn record_pages(&self, nodes: usize) -> usize {
        let _ = nodes;
        0
    }

    /// A sampled access that the record cache served, from this page. Returns the same as
    /// [`on_access`](Self::on_access), with which it shares the countdown: a placement that counts
    /// accesses and has a record cache has to implement this, or it misses accesses to leaves.
    fn on_copy_access(&self, page: usize) -> u32 {
        let _ = page;
        MAX_SAMPLE_INTERVAL
    }

    /// Its current estimates, if it keeps heat. Cheap: never waits for a scan.
    fn view(&self) -> Option<View> {
        None
    }
}

/// The most accesses of a thread from one call of [`Placement::on_access`] to the next.
pub const MAX_SAMPLE_INTERVAL: u32 = 4096;
