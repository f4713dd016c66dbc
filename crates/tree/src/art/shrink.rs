//! Removing records, and the structure modifications that follow: a smaller node, or none where one child is left.
//!
//! One step removes the record and makes its node fit, so no reader ever meets an inner node with fewer than two entries.
//! Where there is no memory for a smaller node, the large one stays.

use timberline_placement::{Access, NewNode};
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::Memory;

use super::node::{AT_END, Leaf, Link, LockedLeaf, Position, Reach, Step};
use super::tree::{Inner, Parent, Root, Tree};
use crate::value::Keep;

/// A record's place: its leaf, the node where that hangs, and that node's parent.
struct Spot<'g, R> {
    above: Parent<'g, R>,
    inner: Inner<'g, R>,
    at: Position,
    /// The depth at which the inner node branches.
    branch: usize,
    level: u8,
    leaf: Leaf<'g>,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Removes a record. Returns what `out` makes of its value.
    pub fn remove<H: Keep, T>(&self, key: &[u8], out: impl FnOnce(u64) -> T) -> Option<T> {
        let guard = epoch::pin();
        let value = self.retry(|| self.try_remove(key, &guard))?;
        if H::IN_BLOCKS {
            self.store.reclaim_value(value, &guard);
        }
        Some(out(value))
    }

    fn try_remove(&self, key: &[u8], guard: &Guard) -> Result<Option<u64>, Restart> {
        let root = self.root.read()?;
        let mut parent = Parent::Root(root);
        let mut link = root.get(Root::link)?;
        let (mut depth, mut level) = (0, 0u8);
        loop {
            if link.is_none() {
                return Ok(None);
            }
            if link.is_leaf() {
                // Only at the root; a leaf below a node is met from there.
                let leaf = self.leaf_at(link, guard);
                if leaf.key() != key {
                    return Ok(None);
                }
                let held = parent.upgrade()?;
                let locked = leaf.lock()?;
                held.set(Link::NONE);
                return Ok(Some(self.removed(locked, guard)));
            }
            let inner = self.enter(link, &parent, guard)?;
            self.visit(link, key, depth);
            let Step::Goes {
                depth: branch,
                at,
                child,
                ..
            } = inner.node.get(|body| body.step(link.kind(), key, depth))?
            else {
                return Ok(None);
            };
            if child.is_leaf() {
                let leaf = self.leaf_at(child, guard);
                self.visit_leaf(leaf);
                if leaf.key() != key {
                    return Ok(None);
                }
                let spot = Spot {
                    above: parent,
                    inner,
                    at,
                    branch,
                    level,
                    leaf,
                };
                return self.take(spot, guard).map(Some);
            }
            parent = Parent::Node(inner, at);
            (link, depth) = (child, branch + usize::from(at > 0));
            level = level.saturating_add(1);
        }
    }

    /// Takes a leaf from its node, which fits what is left afterwards.
    fn take(&self, spot: Spot<'_, R>, guard: &Guard) -> Result<u64, Restart> {
        let left = spot.inner.node.get(|body| body.count())?.saturating_sub(1);
        if left == 1 {
            return self.collapse(spot, guard);
        }
        if let Some(kind) = spot.inner.link.kind().shrunk(left) {
            let new = NewNode {
                height: 1,
                level: spot.level,
                parent: self.tier_of_parent(&spot.above),
                twin: self.tier_of(spot.inner.link),
            };
            if let Ok(smaller) = self.fresh_inner(new, kind) {
                let above = spot.above.upgrade()?;
                let old = spot.inner.node.upgrade()?;
                let locked = spot.leaf.lock()?;
                let path = &spot.leaf.key()[..spot.branch];
                let body = smaller.link.claim::<R>(self.base, guard);
                body.reset(kind, &path[spot.branch - old.prefix_len()..]);
                old.each(AT_END, |at, link| {
                    if at != spot.at {
                        body.insert(at, link);
                    }
                    true
                });
                self.check_boundary(smaller.link, &body, path);
                drop(body);
                above.set(smaller.link);
                drop(above);
                old.retire();
                smaller.keep();
                self.reclaim_inner(spot.inner.link, guard);
                return Ok(self.removed(locked, guard));
            }
        }
        let held = spot.inner.node.upgrade()?;
        let locked = spot.leaf.lock()?;
        held.remove(spot.at);
        drop(held);
        Ok(self.removed(locked, guard))
    }

    /// Takes one of two entries from a node, and puts the other in the node's place.
    fn collapse(&self, spot: Spot<'_, R>, guard: &Guard) -> Result<u64, Restart> {
        let above = spot.above.upgrade()?;
        let old = spot.inner.node.upgrade()?;
        let mut other = (AT_END, Link::NONE);
        old.each(AT_END, |at, link| {
            if at != spot.at {
                other = (at, link);
            }
            at == spot.at
        });
        let (at, link) = other;
        let locked = spot.leaf.lock()?;
        if !link.is_leaf() {
            // Who holds it waits for nothing that is locked here.
            let below = link.node::<R>(self.base, guard).lock()?;
            let own = &spot.leaf.key()[spot.branch - old.prefix_len()..spot.branch];
            let byte = at.saturating_sub(1) as u8;
            let (prefix, _) = below.prefix();
            let len = own.len() + 1 + below.prefix_len();
            let bytes = own
                .iter()
                .copied()
                .chain([byte])
                .chain(prefix.iter().copied());
            below.set_prefix(len, bytes);
        }
        above.set(link);
        drop(above);
        old.retire();
        self.reclaim_inner(spot.inner.link, guard);
        Ok(self.removed(locked, guard))
    }

    /// A leaf is unlinked: retires it. Returns its value.
    fn removed(&self, locked: LockedLeaf<'_>, guard: &Guard) -> u64 {
        let leaf = locked.leaf();
        let value = leaf.value();
        locked.retire();
        self.note(leaf, Access::Reuse);
        self.store.count(-1);
        self.reclaim_leaf(leaf, guard);
        value
    }
}
