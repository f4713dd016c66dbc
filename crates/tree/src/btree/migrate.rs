//! Moving nodes between tiers: what placements and their workers may do to a tree.
//!
//! A node is named by a key and a height. The mover descends, locks the parent and the node as any
//! structure modification does, copies the node into a slot of the other tier, links the copy from
//! the parent and retires the old node. If the node has changed since it was named, the mover finds
//! the one that covers the key now, or none. Readers of the old copy fail validation and start
//! over; writers find it obsolete.
//!
//! Both locks are held while the single boundary is checked, so a child cannot be promoted while
//! its parent is demoted.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Fill, KeyBytes, LeafRef, Move, NodeKey, RecordCache, Relocate, Walk};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, Slot, TierId};

use super::blocks::{Blocks, bytes_beside};
use super::find::{Location, NodeName, Parent};
use super::leaves::Which;
use super::node::{Body, Fresh, Link, Root, View, address};
use super::payload::Payload;
use super::tree::Tree;
use crate::goal::Goal;
use crate::seeded::{self, Bug};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    pub(super) fn is_fast(&self, node: usize) -> bool {
        self.tier_at(node).is_fast()
    }

    /// The tier of a node at this address.
    pub(super) fn tier_at(&self, node: usize) -> TierId {
        self.memory().arenas().tier_of(node)
    }

    /// Moves one node, if the single boundary allows it.
    pub(super) fn relocate(&self, at: NodeName<'_>, to: Goal<'_>, guard: &Guard) -> Move {
        let mut spare = None;
        self.retry(|| self.try_relocate(at, to, &mut spare, guard))
    }

    fn try_relocate<'t>(
        &'t self,
        at: NodeName<'_>,
        goal: Goal<'_>,
        spare: &mut Option<Slot<'t>>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let Some(Location { parent, node, .. }) = self.find(at, guard)? else {
            return Ok(Move::Stale);
        };
        let (arenas, here) = (self.memory().arenas(), address(node.of()));
        let (from, to) = (arenas.tier_of(here), goal.tier);
        let with_blocks = P::BLOCKS && at.height == 0;
        if goal.has(arenas, here) {
            return match with_blocks && goal.is_within() {
                true => self.renew_blocks(node, goal, guard),
                false => Ok(Move::AlreadyThere),
            };
        }
        let blocked = match to.cmp(&from) {
            Ordering::Less => parent.tier(self.memory()) > to,
            Ordering::Equal => false,
            Ordering::Greater => self.seems_to_have_child_faster_than(to, node)?,
        };
        if blocked {
            return Ok(Move::Blocked);
        }
        let slot = match spare
            .take()
            .map_or_else(|| self.store.allocate_in(to, Self::BYTES), Ok)
        {
            Ok(slot) => slot,
            Err(_) => return Ok(Move::Full),
        };
        let mut blocks = Blocks::none();
        if with_blocks {
            match Blocks::allocate_in::<P, WORDS>(&self.store, &node, goal)? {
                Some(room) => blocks = room,
                None => return Ok(Move::Full),
            }
        }
        let (parent, mut old) = match (parent.upgrade(), node.upgrade()) {
            (Ok(parent), Ok(old)) => (parent, old),
            _ => {
                *spare = Some(slot);
                return Err(Restart);
            }
        };
        self.take_over_all(&old, guard);
        let copy = Fresh::copy(slot, &old);
        if at.height == 0 && seeded::has(Bug::CopiedBeforeLocked) {
            old.unchanged();
            // Writers may run for the time that the copy would have taken.
            (0..5_000).for_each(|_| std::hint::spin_loop());
            old = node.of().lock()?;
        }
        let there = copy.address();
        self.memory().charge_access(here, Self::BYTES);
        self.memory().charge_access(there, Self::BYTES);
        let height = old.height();
        let tell = |copy: &Body<WORDS>| {
            let placement = &self.store.placement;
            placement.leaf_moved(self.leaf_ref(here, &old), self.leaf_ref(there, copy));
        };
        // Tells the placement before anything changes: it may panic.
        let late = seeded::has(Bug::ToldInBetween);
        if height == 0 && !late {
            tell(&copy);
        }
        self.move_blocks(blocks, copy.locked(), 0, guard);
        self.count_leaf(height, 1);
        self.forget_copies(&old, 0..old.count(), to, guard);
        let (copy, unlinked) = parent.replace(self.search, &old, copy);
        if height == 0 && late {
            tell(&copy);
        }
        old.retire();
        self.reclaim(unlinked, guard);
        self.store.count_move(from, to, Self::BYTES);
        Ok(Move::Moved(1))
    }

    /// Descends through fast nodes, at each one to a child that the draw chooses. Returns the last
    /// one that is an inner node, or a leaf with a layer below.
    fn draw_fast_inner(&self, mut draw: u64, guard: &Guard) -> Result<Option<NodeKey>, Restart> {
        let root = self.root.read()?;
        let mut node = Root::link(&root, self.store.pinned(guard))?.read()?;
        root.validate()?;
        let (mut path, mut found, mut above_all) = (Vec::new(), None, true);
        while node.height() > 1 || P::LINKS {
            let Some(index) = self.draw_fast_child(&node, &mut draw)? else {
                break;
            };
            let (below, key) = if node.height() == 0 {
                let (path_above, entry) = (path.clone(), node.entry(index)?);
                P::push_path(entry, &mut path);
                if !above_all {
                    let (path, key) = (&path_above[..], node.get(Body::lower)?);
                    let height = 0;
                    found = Some(NodeName { path, key, height }.name());
                }
                let below = P::layer(entry).ok_or(Restart)?.read()?;
                node.validate()?;
                (View::of(below)?, 0)
            } else {
                let key = node.get(|body| body.key(index))?;
                let below = node.child(index)?.read()?;
                node.validate()?;
                (below, key)
            };
            node = below;
            above_all = false;
            let height = node.height();
            if height > 0 {
                let path = &path;
                found = Some(NodeName { path, key, height }.name());
            }
        }
        Ok(found)
    }

    /// The index of a fast child of a node, or of a fast layer below it.
    fn draw_fast_child(
        &self,
        node: &View<'_, WORDS>,
        draw: &mut u64,
    ) -> Result<Option<usize>, Restart> {
        let mut count = node.get(|body| {
            self.charge_node(body);
            body.count()
        })?;
        if seeded::has(Bug::EmptyLeafEntered) {
            count = count.max(1);
        }
        // Behind the last entry are words of users: none of them is a link.
        if count == 0 {
            return Ok(None);
        }
        let start = *draw as usize % count;
        *draw /= count as u64;
        for index in start..start + count {
            let index = index % count;
            if self
                .child_at(node, index)?
                .is_some_and(|child| self.is_fast(child))
            {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The nodes on the path to a node, itself included, that match; topmost first.
    fn on_path<'g>(
        &'g self,
        at: NodeName<'g>,
        wanted: impl Fn(usize) -> bool,
        guard: &'g Guard<'g>,
    ) -> Result<Vec<NodeName<'g>>, Restart> {
        let mut nodes = Vec::new();
        let mut pass = |at, node: &View<'g, WORDS>| {
            if wanted(address(node.of())) {
                nodes.push(at);
            }
        };
        let found = self.find_passing(at, &mut pass, guard)?;
        // Where the tree is lower than the name says, there is no such node, but maybe a path.
        if found.is_none() && !at.path.is_empty() {
            nodes.clear();
        }
        Ok(nodes)
    }

    /// The topmost node, and its address.
    pub(super) fn root_at(&self, guard: &Guard) -> Result<(NodeKey, usize), Restart> {
        let root = self.root.read()?;
        let node = Root::link(&root, self.store.pinned(guard))?.read()?;
        root.validate()?;
        let top = NodeName::leaf(0).at_height(node.height());
        Ok((top.name(), address(node.of())))
    }

    /// The children of a node that are wanted, with their addresses. `wanted` gets an address, and
    /// the link to the child if it is of the same layer.
    pub(super) fn children_at(
        &self,
        at: NodeName<'_>,
        wanted: impl Fn(usize, Option<Link<'_, WORDS>>) -> Result<bool, Restart>,
        guard: &Guard,
    ) -> Result<Vec<(NodeKey, usize)>, Restart> {
        let Some(Location { at, node, .. }) = self.find(at, guard)? else {
            return Ok(Vec::new());
        };
        if at.height == 0 && !P::LINKS {
            return Ok(Vec::new());
        }
        let mut children = Vec::new();
        let count = node.get(|body| {
            self.charge_node(body);
            body.count()
        })?;
        for index in 0..count {
            if at.height > 0 {
                let child = node.child(index)?;
                if wanted(child.address(), Some(child))? {
                    let key = node.get(|body| body.key(index))?;
                    let height = at.height - 1;
                    children.push((NodeName { key, height, ..at }.name(), child.address()));
                }
                continue;
            }
            let entry = node.entry(index)?;
            if let Some(root) = P::layer(entry)
                && wanted(address(root), None)?
            {
                let height = root.read()?.get(Body::height)?;
                node.validate()?;
                let mut path = at.path.to_vec();
                P::push_path(entry, &mut path);
                let (path, key) = (&path[..], 0);
                children.push((NodeName { path, key, height }.name(), address(root)));
            }
        }
        Ok(children)
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Walk for Tree<M, WORDS, P> {
    /// The longest path through layers since they were last counted ([`Tree::stats`]).
    fn levels(&self) -> u8 {
        if P::LINKS {
            return self.deepest.load(Relaxed);
        }
        1 + self.retry(|| self.root.read()?.get(|root| root.height()))
    }

    fn level_of(&self, node: &NodeKey) -> u8 {
        if !P::LINKS {
            return (self.levels() - 1).saturating_sub(node.height);
        }
        let guard = self.store.pin();
        let found = self.retry(|| self.find(NodeName::named(node), &guard));
        found.map_or(0, |place| place.level)
    }

    /// Where values lie beside leaves: a leaf, with its part of all that there is.
    fn node_bytes(&self) -> usize {
        if !P::VALUES {
            return Self::BYTES;
        }
        let leaves = self.leaves.load(Relaxed).max(1);
        self.store.used().div_ceil(leaves).max(Self::BYTES)
    }

    fn bytes_of(&self, node: &NodeKey) -> usize {
        if !P::BLOCKS || node.height > 0 {
            return Self::BYTES;
        }
        let guard = self.store.pin();
        let beside = self.retry(|| match self.find(NodeName::named(node), &guard)? {
            Some(place) if place.at.height == 0 => bytes_beside::<P, WORDS>(&place.node),
            _ => Ok(0),
        });
        Self::BYTES + beside
    }

    fn fill(&self, tier: TierId) -> Fill {
        self.store.fill(tier)
    }

    fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        self.leaves_from(from, Which::All, visit);
    }

    fn each_leaf_in(
        &self,
        tier: TierId,
        from: &[u8],
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        self.leaves_from(from, Which::EndsIn(tier), visit);
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| self.draw_fast_inner(draw, &guard))
    }

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| {
            let Some(Location { at, parent, .. }) = self.find(NodeName::named(node), &guard)?
            else {
                return Ok(None);
            };
            let (above, at) = match parent {
                Parent::Root(_) => return Ok(None),
                Parent::Node(above) => (*above, at.at_height(at.height + 1)),
                Parent::Leaf(above, entry) => (above, entry),
            };
            let key = above.get(Body::lower)?;
            Ok(Some(NodeName { key, ..at }.name()))
        })
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
        let guard = self.store.pin();
        let (path, key) = {
            let arenas = self.memory().arenas();
            Body::<WORDS>::guess_leaf(arenas, address, P::BLOCKS, P::LINKS)?
        };
        let (path, height) = (&path[..], 0);
        let at = NodeName { path, key, height };
        if P::BLOCKS || self.copies().is_some() {
            // It may be no node (a page of copies looks like a leaf). A path to it proves that it
            // is one.
            let found = self.retry(|| self.find(at, &guard))?;
            if found.address() != address || found.at.path != path {
                return None;
            }
        }
        Some(at.name().key)
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Relocate for Tree<M, WORDS, P> {
    fn tiers(&self) -> u8 {
        self.memory().arenas().tiers() as u8
    }

    fn promote_to(&self, node: &NodeKey, to: TierId) -> Move {
        let mut moved = 0;
        loop {
            // One pin a node: if another thread moves the path back as fast, garbage must not pile
            // up.
            let guard = self.store.pin();
            let slow = |node| self.tier_at(node) > to;
            let at = NodeName::named(node);
            let path = self.retry(|| self.on_path(at, slow, &guard));
            let Some(&slow) = path.first() else {
                break;
            };
            match self.relocate(slow, Goal::promotion(to), &guard) {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // The tree changed in between: search again.
                Move::AlreadyThere | Move::Stale | Move::Blocked => {}
            }
        }
        if moved == 0 {
            Move::AlreadyThere
        } else {
            Move::Moved(moved)
        }
    }

    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move {
        let to = to.min(TierId(self.tiers() - 1));
        self.relocate(NodeName::named(node), Goal::tier(to), &self.store.pin())
    }

    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move {
        let (mut moved, mut outcome) = (0, Move::AlreadyThere);
        let to = to.min(TierId(self.tiers() - 1));
        // Layers may be deeper than a thread's stack.
        let mut todo = vec![node.clone()];
        while let Some(node) = todo.last() {
            let below = {
                let guard = self.store.pin();
                let faster = |child, _: Option<Link<'_, WORDS>>| Ok(self.tier_at(child) < to);
                self.retry(|| self.children_at(NodeName::named(node), faster, &guard))
            };
            if !below.is_empty() {
                todo.extend(below.into_iter().map(|(child, _)| child));
                continue;
            }
            outcome = self.demote_to(node, to);
            match outcome {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // A child was promoted in between.
                Move::Blocked => continue,
                Move::AlreadyThere | Move::Stale => {}
            }
            todo.pop();
        }
        if moved == 0 {
            outcome
        } else {
            Move::Moved(moved)
        }
    }

    fn reclaim(&self) {
        self.store.domain().collect();
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> RecordCache for Tree<M, WORDS, P> {
    fn record_pages(&self) -> (usize, usize) {
        self.pages_of_copies()
    }

    fn add_record_page(&self) -> bool {
        self.add_page_of_copies()
    }

    fn drop_record_page(&self) -> bool {
        self.drop_page_of_copies()
    }

    fn refit_record_pages(&self) {
        self.refit_copies();
    }
}
