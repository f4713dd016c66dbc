//! Looking up many keys, so that the waits for their nodes overlap.
//!
//! On this machine's memory, keys are looked up in groups (group prefetching: Chen, Ailamaki,
//! Gibbons, Mowry, ICDE 2004): the first step of all of them, then the second, and so on. The nodes
//! above the lowest inner ones are in the caches, so they make one step. A leaf makes three: its
//! header tells how many keys there are, and so where the key's lines are, and the key tells where
//! its value is. That is four lines of a leaf where [`get`](super::get), which does not wait for
//! one to ask for the next, asks for eight: with many keys in flight, memory delivers lines at a
//! rate, and takes no longer for the last step than for the first.
//!
//! Where the memory is emulated, or the value is not in the leaf, each [`Lookup`] takes as many
//! steps as it has to wait.

use smallvec::SmallVec;
use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, hint};

use super::descent::{Descent, Met};
use super::get::Lookup;
use super::node::{Body, HEADER, Hit, Lanes, LeafView, Link, Root, Share, View, WINDOW, Work};
use super::payload::Values;
use super::tree::{Tree, address};
use crate::mode::LeafAtOnce;
use crate::traverse::MAX_DEPTH;
use crate::value::{Loan, Represent, fetch_each};

/// Looks up many keys.
struct Each<'t, M: Memory, const WORDS: usize, H: Represent, K, F> {
    tree: &'t Tree<M, WORDS, Values<H>>,
    keys: K,
    depth: usize,
    found: F,
}

impl<M, const WORDS: usize, H, K, F> Work for Each<'_, M, WORDS, H, K, F>
where
    M: Memory,
    H: Represent,
    K: Iterator<Item = u64>,
    F: FnMut(usize, Option<Loan<'_>>),
{
    type Output = ();

    #[inline(always)]
    fn run(mut self, lanes: impl Lanes) {
        let tree = self.tree;
        let guard = &tree.store.pin();
        let one_by_one = M::CHARGES || H::IN_BLOCKS || !Body::<WORDS>::GUESSED;
        if one_by_one || tree.has_copies() {
            let look_up = |key| Lookup::new(tree, key, guard, guard, lanes);
            return fetch_each::<H, _>(
                tree.memory(),
                self.depth,
                self.keys.map(look_up),
                self.found,
            );
        }
        let height = tree.root.read().and_then(|root| root.get(Root::height));
        if height.is_ok_and(|height| height < 2) {
            // All of it is in the caches.
            let values = self.keys.map(|key| tree.get_under(key, guard));
            return values
                .enumerate()
                .for_each(|(at, value)| (self.found)(at, value));
        }
        let depth = self.depth.clamp(1, MAX_DEPTH);
        let mut group = SmallVec::<[_; MAX_DEPTH]>::new();
        let mut first = 0;
        loop {
            for key in self.keys.by_ref().take(depth) {
                group.push(Asked::new(tree, lanes, key, guard));
            }
            if group.is_empty() {
                return;
            }
            for asked in &mut group {
                asked.way = asked.find_leaf(tree, lanes).ok();
            }
            for asked in &mut group {
                asked.leaf = asked.find_window().ok();
            }
            for asked in &mut group {
                asked.leaf = asked.find_record(tree, lanes).ok();
            }
            for (at, asked) in (first..).zip(&group) {
                let value = asked.value(tree, guard);
                (self.found)(at, value.unwrap_or_else(|Restart| asked.alone(tree, guard)));
            }
            first += group.len();
            group.clear();
        }
    }
}

/// A node and its child, which was asked for.
type Way<'t, const WORDS: usize> = (Snapshot<'t, Body<WORDS>>, Link<'t, WORDS>);

/// A key, and how far its lookup has come. What is `None` was changed by a writer meanwhile.
struct Asked<'t, const WORDS: usize> {
    key: u64,
    way: Option<Way<'t, WORDS>>,
    /// The key's part of the leaf's range.
    share: Share,
    leaf: Option<LeafView<'t, WORDS>>,
    /// The first key of the leaf's window that was asked for.
    window: usize,
    /// The record's index in the leaf, whose value was asked for.
    record: Option<usize>,
}

