//! Moving nodes between tiers: what placements and their workers may do to a tree.
//!
//! A node is named by a key and a height. The mover descends, locks the parent and the node as any
//! structure modification does, copies the node into a slot of the other tier, points the parent there and
//! retires the old node. Whatever happened to the node since it was named, the
//! mover finds what covers the key now, or nothing. Readers of the old copy fail validation and
//! start over; writers find it obsolete.
//!
//! Both locks are held while the single boundary is checked, so a child cannot be promoted while its parent
//! is demoted.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Fill, LeafRef, Move, NodeKey, Placed};
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, TierId};

use super::node::{Body, HEADER, Link};
use super::tree::{HeldParent, Parent, Place, Tree};

/// The lower fence and link of each child, and the upper fence of the last.
pub(super) type Children = (Vec<(u64, Link)>, u64);

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    fn is_fast(&self, link: Link) -> bool {
        self.memory().arenas().tier_of(link.address()).is_fast()
    }

    /// Moves one node, if the single boundary allows.
    fn relocate(&self, at: NodeKey, to: TierId, guard: &Guard) -> Move {
        let mut fresh = None;
        let outcome = self.retry(|| self.try_relocate(at, to, &mut fresh, guard));
        if let Some(unused) = fresh {
            self.discard(unused);
        }
        outcome
    }

    fn try_relocate(
        &self,
        at: NodeKey,
        to: TierId,
        fresh: &mut Option<Link>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let Some(Place { parent, link, node }) = self.find(at, guard)? else {
            return Ok(Move::Stale);
        };
        let arenas = self.memory().arenas();
        let from = arenas.tier_of(link.address());
        // Fast enough, or slow enough: with more than two tiers, `to` is the least that is asked.
        if if to.is_fast() { from <= to } else { from >= to } {
            return Ok(Move::There);
        }
        let blocked = if to < from {
            parent.tier(self.memory()) > to
        } else {
            node.get(|body| self.has_fast_child(body))?
        };
        if blocked {
            return Ok(Move::Blocked);
        }
        let new = match *fresh {
            Some(link) => link,
            None => match arenas.allocate(to, Self::BYTES) {
                Ok(slot) => *fresh.insert(Link::to_slot(slot)),
                Err(_) => return Ok(Move::Full),
            },
        };
        let parent = parent.upgrade()?;
        let old = node.upgrade()?;
        let copy = new.node::<WORDS>(guard).claim();
        self.memory().visit(link.address(), Self::BYTES);
        self.memory().visit(new.address(), Self::BYTES);
        copy.copy_from(&old);
        let height = old.height();
        if height == 0 {
            let (here, there) = (link.address(), new.address());
            let placement = &self.store.placement;
            placement.leaf_moved(self.leaf_ref(here, &old), self.leaf_ref(there, &copy));
        }
        match parent {
            HeldParent::Root(cell) => cell.set(new, height),
            HeldParent::Node(above) => {
                let index = above.child_for(self.search, old.lower());
                debug_assert_eq!(above.child(index), link);
                above.set_payload(index, new.to_word());
            }
        }
        old.retire();
        *fresh = None;
        self.reclaim(link, height, guard);
        let moves = if to < from {
            &self.promoted
        } else {
            &self.demoted
        };
        moves.fetch_add(1, Relaxed);
        Ok(Move::Moved(1))
    }

    /// The topmost node on the path to a node, itself included, that is not fast.
    fn first_slow(
        &self,
        NodeKey {
            key,
            height: lowest,
        }: NodeKey,
        guard: &Guard,
    ) -> Result<Option<NodeKey>, Restart> {
        let root = self.root.read()?;
        let (mut link, height) = root.get(|root| (root.node(), root.height()))?;
        let mut node = link.node::<WORDS>(guard).read()?;
        root.validate()?;
        for height in (0..=height).rev() {
            if !self.is_fast(link) {
                return Ok(Some(NodeKey { key, height }));
            }
            if height <= lowest {
                break;
            }
            link = node.get(|body| {
                self.visit(body);
                body.child(body.child_for(self.search, key))
            })?;
            let child = link.node(guard).read()?;
            node.validate()?;
            node = child;
        }
        Ok(None)
    }

    /// The children of an inner node.
    pub(super) fn children(&self, at: NodeKey, guard: &Guard) -> Result<Option<Children>, Restart> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(None);
        };
        let list = |body: &Body<WORDS>| {
            self.visit(body);
            let entries = (0..body.count()).map(|index| (body.key(index), body.child(index)));
            (entries.collect(), body.upper())
        };
        place.node.get(list).map(Some)
    }
}

impl<M: Memory, const WORDS: usize> Placed for Tree<M, WORDS> {
    fn levels(&self) -> u8 {
        1 + self.retry(|| self.root.read()?.get(|root| root.height()))
    }

