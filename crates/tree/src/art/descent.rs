//! The descent from the root to a key's leaf: as a [`Traversal`], one node a step, the leaf
//! included; or in one go.
//!
//! A step follows the protocol in [`timberline_sync::version`]: child's link from the parent's
//! validated read, child's snapshot, parent validated again. The root pointer is the topmost node's
//! parent; both are one step. A leaf needs no version of its own ([`Leaf`] tells why); packs and
//! dense leaves are read like inner nodes. Part of a prefix may be skipped without comparing it, so
//! the whole key is compared at the end.

use std::task::Poll;

use timberline_sync::Restart;
use timberline_sync::epoch::Pinned;
use timberline_sync::shim::pause;
use timberline_tier::Memory;
use timberline_tier::hint::{self, LINE};

use super::node::{
    DenseLeaf, Inner, InnerLink, Kind, Leaf, Link, PACK_BYTES, Pack, Position, Reach, Terminal,
    leaf_bytes, number, position, value_offset,
};
use super::tree::Tree;
use crate::traverse::Traversal;

/// The place of a key's record, present or not.
#[derive(Clone, Copy)]
pub enum Cursor<'t> {
    /// In this leaf.
    Leaf(Leaf<'t>),
    /// In this pack, with this value.
    InPack(Pack<'t>, u64),
    /// At this place of a dense leaf; the value if it is there.
    InDense(DenseLeaf<'t>, u8, Option<u64>),
}

/// An inner node without a child for the key's next byte: a leaf for the key belongs there.
pub struct Gap<'t, R> {
    pub inner: Inner<'t, R>,
    pub at: Position,
    /// Inner nodes above.
    pub level: u8,
}

/// The place of a key's record, or the gap where it belongs, unless finding that takes a second
/// descent.
pub type Found<'t, R> = Result<Cursor<'t>, Option<Gap<'t, R>>>;

/// The target of the root pointer.
enum Top<'t, R> {
    Inner(Inner<'t, R>),
    /// There is no inner node: the descent ends here.
    End(Option<Cursor<'t>>),
}

/// Searches the place of a key's record, one node a step. Other work runs between steps, so each
/// prefetches the next node.
pub(super) struct Descent<'t, B, M: Memory, R: Reach> {
    pub tree: &'t Tree<M, R>,
    pinned: Pinned<'t>,
    key: B,
    next: Next<'t, R>,
    restarts: u32,
}

/// The next step.
enum Next<'t, R> {
    Start,
    /// Enters an inner node below another; the key's first bytes, this many, lead there.
    Inner(Inner<'t, R>, InnerLink<'t>, usize),
    Leaf(Leaf<'t>),
    /// A pack or a dense leaf below a node.
    Shared(Inner<'t, R>, Terminal<'t>),
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach> Descent<'t, B, M, R> {
    #[inline(always)]
    pub fn new(tree: &'t Tree<M, R>, key: B, pinned: impl Into<Pinned<'t>>) -> Self {
        Descent {
            tree,
            pinned: pinned.into(),
            key,
            next: Next::Start,
            restarts: 0,
        }
    }

    #[inline(always)]
    fn advance(&mut self) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let Descent { tree, pinned, .. } = *self;
        // Loaded once: loads after an acquire load would be repeated.
        let (key, base) = (self.key.as_ref(), tree.base);
        let (node, depth) = match self.next {
            Next::Start => match tree.enter_root(key, pinned)? {
                Top::Inner(node) => (node, 0),
                Top::End(end) => return Ok(Poll::Ready(end)),
            },
            Next::Inner(parent, link, depth) => {
                let node = link.read(base)?;
                parent.validate()?;
                (node, depth)
            }
            Next::Leaf(leaf) => return Ok(Poll::Ready(tree.arrive(leaf, key))),
            Next::Shared(parent, shared) => {
                let end = tree.look_in(shared, key, || parent.validate())?;
                return Ok(Poll::Ready(end));
            }
        };
        tree.charge_node(node.link(), key, depth);
        let (child, below) = node.child_for(key, depth, &mut false)?;
        if child.is_none() {
            return Ok(Poll::Ready(None));
        }
        tree.prefetch(child, key, below);
        self.next = if let Some(leaf) = child.leaf(base) {
            Next::Leaf(leaf)
        } else if let Some(shared) = child.shared(base) {
            Next::Shared(node, shared)
        } else if let Some(child) = child.inner() {
            Next::Inner(node, child, below)
        } else {
            return Ok(Poll::Ready(None));
        };
        Ok(Poll::Pending)
    }
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach> Traversal for Descent<'t, B, M, R> {
    type Output = Option<Cursor<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Self::Output> {
        self.advance().unwrap_or_else(|Restart| {
            pause(self.restarts);
            self.restarts += 1;
            self.next = Next::Start;
            Poll::Pending
        })
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// The place of a key's record in one descent, where the CPU prefetches by itself. Callers
    /// retry out of line, so that the first attempt is no loop: in a loop, the compiler would
    /// compute what packs and dense leaves need of the key on the way to every leaf.
    #[inline(always)]
    pub fn find<'g>(&'g self, key: &[u8], pinned: Pinned<'g>) -> Result<Found<'g, R>, Restart> {
        let base = self.base;
        let mut node = match self.enter_root(key, pinned)? {
            Top::Inner(node) => node,
            Top::End(end) => return Ok(end.ok_or(None)),
        };
        let (mut depth, mut level, mut trusts) = (0, 0u8, false);
        loop {
            self.charge_node(node.link(), key, depth);
            let (child, below) = node.child_for(key, depth, &mut trusts)?;
            if child.is_none() {
                let gap = (below > 0 && !trusts).then(|| Gap {
                    inner: node,
                    at: position(key, below - 1),
                    level,
                });
                return Ok(Err(gap));
            }
            if let Some(leaf) = child.leaf(base) {
                return Ok(self.arrive(leaf, key).ok_or(None));
            }
            if let Some(shared) = child.shared(base) {
                let end = self.look_in(shared, key, || node.validate())?;
                return Ok(end.ok_or(None));
            }
            let Some(link) = child.inner() else {
                return Ok(Err(None));
            };
            let parent = node;
            node = link.read(base)?;
            parent.validate()?;
            depth = below;
            level = level.saturating_add(1);
        }
    }

    /// The topmost inner node, if there is one.
    #[inline(always)]
    pub fn top_inner<'g>(
        &'g self,
        pinned: impl Into<Pinned<'g>>,
    ) -> Result<Option<Inner<'g, R>>, Restart> {
        let (parent, link) = self.root.read::<R>(pinned.into())?;
        link.inner()
            .map(|link| self.enter(link, &parent))
            .transpose()
    }

    /// The same, or the end of the key's descent without one.
    #[inline(always)]
    fn enter_root<'g>(&'g self, key: &[u8], pinned: Pinned<'g>) -> Result<Top<'g, R>, Restart> {
        let (parent, link) = self.root.read::<R>(pinned)?;
        if link.is_none() {
            return Ok(Top::End(None));
        }
        if let Some(leaf) = link.leaf(self.base) {
            return Ok(Top::End(self.arrive(leaf, key)));
        }
        if let Some(shared) = link.shared(self.base) {
            let end = self.look_in(shared, key, || parent.validate())?;
            return Ok(Top::End(end));
        }
        let Some(link) = link.inner() else {
            return Ok(Top::End(None));
        };
        self.enter(link, &parent).map(Top::Inner)
    }

    /// The leaf, if it has this key.
    #[inline(always)]
    pub fn arrive<'g>(&self, leaf: Leaf<'g>, key: &[u8]) -> Option<Cursor<'g>> {
        self.memory()
            .charge_access(leaf.address(), leaf_bytes(key.len()));
        (leaf.key() == key).then_some(Cursor::Leaf(leaf))
    }

    /// Searches a pack or a dense leaf for a key's record, after `is_linked` has validated the
    /// link.
    #[inline(always)]
    pub fn look_in<'g>(
        &self,
        shared: Terminal<'g>,
        key: &[u8],
        is_linked: impl FnOnce() -> Result<(), Restart>,
    ) -> Result<Option<Cursor<'g>>, Restart> {
        match shared {
            Terminal::Leaf(leaf) => Ok(self.arrive(leaf, key)),
            Terminal::Pack(pack) => {
                let records = pack.read()?;
                is_linked()?;
                let value = records.get(|records| {
                    self.visit_pack(pack);
                    records.get(number(key))
                })?;
                Ok(value.map(|value| Cursor::InPack(pack, value)))
            }
            Terminal::DenseLeaf(dense) => {
                let records = dense.read()?;
                is_linked()?;
                let Some(at) = dense.place_of(key) else {
                    return Ok(None);
                };
                let value = records.get(|records| {
                    self.visit_dense(dense, at);
                    records.get(at)
                })?;
                Ok(Some(Cursor::InDense(dense, at, value)))
            }
        }
    }

    /// Prefetches the part of a node that a search for `key` reads; `depth` bytes of it lead there.
    #[inline(always)]
    pub fn prefetch(&self, link: Link<'_>, key: &[u8], depth: usize) {
        let address = link.address(self.base);
        if link.is_leaf() {
            return self.memory().prefetch(address, leaf_bytes(key.len()));
        }
        if link.is_pack() {
            return self.memory().prefetch(address, PACK_BYTES);
        }
        let byte = key.get(depth).copied().unwrap_or(0);
        if link.is_dense() {
            let value = value_offset(key.last().copied().unwrap_or(0));
            return self.prefetch_both(address, value);
        }
        let kind = link.kind();
        // Most inner nodes on most paths, so the branch is well predicted.
        if kind == Kind::N256
            && let (_, Some(more)) = Kind::N256.reads::<R>(byte)
        {
            return self.prefetch_both(address, more);
        }
        match kind.reads::<R>(byte) {
            (_, Some(more)) => self.prefetch_both(address, more),
            (all, None) => self.memory().prefetch(address, all),
        }
    }

    /// Prefetches the first line of a node and the line at an offset: one request of two lines.
    #[inline(always)]
    fn prefetch_both(&self, address: usize, more: usize) {
        hint::prefetch_lines(address, 1);
        hint::prefetch_lines(address + more, 1);
        self.memory()
            .charge_prefetch(address, 1 | 1 << (more / LINE));
    }
}
