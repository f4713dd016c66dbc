//! Sorted input: where a record's path ends at no link, all records of the input that belong there
//! become a subtree, which is linked as a whole. So most of them are not searched for, nothing is
//! locked for them, and inner nodes have their final size from the start.
//!
//! A subtree is built from left to right. Of the nodes on the way to the last record, those that
//! may get more children are open: they exist as the list of what is below them. When a record
//! parts from the one before it above a node, that node is complete.

use std::ops::Range;

use timberline_placement::NewNode;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::fresh::leaf_below;
use super::insert::Site;
use super::node::{
    AT_END, FreshInner, FreshLeaf, Grown, Kind, Parent, Position, Reach, Step, leaf_bytes, position,
};
use super::tree::Tree;
use crate::key::common;
use crate::map::Batch;
use crate::node::retired::Retired;

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Links the records of a batch, from one on, that belong where its path ends. Returns how
    /// many. 0: its path does not end at a free entry, it is the only one that belongs there,
    /// memory is short, or another thread came first.
    pub fn grow(&self, batch: &Batch, from: usize) -> usize {
        if self.shares {
            return 0;
        }
        let (guard, key) = (self.store.pin(), batch.key(from));
        let Some(site) = self.retry(|| self.vacancy(key, &guard)) else {
            return 0;
        };
        let (depth, below) = (site.depth, self.tier_of_parent(&site.parent));
        let to = batch.end_of_prefix(from, depth);
        if to - from < 2 {
            return 0;
        }
        let mut growth = Growth {
            tree: self,
            guard: &guard,
            depth,
            level: site.level,
            below,
            open: Vec::new(),
            entries: Vec::new(),
        };
        let grown = match growth.of(batch, from..to) {
            Ok(grown) => grown,
            Err(OutOfMemory { .. }) => {
                growth
                    .entries
                    .into_iter()
                    .for_each(|(_, it)| self.give_up(it, &guard));
                return 0;
            }
        };
        // Others may have changed the place meanwhile: whoever loads the records beside these may
        // change the same node.
        let parent = self.retry(|| match self.vacancy(key, &guard)? {
            Some(site) if site.depth == depth && self.tier_of_parent(&site.parent) == below => {
                Ok(Some((site.parent.upgrade()?, site.level)))
            }
            _ => Ok(None),
        });
        let Some((parent, level)) = parent else {
            self.give_up(grown, &guard);
            return 0;
        };
        parent.hang(grown.node);
        self.store.count((to - from) as i64);
        self.store.count_leaves((to - from) as i64);
        self.reaches(level.saturating_add(grown.height));
        to - from
    }

    fn give_up(&self, grown: Subtree, guard: &Guard) {
        let free = |node: Retired| node.reclaim(&self.store, guard);
        grown.node.give_up(self.base, free);
    }

    /// The free entry where a key's path ends, if it ends at one. Prefixes are compared as a whole.
    fn vacancy<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard<'g>,
    ) -> Result<Option<Site<'g, R>>, Restart> {
        let (parent, mut link) = self.root.read(self.store.pinned(guard))?;
        let mut site = Site {
            parent,
            depth: 0,
            level: 0,
            guard,
        };
        while !link.is_none() {
            let Some(inner) = link.inner() else {
                return Ok(None);
            };
            let inner = self.enter(inner, &site.parent)?;
            self.charge_node(inner.link(), key, site.depth);
            let Step::Goes {
                depth,
                at,
                child,
                trusted,
            } = inner.step(key, site.depth)?
            else {
                return Ok(None);
            };
            let is_other = trusted && self.same(key, inner, depth)? < depth;
            // Of keys that end here there is one.
            let is_taken = at == AT_END || child.is_none() && inner.get(|it| it.is_full_for(at))?;
            if is_other || is_taken {
                return Ok(None);
            }
            site.parent = Parent::Node(inner, at);
            site.level = site.level.saturating_add(1);
            (link, site.depth) = (child, depth + 1);
        }
        Ok(Some(site))
    }
}

