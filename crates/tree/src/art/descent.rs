//! The descent from the root to a key's leaf as a [`Traversal`], one node a step, the leaf
//! included. It reads what [`find`](super::find) reads in one go, and prefetches it a step ahead if
//! other work runs in between.
//!
//! Below the single boundary all nodes are slow. So where a copy of the record will do, the first
//! slow node on the way is where the search for it belongs.

use std::marker::PhantomData;
use std::task::Poll;

use timberline_sync::Restart;
use timberline_sync::epoch::Pinned;
use timberline_sync::shim::pause;
use timberline_tier::Memory;
use timberline_tier::hint::{self, LINE};

use super::find::{Cursor, Top};
use super::node::{
    DENSE_DEPTH, DenseLeaf, Direct, Inner, InnerLink, Leaf, Link, PACK_BYTES, Reach, Terminal,
    leaf_bytes, value_offset,
};
use super::tree::Tree;
use crate::mode::Mode;
use crate::traverse::Traversal;

/// The outcome of a step.
pub(super) enum Met<'t> {
    /// A node on the way.
    Inner,
    /// The next node is slow, and was not prefetched: the record may have a copy. Where one will
    /// do, that is said once.
    Slow,
    End(Option<Cursor<'t>>),
}

/// Searches the place of a key's record, one node a step, as its [`Mode`] says.
pub(super) struct Descent<'t, B, M: Memory, R: Reach, D> {
    pub tree: &'t Tree<M, R>,
    pub pinned: Pinned<'t>,
    pub key: B,
    next: Next<'t, R>,
    /// Whether part of a prefix was not compared.
    trusts: bool,
    restarts: u32,
    /// Whether no slow node was met yet.
    is_fast: bool,
    /// The slow node that was met, and the key's first bytes, this many, that lead to it.
    slow: Option<(Link<'t>, usize)>,
    mode: PhantomData<D>,
}

/// The next step.
enum Next<'t, R> {
    Start,
    /// Reads a node's entry; the key's first bytes, this many, lead there.
    Direct(Direct<'t>, usize),
    /// Enters an inner node below another; the key's first bytes, this many, lead there.
    Inner(Inner<'t, R>, InnerLink<'t>, usize),
    Leaf(Leaf<'t>),
    /// Reads a value of a dense leaf that has all its records.
    Full(DenseLeaf<'t>, u8),
    /// A pack or a dense leaf, below a node that was read at a version or without one.
    Shared(Option<Inner<'t, R>>, Terminal<'t>),
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, D: Mode> Descent<'t, B, M, R, D> {
    #[inline(always)]
    pub fn new(tree: &'t Tree<M, R>, key: B, pinned: impl Into<Pinned<'t>>) -> Self {
        Descent {
            tree,
            pinned: pinned.into(),
            key,
            next: Next::Start,
            trusts: false,
            restarts: 0,
            is_fast: true,
            slow: None,
            mode: PhantomData,
        }
    }

    /// Restarts from the root, as a node on the path has changed.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        self.trusts = false;
        self.next = Next::Start;
    }

    /// Takes one step.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<Met<'t>, Restart> {
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
                    Top::End(end) => return Ok(Met::End(end.ok())),
                }
            }
            Next::Direct(direct, depth) => return self.advance_directly(direct, depth),
            Next::Inner(parent, link, depth) => {
                let node = link.read(base)?;
                parent.validate()?;
                (node, depth)
            }
            Next::Leaf(leaf) => return Ok(Met::End(tree.arrive(leaf, key))),
            Next::Full(dense, at) => {
                let value = tree.read_full(dense, at);
                return Ok(Met::End(Some(Cursor::InDense(dense, at, value))));
            }
            Next::Shared(parent, shared) => {
                let is_linked = || parent.map_or(Ok(()), |parent| parent.validate());
                let end = tree.look_in(shared, key, is_linked)?;
                return Ok(Met::End(end.ok()));
            }
        };
        self.advance_from(node, depth)
    }

    /// Reads an inner node's child.
    #[inline(always)]
    fn advance_from(&mut self, node: Inner<'t, R>, depth: usize) -> Result<Met<'t>, Restart> {
        let (tree, key) = (self.tree, self.key.as_ref());
        tree.charge_node(node.link(), key, depth);
        let (child, below, trusts) = node.child_for(key, depth)?;
        self.trusts |= trusts;
        Ok(self.go_to(child, below, Some(node)))
    }

    /// Reads the entry of a node without its version.
    #[inline(always)]
    fn advance_directly(&mut self, direct: Direct<'t>, depth: usize) -> Result<Met<'t>, Restart> {
        let (tree, key) = (self.tree, self.key.as_ref());
        if let Some(&byte) = key.get(depth) {
            tree.charge_direct(direct, byte);
            let child = direct.child(tree.base, byte);
            if !child.needs_versions() {
                return Ok(self.go_to(child, depth + 1, None));
            }
        }
        let node = tree.enter_direct(direct)?;
        self.advance_from(node, depth)
    }

    /// Goes to a child.
    #[inline(always)]
    fn go_to(&mut self, child: Link<'t>, depth: usize, parent: Option<Inner<'t, R>>) -> Met<'t> {
        let base = self.tree.base;
        let is_full = parent.is_none() && depth == DENSE_DEPTH && child.is_full();
        let full = match is_full && !self.trusts {
            true => child.dense(base).zip(self.key.as_ref().get(DENSE_DEPTH)),
            false => None,
        };
        self.next = if let Some((dense, &at)) = full {
            Next::Full(dense, at)
        } else if let Some(direct) = child.direct() {
            Next::Direct(direct, depth)
        } else if let Some(leaf) = child.leaf(base) {
            Next::Leaf(leaf)
        } else if let Some(shared) = child.shared(base) {
            Next::Shared(parent, shared)
        } else if let (Some(child), Some(parent)) = (child.inner(), parent) {
            Next::Inner(parent, child, depth)
        } else {
            return Met::End(None);
        };
        if D::OR_COPY && self.is_fast && self.tree.copies.may_be_of(child.address(base)) {
            self.is_fast = false;
            self.slow = Some((child, depth));
            return Met::Slow;
        }
        if D::LATER {
            self.tree.prefetch(child, self.key.as_ref(), depth);
        }
        Met::Inner
    }

    /// Prefetches the slow node that was met, after all.
    #[inline(always)]
    pub fn prefetch_slow(&self) {
        if D::LATER
            && let Some((link, depth)) = self.slow
        {
            self.tree.prefetch(link, self.key.as_ref(), depth);
        }
    }
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, D: Mode> Traversal for Descent<'t, B, M, R, D> {
    type Output = Option<Cursor<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Self::Output> {
        match self.advance() {
            Ok(Met::End(end)) => return Poll::Ready(end),
            Ok(Met::Inner | Met::Slow) => {}
            Err(Restart) => self.start_over(),
        }
        Poll::Pending
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

    /// The same in plain memory, without a branch between the two nodes that most keys end at.
    #[inline(always)]
    pub fn prefetch_plainly(&self, link: Link<'_>, key: &[u8], depth: usize) {
        if key.len() > size_of::<u64>() || !link.is_record() {
            return self.prefetch(link, key, depth);
        }
        for address in link.record_lines(self.base) {
            hint::prefetch_lines(address, 1);
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
