//! Looking up many keys, so that the waits for their nodes overlap.
//!
//! On this machine's memory, keys are looked up in groups (group prefetching: Chen, Ailamaki,
//! Gibbons, Mowry, ICDE 2004): a step of all of them, then the next, until each has met its record.
//! A step reads one node, and prefetches what the key's next one reads. All begin at one snapshot
//! of the root. A key that a writer gets in the way of is looked up alone.
//!
//! Where the memory is emulated, or the value is not in the leaf, each [`Lookup`] takes as many
//! steps as it has to wait.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::get::Lookup;
use super::node::{Inner, Link, Reach};
use super::tree::Tree;
use crate::traverse::MAX_DEPTH;
use crate::value::{Loan, Represent, fetch_each};

/// A key, and how far its lookup has come.
struct Asked<'t, B, R> {
    key: B,
    /// The node last read.
    parent: Inner<'t, R>,
    /// What is below, which was prefetched; none once the lookup is over.
    child: Link<'t>,
    /// Bytes of the key that lead there.
    depth: usize,
}

impl<'t, B: AsRef<[u8]>, R: Reach> Asked<'t, B, R> {
    /// Begins below a root.
    #[inline(always)]
    fn new(key: B, root: Inner<'t, R>) -> Self {
        Asked {
            key,
            parent: root,
            child: Link::NONE,
            depth: 0,
        }
    }

    /// Reads a node, and asks for the key's next one.
    #[inline(always)]
    fn read<M: Memory>(
        &mut self,
        tree: &Tree<M, R>,
        node: Inner<'t, R>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let key = self.key.as_ref();
        let (child, depth) = node.child_for(key, self.depth, &mut false)?;
        if child.is_none() {
            return Ok(Poll::Ready(None));
        }
        tree.prefetch(child, key, depth);
        (self.parent, self.child, self.depth) = (node, child, depth);
        Ok(Poll::Pending)
    }

    /// Reads what was asked for.
    #[inline(always)]
    fn step<M: Memory>(
        &mut self,
        tree: &'t Tree<M, R>,
        guard: &'t Guard<'t>,
    ) -> Result<Poll<Option<Loan<'t>>>, Restart> {
        let (parent, child, key) = (self.parent, self.child, self.key.as_ref());
        if let Some(link) = child.inner() {
            let node = link.read(tree.base)?;
            parent.validate()?;
            return self.read(tree, node);
        }
        let cursor = match child.leaf(tree.base) {
            Some(leaf) => tree.arrive(leaf, key),
            None => {
                let shared = child.shared(tree.base).ok_or(Restart)?;
                tree.look_in(shared, key, || parent.validate())?
            }
        };
        Ok(Poll::Ready(
            cursor.and_then(|cursor| tree.read(cursor, guard)),
        ))
    }

    /// Whether the lookup is over: if so, tells `found` the value.
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
    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
    pub fn get_each<H: Represent, B: AsRef<[u8]>>(
        &self,
        mut keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let guard = &self.store.pin();
        if M::CHARGES || H::IN_BLOCKS {
            let lookups = keys.map(|key| Lookup::new(self, key, guard, guard));
            return fetch_each::<H, _>(self.memory(), depth, lookups, found);
        }
        let depth = depth.clamp(1, MAX_DEPTH);
        let mut group = SmallVec::<[_; MAX_DEPTH]>::new();
        let mut first = 0;
        loop {
            let Ok(Some(root)) = self.top_inner(self.store.pinned(guard)) else {
                // There is one node at most, or a writer is at it.
                let Some(key) = keys.next() else { return };
                found(first, self.get_patiently(key.as_ref(), guard));
                first += 1;
                continue;
            };
            for (at, key) in (first..).zip(keys.by_ref().take(depth)) {
                let mut asked = Asked::new(key, root);
                let met = asked.read(self, root);
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
