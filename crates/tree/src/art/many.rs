//! Looking up many keys at once, so that their cache misses overlap.
//!
//! In plain memory, keys are looked up in groups (group prefetching: Chen, Ailamaki, Gibbons,
//! Mowry, ICDE 2004): one step of all of them, then the next, until each has found its record. A
//! step reads one node, the first one two, and prefetches the key's next one. All start from one
//! snapshot of the root. If a writer interferes, the key is looked up alone.
//!
//! In emulated memory, or if the value is not in the leaf or records have copies, each [`Lookup`]
//! takes a step whenever its prefetch has arrived.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::get::Lookup;
use super::node::{Direct, Inner, Link, Reach};
use super::tree::Tree;
use crate::mode::ValueLater;
use crate::traverse::MAX_DEPTH;
use crate::value::{Loan, Represent, fetch_each};

/// A key and the state of its lookup.
struct Asked<'t, B, R> {
    key: B,
    /// The node last read, if it was read at a version.
    parent: Option<Inner<'t, R>>,
    /// The link below, whose target was prefetched; none once the lookup has ended.
    child: Link<'t>,
    /// The number of key bytes that lead there.
    depth: usize,
}

impl<'t, B: AsRef<[u8]>, R: Reach> Asked<'t, B, R> {
    /// Starts above a root.
    #[inline(always)]
    fn new(key: B, root: Inner<'t, R>) -> Self {
        Asked {
            key,
            parent: None,
            child: *root.link(),
            depth: 0,
        }
    }

    /// Reads a node, and prefetches the key's next one.
    #[inline(always)]
    fn read<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        node: Inner<'t, R>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let key = self.key.as_ref();
        let (child, depth, _) = node.child_for(key, self.depth)?;
        if child.is_none() {
            return Ok(Poll::Ready(None));
        }
        tree.prefetch_plainly(child, key, depth);
        (self.parent, self.child, self.depth) = (Some(node), child, depth);
        Ok(Poll::Pending)
    }

    /// Reads an entry of a node without its version, if what it leads to can be read so.
    #[inline(always)]
    fn read_directly<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        direct: Direct<'t>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let key = self.key.as_ref();
        if let Some(&byte) = key.get(self.depth) {
            let child = direct.child(tree.base, byte);
            if child.is_none() {
                return Ok(Poll::Ready(None));
            }
            if !child.needs_versions() {
                self.depth += 1;
                tree.prefetch_plainly(child, key, self.depth);
                (self.parent, self.child) = (None, child);
                return Ok(Poll::Pending);
            }
        }
        let node = tree.enter_direct(direct)?;
        self.read(tree, node)
    }

    /// Reads the first node, and of those below it the next, too, which are in the caches: an entry
    /// of each of at most 256 nodes.
    #[inline(always)]
    fn start<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        root: Inner<'t, R>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let Some(top) = self.child.direct() else {
            return self.read(tree, root);
        };
        if let Some(&byte) = self.key.as_ref().first()
            && let Some(below) = top.child(tree.base, byte).direct()
        {
            self.depth = 1;
            return self.read_directly(tree, below);
        }
        self.read_directly(tree, top)
    }

    /// Reads the node that was prefetched.
    #[inline(always)]
    fn step<M: Memory>(
        &mut self,
        tree: &'t Tree<M, R>,
        guard: &'t Guard<'t>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let (parent, child, key) = (self.parent, self.child, self.key.as_ref());
        let validate = || parent.map_or(Ok(()), |parent| parent.validate());
        if let Some(direct) = child.direct() {
            return self.read_directly(tree, direct);
        }
        if let Some(link) = child.inner() {
            let node = link.read(tree.base)?;
            validate()?;
            return self.read(tree, node);
        }
        let cursor = match child.leaf(tree.base) {
            Some(leaf) => tree.arrive(leaf, key),
            None => {
                let shared = child.shared(tree.base).ok_or(Restart)?;
                tree.look_in(shared, key, validate)?.ok()
            }
        };
        Ok(Poll::Ready(
            cursor.and_then(|cursor| tree.read(cursor, guard)),
        ))
    }

    /// Whether the lookup has ended: then `found` gets the value.
    #[inline(always)]
    fn settle<M: Memory>(
        &mut self,
        tree: &'t Tree<M, R>,
        guard: &'t Guard<'t>,
        met: Result<Poll<Option<Loan<'t>>>, Restart>,
        found: impl FnOnce(Option<Loan<'t>>),
    ) -> bool {
        let value = match met {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(value)) => value,
            Err(Restart) => tree.get_patiently(self.key.as_ref(), guard),
        };
        self.child = Link::NONE;
        found(value);
        true
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Calls `found` with each key's position and value, `depth` lookups at a time, while the
    /// thread is pinned.
    pub fn get_each<H: Represent, B: AsRef<[u8]>>(
        &self,
        mut keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let guard = &self.store.pin();
        if M::CHARGES || H::IN_BLOCKS || self.copies.are_there() {
            let lookup = |key| Lookup::<_, _, _, ValueLater, _>::new(self, key, guard, guard);
            let lookups = keys.map(lookup);
            return fetch_each::<H, _>(self.memory(), depth, lookups, found);
        }
        let depth = depth.clamp(1, MAX_DEPTH);
        let mut group = SmallVec::<[_; MAX_DEPTH]>::new();
        let mut first = 0;
        loop {
            let Ok(Some(root)) = self.top_inner(self.store.pinned(guard)) else {
                // There is one node at most, or a writer has locked the root.
                let Some(key) = keys.next() else { return };
                found(first, self.get_patiently(key.as_ref(), guard));
                first += 1;
                continue;
            };
            for (at, key) in (first..).zip(keys.by_ref().take(depth)) {
                let mut asked = Asked::new(key, root);
                let met = asked.start(self, root);
                asked.settle(self, guard, met, |value| found(at, value));
                group.push(asked);
            }
            if group.is_empty() {
                return;
            }
            let mut is_over = false;
            while !is_over {
                is_over = true;
                for (at, asked) in (first..).zip(&mut group) {
                    if !asked.child.is_none() {
                        let met = asked.step(self, guard);
                        is_over &= asked.settle(self, guard, met, |value| found(at, value));
                    }
                }
            }
            first += group.len();
            group.clear();
        }
    }
}