    fn node_bytes(&self) -> usize {
        Self::BYTES
    }

    fn fill(&self, tier: TierId) -> Fill {
        let arenas = self.memory().arenas();
        if tier > arenas.slowest() {
            return Fill::default();
        }
        Fill {
            used: arenas.used(tier),
            limit: arenas.usable(tier),
        }
    }

    fn each_leaf(&self, visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        let mut key = 0;
        loop {
            // One pin a parent: the epoch is not held back by a long scan.
            let guard = epoch::pin();
            let parent = NodeKey { key, height: 1 };
            let (leaves, upper) = match self.retry(|| self.children(parent, &guard)) {
                Some(found) => found,
                None => match self.retry(|| self.find(NodeKey { key: 0, height: 0 }, &guard)) {
                    Some(Place {
                        parent: Parent::Root(_),
                        link,
                        ..
                    }) => (vec![(0, link)], u64::MAX),
                    // It grew in between.
                    _ => continue,
                },
            };
            for (key, link) in leaves {
                let (link, leaf) = match link.node::<WORDS>(&guard).read() {
                    Ok(leaf) => (link, leaf),
                    // It moved, or merged: what is in its place now is seen, maybe again.
                    Err(Restart) => {
                        let at = NodeKey { key, height: 0 };
                        match self.retry(|| self.find(at, &guard)) {
                            Some(place) => (place.link, place.node),
                            None => continue,
                        }
                    }
                };
                self.memory().visit(link.address(), HEADER);
                // The fence is a hint to whoever visits; a leaf that changed meanwhile was seen anyway.
                let mut flow = ControlFlow::Continue(());
                let _ = leaf.get(|body| flow = visit(self.leaf_ref(link.address(), body)));
                if flow.is_break() {
                    return;
                }
            }
            match upper.checked_add(1) {
                Some(next) => key = next,
                None => return,
            }
        }
    }

    fn promote_node(&self, node: NodeKey) -> Move {
        let mut moved = 0;
        loop {
            // One pin a node: where somebody moves the path back as fast, garbage must not pile up.
            let guard = epoch::pin();
            let Some(slow) = self.retry(|| self.first_slow(node, &guard)) else {
                break;
            };
            match self.relocate(slow, TierId::FAST, &guard) {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // The tree changed in between: look again.
                Move::There | Move::Stale | Move::Blocked => {}
            }
        }
        if moved == 0 {
            Move::There
        } else {
            Move::Moved(moved)
        }
    }

    fn demote(&self, node: NodeKey) -> Move {
        if self.memory().arenas().tiers() < 2 {
            return Move::There;
        }
        self.relocate(node, TierId::SLOW, &epoch::pin())
    }

    fn demote_subtree(&self, node: NodeKey) -> Move {
        let mut moved = 0;
        loop {
            let below = node.height.checked_sub(1).and_then(|height| {
                let guard = epoch::pin();
                let (children, _) = self.retry(|| self.children(node, &guard))?;
                let fast = children.into_iter().filter(|&(_, link)| self.is_fast(link));
                Some(
                    fast.map(|(key, _)| NodeKey { key, height })
                        .collect::<Vec<_>>(),
                )
            });
            for child in below.unwrap_or_default() {
                match self.demote_subtree(child) {
                    Move::Moved(nodes) => moved += nodes,
                    Move::Full => return Move::Full,
                    Move::There | Move::Stale | Move::Blocked => {}
                }
            }
            match self.demote(node) {
                Move::Moved(nodes) => return Move::Moved(moved + nodes),
                // A child was promoted in between.
                Move::Blocked => {}
                Move::There if moved > 0 => return Move::Moved(moved),
                other => return other,
            }
        }
    }

    fn parent_of(&self, NodeKey { key, height }: NodeKey) -> Option<NodeKey> {
        let guard = epoch::pin();
        let height = height + 1;
        let key = self.retry(|| match self.find(NodeKey { key, height }, &guard)? {
            Some(parent) => parent.node.get(|body| Some(body.lower())),
            None => Ok(None),
        })?;
        Some(NodeKey { key, height })
    }

    fn fence_at(&self, address: usize) -> Option<u64> {
        // Safe code may ask for any address; only a slot's is followed.
        let range = self.memory().arenas().range();
        if !range.contains(&address) || !(address - range.start).is_multiple_of(Self::BYTES) {
            return None;
        }
        let guard = epoch::pin();
        let node = Link::from_word(address as u64)
            .node::<WORDS>(&guard)
            .read()
            .ok()?;
        node.get(|body| (body.height() == 0).then(|| body.lower()))
            .ok()?
    }
}
