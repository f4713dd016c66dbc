//! The way from the root to a key's leaf, as a [`Traversal`]: one node a step, the leaf included;
//! or all at once, where nothing is to come in between.
//!
//! A step goes as the protocol in [`timberline_sync::version`] says: child's link from the parent's
//! validated read, child's snapshot, parent validated again. The root cell is the topmost node's
//! parent, and done in one step with it. A leaf needs no version of its own ([`Leaf`] tells why);
//! packs and dense leaves are read like inner nodes. Part of a prefix may be taken on trust on the
//! way, so the key is compared as a whole where it ends.

use std::task::Poll;

use timberline_sync::epoch::Pinned;
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;
use timberline_tier::hint::{self, LINE};

use super::node::{
    Body, DenseLeaf, Leaf, Link, PACK_BYTES, Pack, Position, Reach, leaf_bytes, number, position,
    value_offset,
};
use super::tree::{Inner, Root, Tree};
use crate::traverse::Traversal;

/// Where a key's record is, or would be.
#[derive(Clone, Copy)]
pub enum Cursor<'t> {
    /// In this leaf.
    Leaf(Leaf<'t>),
    /// In this pack, with this value.
    InPack(Pack<'t>, u64),
    /// At this place of a dense leaf; the value if it is there.
    InDense(DenseLeaf<'t>, u8, Option<u64>),
}

/// An inner node on a key's way without a child at its next byte: a leaf for the key hangs there.
pub struct Gap<'t, R> {
    pub inner: Inner<'t, R>,
    pub at: Position,
    /// Inner nodes above.
    pub level: u8,
}

/// The place of a key's record; if there is none, the gap where it belongs, unless that needs a
/// closer look.
pub type Found<'t, R> = Result<Cursor<'t>, Option<Gap<'t, R>>>;

/// What the root leads to.
enum Top<'t, R> {
    Inner(Snapshot<'t, Body<R>>, Link),
    /// There is no inner node: the way ends here.
    End(Option<Cursor<'t>>),
}

/// Looks for the place of a key's record, one node a step: other work comes in between, so the
/// memory is asked for the next node.
pub(super) struct Descent<'t, B, M: Memory, R: Reach> {
    pub tree: &'t Tree<M, R>,
    pinned: Pinned<'t>,
    key: B,
    next: Next<'t, R>,
    restarts: u32,
}

/// What the next step does.
enum Next<'t, R> {
    Start,
    /// Enters an inner node, to which a key leads with this many bytes.
    Inner(Snapshot<'t, Body<R>>, Link, usize),
    Leaf(Link),
    /// A pack or a dense leaf below a node.
    Shared(Snapshot<'t, Body<R>>, Link),
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
        // Read once: whatever is behind an acquiring load would be read again after it.
        let (key, base) = (self.key.as_ref(), tree.base);
        let (node, link, depth) = match self.next {
            Next::Start => match tree.enter_root(key, pinned)? {
                Top::Inner(node, link) => (node, link, 0),
                Top::End(end) => return Ok(Poll::Ready(end)),
            },
            Next::Inner(parent, link, depth) => {
                let node = link.node::<R>(base, pinned).read()?;
                parent.validate()?;
                (node, link, depth)
            }
            Next::Leaf(link) => return Ok(Poll::Ready(tree.arrive(link, key, pinned))),
            Next::Shared(parent, link) => {
                let end = tree.look_in(link, key, pinned, || parent.validate())?;
                return Ok(Poll::Ready(end));
            }
        };
        let (child, below) = node.get(|body| {
            tree.charge_node(link, key, depth);
            body.child_for(link.kind(), key, depth, &mut false)
        })?;
        if child.is_none() {
            return Ok(Poll::Ready(None));
        }
        tree.prefetch(child, key, below);
        self.next = if child.is_leaf() {
            Next::Leaf(child)
        } else if child.is_shared() {
            Next::Shared(node, child)
        } else {
            Next::Inner(node, child, below)
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
    /// The place of a key's record: the way there in one go, where the CPU asks for the next node
    /// by itself. Callers try again out of line, so that the first attempt is no loop: in one, what
    /// packs and dense leaves need of the key would be worked out on the way to any leaf.
    #[inline(always)]
    pub fn find<'g>(&'g self, key: &[u8], pinned: Pinned<'g>) -> Result<Found<'g, R>, Restart> {
        let base = self.base;
        let (mut node, mut link) = match self.enter_root(key, pinned)? {
            Top::Inner(node, link) => (node, link),
            Top::End(end) => return Ok(end.ok_or(None)),
        };
        let (mut depth, mut level, mut trusts) = (0, 0u8, false);
        loop {
            let kind = link.kind();
            // Said of the closure, too, or it would be a function of all callers.
            let (child, below) = node.get(
                #[inline(always)]
                |body| {
                    self.charge_node(link, key, depth);
                    body.child_for(kind, key, depth, &mut trusts)
                },
            )?;
            if child.is_none() {
                let gap = (below > 0 && !trusts).then(|| Gap {
                    inner: Inner { link, node },
                    at: position(key, below - 1),
                    level,
                });
                return Ok(Err(gap));
            }
            if child.is_leaf() {
                return Ok(self.arrive(child, key, pinned).ok_or(None));
            }
            if child.is_shared() {
                let end = self.look_in(child, key, pinned, || node.validate())?;
                return Ok(end.ok_or(None));
            }
            let parent = node;
            node = child.node::<R>(base, pinned).read()?;
            parent.validate()?;
            (link, depth) = (child, below);
            level = level.saturating_add(1);
        }
    }

    /// The topmost inner node, if there is one.
    #[inline(always)]
    fn enter_root<'g>(&'g self, key: &[u8], pinned: Pinned<'g>) -> Result<Top<'g, R>, Restart> {
        let root = self.root.read()?;
        let link = root.get(Root::link)?;
        if link.is_none() {
            return Ok(Top::End(None));
        }
        if link.is_leaf() {
            return Ok(Top::End(self.arrive(link, key, pinned)));
        }
        if link.is_shared() {
            let end = self.look_in(link, key, pinned, || root.validate())?;
            return Ok(Top::End(end));
        }
        let node = link.node::<R>(self.base, pinned).read()?;
        root.validate()?;
        Ok(Top::Inner(node, link))
    }

    /// The leaf, if it is the key's.
    #[inline(always)]
    fn arrive<'g>(&'g self, link: Link, key: &[u8], pinned: Pinned<'g>) -> Option<Cursor<'g>> {
        let leaf = self.leaf_at(link, pinned);
        self.memory()
            .charge_access(leaf.address(), leaf_bytes(key.len()));
        (leaf.key() == key).then_some(Cursor::Leaf(leaf))
    }

    /// Looks for a key's record in a pack or a dense leaf, once `is_linked` says that what led
    /// there is as it was.
    #[inline(always)]
    fn look_in<'g>(
        &'g self,
        link: Link,
        key: &[u8],
        pinned: Pinned<'g>,
        is_linked: impl FnOnce() -> Result<(), Restart>,
    ) -> Result<Option<Cursor<'g>>, Restart> {
        if link.is_pack() {
            let pack = self.pack_at(link, pinned);
            let records = pack.read()?;
            is_linked()?;
            let value = records.get(|records| {
                self.visit_pack(pack);
                records.get(number(key))
            })?;
            return Ok(value.map(|value| Cursor::InPack(pack, value)));
        }
        let dense = self.dense_at(link, pinned);
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

    /// Asks the memory for what a search for `key`, which leads here with `depth` bytes, reads of a
    /// node.
    #[inline(always)]
    fn prefetch(&self, link: Link, key: &[u8], depth: usize) {
        let address = link.address(self.base);
        if link.is_leaf() {
            return self.memory().prefetch(address, leaf_bytes(key.len()));
        }
        let byte = key.get(depth).copied().unwrap_or(0);
        if link.is_pack() {
            return self.memory().prefetch(address, PACK_BYTES);
        }
        if link.is_dense() {
            let value = value_offset(key.last().copied().unwrap_or(0));
            return self.prefetch_both(address, value);
        }
        match link.kind().reads::<R>(byte) {
            (_, Some(more)) => self.prefetch_both(address, more),
            (all, None) => self.memory().prefetch(address, all),
        }
    }

    /// Asks for the first line of a node, and that of what is at a distance: one request of two
    /// lines.
    #[inline(always)]
    fn prefetch_both(&self, address: usize, more: usize) {
        hint::prefetch_lines(address, 1);
        hint::prefetch_lines(address + more, 1);
        self.memory()
            .charge_prefetch(address, 1 | 1 << (more / LINE));
    }
}
