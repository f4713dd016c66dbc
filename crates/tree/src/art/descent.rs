//! The way from the root to a key's leaf, as a [`Traversal`]: one node a step, the leaf included;
//! or all in one step, where nothing is to come in between.
//!
//! A step goes as the protocol in [`timberline_sync::version`] says: child's link from the parent's
//! validated read, child's snapshot, parent validated again. The root cell is the topmost node's
//! parent, and done in one step with it. A leaf needs no version of its own ([`Leaf`] tells why);
//! packs and rows are read like inner nodes. Part of a prefix may be taken on trust on the way, so
//! the key is compared as a whole where it ends.

use std::task::Poll;

use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;
use timberline_tier::hint::{self, LINE};

use super::node::{
    Body, Leaf, Link, PACK_BYTES, Pack, Reach, Row, leaf_bytes, number, value_offset,
};
use super::tree::{Root, Tree};
use crate::traverse::{Traversal, run};

/// The next node follows at once: the CPU asks for all that it needs of it by itself.
pub(super) const AT_ONCE: bool = false;
/// Other work comes first: the memory is asked for the next node.
pub(super) const LATER: bool = true;

/// Where a key's record is, or would be.
#[derive(Clone, Copy)]
pub enum Cursor<'t> {
    /// In this leaf.
    Leaf(Leaf<'t>),
    /// In this pack, with this value.
    InPack(Pack<'t>, u64),
    /// At this place of a row; the value if it is there.
    InRow(Row<'t>, u8, Option<u64>),
}

/// Looks for the place of a key's record. `WHEN` the next step comes is [`AT_ONCE`] or [`LATER`].
pub(super) struct Descent<'t, B, M: Memory, R: Reach, const WHEN: bool> {
    pub tree: &'t Tree<M, R>,
    pinned: Pinned<'t>,
    key: B,
    next: Next<'t, R>,
    restarts: u32,
}

/// What the next step does.
enum Next<'t, R> {
    Start,
    /// Enters an inner node, to which a key leads with so many bytes.
    Inner(Snapshot<'t, Body<R>>, Link, usize),
    Leaf(Link),
    /// A pack or a row below a node.
    Shared(Snapshot<'t, Body<R>>, Link),
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, const WHEN: bool> Descent<'t, B, M, R, WHEN> {
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
        // Read once: whatever is behind an acquiring load would be read again after it.
        let (key, base) = (self.key.as_ref(), self.tree.base);
        let (mut node, mut link, mut depth) = match self.next {
            Next::Start => {
                let root = self.tree.root.read()?;
                let link = root.get(Root::link)?;
                if link.is_none() {
                    return Ok(Poll::Ready(None));
                }
                if link.is_leaf() {
                    return Ok(Poll::Ready(self.arrive(link)));
                }
                if link.is_shared() {
                    return self.look_in(link, || root.validate());
                }
                let node = link.node::<R>(base, self.pinned).read()?;
                root.validate()?;
                (node, link, 0)
            }
            Next::Inner(parent, link, depth) => {
                let node = link.node::<R>(base, self.pinned).read()?;
                parent.validate()?;
                (node, link, depth)
            }
            Next::Leaf(link) => return Ok(Poll::Ready(self.arrive(link))),
            Next::Shared(parent, link) => return self.look_in(link, || parent.validate()),
        };
        loop {
            let kind = link.kind();
            let (child, below) = node.get(|body| {
                self.tree.charge_node(link, key, depth);
                body.child_for(kind, key, depth)
            })?;
            if child.is_none() {
                return Ok(Poll::Ready(None));
            }
            if WHEN == LATER {
                self.tree.prefetch(child, key, below);
                self.next = if child.is_leaf() {
                    Next::Leaf(child)
                } else if child.is_shared() {
                    Next::Shared(node, child)
                } else {
                    Next::Inner(node, child, below)
                };
                return Ok(Poll::Pending);
            }
            if child.is_leaf() {
                return Ok(Poll::Ready(self.arrive(child)));
            }
            if child.is_shared() {
                return self.look_in(child, || node.validate());
            }
            let parent = node;
            node = child.node::<R>(base, self.pinned).read()?;
            parent.validate()?;
            (link, depth) = (child, below);
        }
    }

    /// The leaf at the end of the way, if it is the key's.
    #[inline(always)]
    fn arrive(&self, link: Link) -> Option<Cursor<'t>> {
        let (leaf, key) = (self.tree.leaf_at(link, self.pinned), self.key.as_ref());
        self.tree
            .memory()
            .charge_access(leaf.address(), leaf_bytes(key.len()));
        (leaf.key() == key).then_some(Cursor::Leaf(leaf))
    }

    /// The place in the pack or row at the end of the way. `is_linked` is whether that is still
    /// where the link was.
    #[inline(always)]
    fn look_in(
        &self,
        link: Link,
        is_linked: impl FnOnce() -> Result<(), Restart>,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let (tree, key) = (self.tree, self.key.as_ref());
        if link.is_pack() {
            let pack = tree.pack_at(link, self.pinned);
            let records = pack.read()?;
            is_linked()?;
            let value = records.get(|records| {
                tree.visit_pack(pack);
                records.get(number(key))
            })?;
            return Ok(Poll::Ready(value.map(|value| Cursor::InPack(pack, value))));
        }
        let row = tree.row_at(link, self.pinned);
        let records = row.read()?;
        is_linked()?;
        let Some(at) = row.place_of(key) else {
            return Ok(Poll::Ready(None));
        };
        let value = records.get(|records| {
            tree.visit_row(row, at);
            records.get(at)
        })?;
        Ok(Poll::Ready(Some(Cursor::InRow(row, at, value))))
    }
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, const WHEN: bool> Traversal
    for Descent<'t, B, M, R, WHEN>
{
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
    /// The record of a key, or its place in a row; `None` if there is neither.
    #[inline(always)]
    pub fn find<'g>(&'g self, key: impl AsRef<[u8]>, guard: &'g Guard<'g>) -> Option<Cursor<'g>> {
        run(Descent::<_, _, _, AT_ONCE>::new(self, key, guard))
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
        if link.is_row() {
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
