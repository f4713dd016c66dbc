//! The descent from the root to a key's leaf as a [`Traversal`], one node a step, the leaf
//! included. It reads what [`find`](super::find) reads in one go, and prefetches it a step ahead.

use std::task::Poll;

use timberline_sync::Restart;
use timberline_sync::epoch::Pinned;
use timberline_sync::shim::pause;
use timberline_tier::Memory;
use timberline_tier::hint::{self, LINE};

use super::find::{Cursor, Top};
use super::node::{
    Direct, Inner, InnerLink, Leaf, Link, PACK_BYTES, Reach, Terminal, leaf_bytes, value_offset,
};
use super::tree::Tree;
use crate::traverse::Traversal;

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
    /// Reads a node's entry; the key's first bytes, this many, lead there.
    Direct(Direct<'t>, usize),
    /// Enters an inner node below another; the key's first bytes, this many, lead there.
    Inner(Inner<'t, R>, InnerLink<'t>, usize),
    Leaf(Leaf<'t>),
    /// A pack or a dense leaf, below a node that was read at a version or without one.
    Shared(Option<Inner<'t, R>>, Terminal<'t>),
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
            Next::Start => {
                let (parent, link) = tree.root.read::<R>(pinned)?;
                if let Some(direct) = link.direct() {
                    return self.advance_directly(direct, 0);
                }
                match tree.enter_top(link, key, parent)? {
                    Top::Inner(node) => (node, 0),
                    Top::End(end) => return Ok(Poll::Ready(end.ok())),
                }
            }
            Next::Direct(direct, depth) => return self.advance_directly(direct, depth),
            Next::Inner(parent, link, depth) => {
                let node = link.read(base)?;
                parent.validate()?;
                (node, depth)
            }
            Next::Leaf(leaf) => return Ok(Poll::Ready(tree.arrive(leaf, key))),
            Next::Shared(parent, shared) => {
                let is_linked = || parent.map_or(Ok(()), |parent| parent.validate());
                let end = tree.look_in(shared, key, is_linked)?;
                return Ok(Poll::Ready(end.ok()));
            }
        };
        self.advance_from(node, depth)
    }

    /// Reads an inner node's child.
    #[inline(always)]
    fn advance_from(
        &mut self,
        node: Inner<'t, R>,
        depth: usize,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let (tree, key) = (self.tree, self.key.as_ref());
        tree.charge_node(node.link(), key, depth);
        let (child, below, _) = node.child_for(key, depth)?;
        tree.prefetch(child, key, below);
        Ok(self.go_to(child, below, Some(node)))
    }

    /// Reads the entry of a node without its version.
    #[inline(always)]
    fn advance_directly(
        &mut self,
        direct: Direct<'t>,
        depth: usize,
    ) -> Result<Poll<Option<Cursor<'t>>>, Restart> {
        let (tree, key) = (self.tree, self.key.as_ref());
        if let Some(&byte) = key.get(depth) {
            tree.charge_direct(direct, byte);
            let child = direct.child(tree.base, byte);
            if !child.needs_versions() {
                tree.prefetch(child, key, depth + 1);
                return Ok(self.go_to(child, depth + 1, None));
            }
        }
        let node = tree.enter_direct(direct)?;
        self.advance_from(node, depth)
    }

    /// Goes to a child, which was prefetched.
    #[inline(always)]
    fn go_to(
        &mut self,
        child: Link<'t>,
        depth: usize,
        parent: Option<Inner<'t, R>>,
    ) -> Poll<Option<Cursor<'t>>> {
        let base = self.tree.base;
        self.next = if let Some(direct) = child.direct() {
            Next::Direct(direct, depth)
        } else if let Some(leaf) = child.leaf(base) {
            Next::Leaf(leaf)
        } else if let Some(shared) = child.shared(base) {
            Next::Shared(parent, shared)
        } else if let (Some(child), Some(parent)) = (child.inner(), parent) {
            Next::Inner(parent, child, depth)
        } else {
            return Poll::Ready(None);
        };
        Poll::Pending
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
    /// Prefetches the part of a node that a search for `key` reads; `depth` bytes of it lead there.
    #[inline(always)]
    pub fn prefetch(&self, link: Link<'_>, key: &[u8], depth: usize) {
        let byte = key.get(depth).copied().unwrap_or(0);
        if let Some(direct) = link.direct() {
            let entry = direct.entry(self.base, byte);
            return self.memory().prefetch(entry, size_of::<R>());
        }
        if link.is_none() {
            return;
        }
        let address = link.address(self.base);
        if link.is_leaf() {
            return self.memory().prefetch(address, leaf_bytes(key.len()));
        }
        if link.is_pack() {
            return self.memory().prefetch(address, PACK_BYTES);
        }
        if link.is_dense() {
            let value = value_offset(key.last().copied().unwrap_or(0));
            return self.prefetch_both(address, value);
        }
        let kind = link.kind();
        match kind.reads::<R>(byte) {
            (_, Some(more)) => self.prefetch_both(address, more),
            (all, None) => self.memory().prefetch(address, all),
        }
    }

    /// The same in plain memory. For words there is no branch between the two nodes that most keys
    /// end at; for other keys, most nodes on the way are small.
    #[inline(always)]
    pub fn prefetch_plainly(&self, link: Link<'_>, key: &[u8], depth: usize) {
        if key.len() <= size_of::<u64>() && link.is_record() {
            for address in link.record_lines(self.base) {
                hint::prefetch_lines(address, 1);
            }
        } else if link.is_small() {
            let (address, lines) = link.small_lines(self.base);
            hint::prefetch_lines(address, lines);
        } else {
            self.prefetch(link, key, depth);
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