/// What hangs nowhere yet.
struct Subtree {
    node: Grown,
    /// Inner nodes on its longest path.
    height: u8,
}

/// A node that may get more children.
struct Open {
    /// Where the paths of its children part.
    branch: usize,
    /// Its first child among the entries.
    first: usize,
}

/// A subtree on its way.
struct Growth<'g, M: Memory, R: Reach> {
    tree: &'g Tree<M, R>,
    guard: &'g Guard<'g>,
    /// The first bytes of all keys, this many, lead to its place.
    depth: usize,
    /// Inner nodes above.
    level: u8,
    /// The tier of the node above.
    below: TierId,
    /// The nodes on the way to the last record, from above.
    open: Vec<Open>,
    /// Their children.
    entries: Vec<(Position, Subtree)>,
}

impl<'g, M: Memory, R: Reach> Growth<'g, M, R> {
    /// The subtree of these records, of which there are two or more. If it fails, all that was made
    /// is among the entries.
    fn of(&mut self, batch: &Batch, records: Range<usize>) -> Result<Subtree, OutOfMemory> {
        let mut last = self.leaf(batch, records.start)?;
        for at in records.start + 1..records.end {
            let (before, key) = (batch.key(at - 1), batch.key(at));
            let branch = common(before, key);
            last = self.close(before, branch + 1, last)?;
            if self.open.last().is_none_or(|it| it.branch < branch) {
                let first = self.entries.len();
                self.open.push(Open { branch, first });
            }
            self.entries.push((position(before, branch), last));
            last = self.leaf(batch, at)?;
        }
        self.close(batch.key(records.end - 1), self.depth, last)
    }

    /// Completes the open nodes that branch at byte `from` of the last key or behind it. Returns
    /// the topmost; without any, what was given, which is the last of their children.
    fn close(&mut self, key: &[u8], from: usize, last: Subtree) -> Result<Subtree, OutOfMemory> {
        let mut last = last;
        while let Some(Open { branch, first }) = self.open.pop_if(|it| it.branch >= from) {
            self.entries.push((position(key, branch), last));
            let above = self.open.last().map_or(0, |it| it.branch + 1);
            last = self.inner(&key[..branch], above.max(from), first)?;
        }
        Ok(last)
    }

    /// Inner nodes above what is made next, as far as it is known.
    fn level(&self) -> u8 {
        let open = self.open.len().min(u8::MAX.into());
        self.level.saturating_add(open as u8)
    }

    /// A leaf of one record.
    fn leaf(&self, batch: &Batch, at: usize) -> Result<Subtree, OutOfMemory> {
        let key = batch.key(at);
        let new = leaf_below(self.below, self.level());
        let slot = self.tree.store.allocate(new, leaf_bytes(key.len()))?;
        let leaf = FreshLeaf::new(slot, self.tree.base, key, 0);
        Ok(Subtree {
            node: Grown::of(leaf.with(batch.value(at))),
            height: 0,
        })
    }

    /// An inner node of the entries from `first` on, at the end of a path of which the bytes from
    /// `prefix` on are its own.
    fn inner(&mut self, path: &[u8], prefix: usize, first: usize) -> Result<Subtree, OutOfMemory> {
        let tree = self.tree;
        let children = &self.entries[first..];
        let kind = Kind::of(children.len());
        let tiers = children.iter().map(|(_, it)| tree.tier_of(it.node.link()));
        let new = NewNode {
            height: 1,
            level: self.level(),
            parent: self.below,
            split_from: tiers.min().unwrap_or(self.below),
        };
        let slot = tree.store.allocate(new, kind.bytes::<R>())?;
        let node = FreshInner::new(slot, tree.base, kind, &path[prefix..], self.guard);
        let mut height = 0;
        for (at, child) in self.entries.drain(first..) {
            height = height.max(child.height);
            node.insert(at, child.node);
        }
        tree.check_boundary(&node, node.tier(), path);
        Ok(Subtree {
            node: Grown::of(node),
            height: height.saturating_add(1),
        })
    }
}