impl<'t, const WORDS: usize> Asked<'t, WORDS> {
    /// Asks for the lowest inner node.
    #[inline(always)]
    fn new<M: Memory, H: Represent>(
        tree: &'t Tree<M, WORDS, Values<H>>,
        lanes: impl Lanes,
        key: u64,
        guard: &'t Guard<'t>,
    ) -> Self {
        let mut descent = Descent::<_, _, _, LeafAtOnce, _>::new(tree, key, guard, lanes);
        let way = loop {
            match (descent.advance(), descent.below) {
                (Ok(Met::Inner), Some((parent, inner))) if inner.height() == 1 => {
                    tree.prefetch(inner.address());
                    break Some((parent, inner));
                }
                (Ok(Met::Inner), _) => {}
                _ => break None,
            }
        };
        Asked {
            key,
            way,
            share: Share::NONE,
            leaf: None,
            window: 0,
            record: None,
        }
    }

    /// Goes on to the child.
    #[inline(always)]
    fn enter(&self) -> Result<View<'t, WORDS>, Restart> {
        let (parent, child) = self.way.ok_or(Restart)?;
        let node = child.try_read()?;
        parent.validate()?;
        Ok(node)
    }

    /// Asks for the leaf's header.
    #[inline(always)]
    fn find_leaf<M: Memory, H: Represent>(
        &mut self,
        tree: &'t Tree<M, WORDS, Values<H>>,
        lanes: impl Lanes,
    ) -> Result<Way<'t, WORDS>, Restart> {
        let inner = self.enter()?;
        let (leaf, (lower, upper)) = inner.child_for(lanes, self.key, |body, index| {
            tree.charge_child(body, index);
            body.range_of(index)
        })?;
        hint::prefetch_lines(leaf.address(), 1);
        self.share = Share::of(self.key, lower, upper);
        Ok((*inner, leaf))
    }

    /// Asks for the lines of the leaf where the key should be.
    #[inline(always)]
    fn find_window(&mut self) -> Result<LeafView<'t, WORDS>, Restart> {
        let leaf = self.enter()?.leaf().ok_or(Restart)?;
        self.window = leaf.get(|body| body.window_of(self.share))?;
        let keys = address(leaf.of()) + HEADER + 8 * self.window;
        hint::prefetch_lines(keys, 8 * WINDOW / hint::LINE);
        Ok(leaf)
    }

    /// Asks for the key's value.
    #[inline(always)]
    fn find_record<M: Memory, H: Represent>(
        &mut self,
        tree: &'t Tree<M, WORDS, Values<H>>,
        lanes: impl Lanes,
    ) -> Result<LeafView<'t, WORDS>, Restart> {
        let leaf = self.leaf.ok_or(Restart)?;
        self.record = leaf.get(|body| {
            let found = tree.seek_from(lanes, body, self.key, self.window);
            found.ok().map(Hit::index)
        })?;
        if let Some(index) = self.record {
            hint::prefetch_lines(address(leaf.of()) + Body::<WORDS>::payload_offset(index), 1);
        }
        Ok(leaf)
    }

    #[inline(always)]
    fn value<M: Memory, H: Represent>(
        &self,
        tree: &Tree<M, WORDS, Values<H>>,
        guard: &Guard,
    ) -> Result<Option<Loan<'t>>, Restart> {
        let leaf = self.leaf.ok_or(Restart)?;
        let value = self.record.map(|index| leaf.value(index)).transpose()?;
        tree.note(*leaf, Access::Reuse, guard);
        Ok(value)
    }

    #[cold]
    #[inline(never)]
    fn alone<M: Memory, H: Represent>(
        &self,
        tree: &'t Tree<M, WORDS, Values<H>>,
        guard: &'t Guard<'t>,
    ) -> Option<Loan<'t>> {
        tree.get_under(self.key, guard)
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
    pub fn get_each(
        &self,
        keys: impl Iterator<Item = u64>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        self.search.run(Each {
            tree: self,
            keys,
            depth,
            found,
        });
    }
}
