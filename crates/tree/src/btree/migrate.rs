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

use timberline_placement::{Fill, KeyBytes, LeafRef, Move, NodeKey, Placed};
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, TierId};

use super::node::{Body, HEADER, Link};
use super::tree::{At, HeldParent, Parent, Place, Tree};

/// The lower fence and link of each child, and the upper fence of the last.
pub(super) type Children = (Vec<(u64, Link)>, u64);

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    fn is_fast(&self, link: Link) -> bool {
        self.memory().arenas().tier_of(link.address()).is_fast()
    }

    /// Moves one node, if the single boundary allows.
    fn relocate(&self, at: At, to: TierId, guard: &Guard) -> Move {
        let mut fresh = None;
        let outcome = self.retry(|| self.try_relocate(at, to, &mut fresh, guard));
        if let Some(unused) = fresh {
            self.discard(unused);
        }
        outcome
    }

    fn try_relocate(
        &self,
        at: At,
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
        self.store.count_move(from, to);
        Ok(Move::Moved(1))
    }

    /// Visits the leaves that pass `wanted` below the parents from `key` on; the parents are visited all the same.
    fn leaves_from(
        &self,
        mut key: u64,
        wanted: impl Fn(Link) -> bool,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        loop {
            // One pin a parent: the epoch is not held back by a long scan.
            let guard = epoch::pin();
            let parent = At { key, height: 1 };
            let (leaves, upper) = match self.retry(|| self.children(parent, &guard)) {
                Some(found) => found,
                None => match self.retry(|| self.find(At::leaf(0), &guard)) {
                    Some(Place {
                        parent: Parent::Root(_),
                        link,
                        ..
                    }) => (vec![(0, link)], u64::MAX),
                    // It grew in between.
                    _ => continue,
                },
            };
            for (key, link) in leaves.into_iter().filter(|&(_, link)| wanted(link)) {
                let (link, leaf) = match link.node::<WORDS>(&guard).read() {
                    Ok(leaf) => (link, leaf),
                    // It moved, or merged: what is in its place now is seen, maybe again.
                    Err(Restart) => match self.retry(|| self.find(At::leaf(key), &guard)) {
                        Some(place) => (place.link, place.node),
                        None => continue,
                    },
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
    /// Walks down among fast inner nodes, at each one to a child that the draw chooses.
    fn draw_fast_inner(&self, mut draw: u64, guard: &Guard) -> Result<Option<NodeKey>, Restart> {
        let root = self.root.read()?;
        let (link, height) = root.get(|root| (root.node(), root.height()))?;
        let mut node = link.node::<WORDS>(guard).read()?;
        root.validate()?;
        let mut found = None;
        for height in (1..height).rev() {
            let child = node.get(|body| {
                self.visit(body);
                let count = body.count().max(1);
                let start = draw as usize % count;
                draw /= count as u64;
                (start..start + count)
                    .map(|index| index % count)
                    .find(|&index| self.is_fast(body.child(index)))
                    .map(|index| (body.key(index), body.child(index)))
            })?;
            let Some((fence, link)) = child else { break };
            let below = link.node(guard).read()?;
            node.validate()?;
            found = Some(NodeKey::of_word(fence, height));
            node = below;
        }
        Ok(found)
    }

    /// The topmost node on the path to a node, itself included, that is not fast.
    fn first_slow(&self, at: At, guard: &Guard) -> Result<Option<At>, Restart> {
        let key = at.key;
        let root = self.root.read()?;
        let (mut link, height) = root.get(|root| (root.node(), root.height()))?;
        let mut node = link.node::<WORDS>(guard).read()?;
        root.validate()?;
        for height in (0..=height).rev() {
            if !self.is_fast(link) {
                return Ok(Some(At { key, height }));
            }
            if height <= at.height {
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
    pub(super) fn children(&self, at: At, guard: &Guard) -> Result<Option<Children>, Restart> {
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

    fn level_of(&self, node: &NodeKey) -> u8 {
        (self.levels() - 1).saturating_sub(node.height)
    }

    fn node_bytes(&self) -> usize {
        Self::BYTES
    }

    fn fill(&self, tier: TierId) -> Fill {
        self.store.fill(tier)
    }

    fn each_leaf(&self, visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        self.leaves_from(0, |_| true, visit);
    }

    fn each_fast_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        let from = KeyBytes::from(from).word();
        self.leaves_from(from, |link| self.is_fast(link), &mut |leaf| {
            // The first parent has leaves before `from`, too.
            if leaf.fence.word >= Some(from) {
                visit(leaf)
            } else {
                ControlFlow::Continue(())
            }
        });
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let guard = epoch::pin();
        self.retry(|| self.draw_fast_inner(draw, &guard))
    }

    fn promote_node(&self, node: &NodeKey) -> Move {
        let mut moved = 0;
        loop {
            // One pin a node: where somebody moves the path back as fast, garbage must not pile up.
            let guard = epoch::pin();
            let Some(slow) = self.retry(|| self.first_slow(node.into(), &guard)) else {
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

    fn demote(&self, node: &NodeKey) -> Move {
        if self.memory().arenas().tiers() < 2 {
            return Move::There;
        }
        self.relocate(node.into(), TierId::SLOW, &epoch::pin())
    }

    fn demote_subtree(&self, node: &NodeKey) -> Move {
        let mut moved = 0;
        loop {
            let below = node.height.checked_sub(1).and_then(|height| {
                let guard = epoch::pin();
                let (children, _) = self.retry(|| self.children(node.into(), &guard))?;
                let fast = children.into_iter().filter(|&(_, link)| self.is_fast(link));
                Some(
                    fast.map(|(key, _)| NodeKey::of_word(key, height))
                        .collect::<Vec<_>>(),
                )
            });
            for child in below.unwrap_or_default() {
                match self.demote_subtree(&child) {
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

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let guard = epoch::pin();
        let mut above = At::from(node);
        above.height += 1;
        let fence = self.retry(|| match self.find(above, &guard)? {
            Some(parent) => parent.node.get(|body| Some(body.lower())),
            None => Ok(None),
        })?;
        Some(NodeKey::of_word(fence, above.height))
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
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
        node.get(|body| (body.height() == 0).then(|| KeyBytes::of_word(body.lower())))
            .ok()?
    }
}
