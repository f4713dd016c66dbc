//! Moving nodes between tiers: what placements and their workers may do to a tree, in the way of
//! the B+tree of words (`btree/migrate.rs`).

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Fill, KeyBytes, LeafRef, Move, NodeKey, RecordCache, Relocate, Walk};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::beside::Beside;
use super::find::{Location, NodeName, Parent};
use super::leaves::Which;
use super::node::{Fresh, LongKeys, Page, Root, View};
use super::tree::Tree;
use crate::goal::Goal;
use crate::seeded::{self, Bug};
use crate::value::Represent;

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Moves one node, if the single boundary allows it.
    pub(super) fn relocate(&self, at: NodeName<'_>, to: Goal<'_>, guard: &Guard) -> Move {
        self.retry(|| self.try_relocate(at, to, guard))
    }

    fn try_relocate(
        &self,
        at: NodeName<'_>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        let Some(Location { parent, node, .. }) = self.find(at, guard)? else {
            return Ok(Move::Stale);
        };
        let (arenas, here) = (self.memory().arenas(), node.address());
        let (from, to) = (arenas.tier_of(here), goal.tier);
        if goal.has(arenas, here) {
            return match goal.is_within() {
                true => self.renew_beside(node, goal, guard),
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
        let Ok(slot) = self.store.allocate_in(to, Self::BYTES) else {
            return Ok(Move::Full);
        };
        let Some(beside) = Beside::of_all::<WORDS, H>(&self.store, &node, goal)? else {
            return Ok(Move::Full);
        };
        let fence = node.lower(self.memory())?;
        let (parent, mut old) = (parent.upgrade()?, node.upgrade()?);
        let copy = Fresh::copy(slot, &old);
        let height = old.height();
        if height == 0 && seeded::has(Bug::CopiedBeforeLocked) {
            old.unchanged();
            // Writers may run for the time that the copy would have taken.
            (0..5_000).for_each(|_| std::hint::spin_loop());
            old = node.of().lock()?;
        }
        let there = copy.address();
        self.memory().charge_access(here, Self::BYTES);
        self.memory().charge_access(there, Self::BYTES);
        let tell = |copy: &Page<WORDS>| {
            let (old, new) = (
                self.leaf_ref(here, &old, &fence),
                self.leaf_ref(there, copy, &fence),
            );
            self.store.placement.leaf_moved(old, new);
        };
        // Tells the placement before anything changes: it may panic.
        let late = seeded::has(Bug::ToldInBetween);
        if height == 0 && !late {
            tell(&copy);
        }
        let mut keys = LongKeys::none();
        self.move_beside(beside, copy.locked(), 0, &mut keys, guard);
        self.count_leaf(height, 1);
        let (copy, unlinked) = parent.replace(&old, copy);
        if height == 0 && late {
            tell(&copy);
        }
        old.retire();
        keys.reclaim(&self.store, guard);
        self.reclaim(unlinked, guard);
        self.store.count_move(from, to, Self::BYTES);
        Ok(Move::Moved(1))
    }

    /// Descends through fast nodes, at each one to a child that the draw chooses. Returns the last
    /// one that is an inner node.
    fn draw_fast_inner(&self, mut draw: u64, guard: &Guard) -> Result<Option<NodeKey>, Restart> {
        let root = self.root.read()?;
        let mut node = Root::link(&root, self.store.pinned(guard))?.read()?;
        root.validate()?;
        let mut found = None;
        while node.height() > 1 {
            let children = node.child_addresses()?;
            let count = children.len() as u64;
            let start = draw.checked_rem(count).unwrap_or(0) as usize;
            draw = draw.checked_div(count).unwrap_or(0);
            let mut indices = (start..start + children.len()).map(|index| index % children.len());
            let fast = indices.find(|&index| self.tier_at(children[index]).is_fast());
            let Some(index) = fast else { break };
            let key = node.key(index, self.memory())?;
            let below = node.child(index)?.read()?;
            node.validate()?;
            node = below;
            let (key, height) = (&key[..], node.height());
            found = Some(NodeName { key, height }.name());
        }
        Ok(found)
    }

    /// The heights of the nodes on the path to a node, itself included, that match; topmost first.
    fn on_path<'g>(
        &'g self,
        at: NodeName<'_>,
        wanted: impl Fn(usize) -> bool,
        guard: &'g Guard<'g>,
    ) -> Result<Vec<u8>, Restart> {
        let mut nodes = Vec::new();
        let pass = |node: &View<'g, WORDS>| {
            if wanted(node.address()) {
                nodes.push(node.height());
            }
        };
        self.find_passing(at, pass, guard)?;
        Ok(nodes)
    }

    /// The topmost node, and its address.
    pub(super) fn root_at(&self, guard: &Guard) -> Result<(NodeKey, usize), Restart> {
        let root = self.root.read()?;
        let node = Root::link(&root, self.store.pinned(guard))?.read()?;
        root.validate()?;
        let top = NodeName::leaf(&[]).at_height(node.height());
        Ok((top.name(), node.address()))
    }

    /// The children of a node that lie where they are wanted, with their addresses.
    pub(super) fn children_at(
        &self,
        at: NodeName<'_>,
        wanted: impl Fn(usize) -> bool,
        guard: &Guard,
    ) -> Result<Vec<(NodeKey, usize)>, Restart> {
        let mut children = Vec::new();
        if let Some(Location { node, .. }) = self.find(at, guard)?
            && let Some(height) = node.height().checked_sub(1)
        {
            for (key, child) in self.list(node, 0)? {
                let (key, child) = (&key[..], child.address());
                if wanted(child) {
                    children.push((NodeName { key, height }.name(), child));
                }
            }
        }
        Ok(children)
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Walk for Tree<M, WORDS, H> {
    fn levels(&self) -> u8 {
        1 + self.retry(|| self.root.read()?.get(|root| root.height()))
    }

    fn level_of(&self, node: &NodeKey) -> u8 {
        (self.levels() - 1).saturating_sub(node.height)
    }

    /// A leaf, with its part of all that there is.
    fn node_bytes(&self) -> usize {
        let leaves = self.leaves.load(Relaxed).max(1);
        self.store.used().div_ceil(leaves).max(Self::BYTES)
    }

    fn bytes_of(&self, node: &NodeKey) -> usize {
        let guard = self.store.pin();
        let beside = self.retry(|| match self.find(NodeName::named(node), &guard)? {
            Some(place) => self.bytes_beside(&place.node),
            None => Ok(0),
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
        self.leaves_from(from, Which::In(tier), visit);
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| self.draw_fast_inner(draw, &guard))
    }

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| match self.find(NodeName::named(node), &guard)? {
            Some(Location {
                parent: Parent::Node(above),
                ..
            }) => {
                let (key, height) = (&above.lower(self.memory())?[..], above.height());
                Ok(Some(NodeName { key, height }.name()))
            }
            _ => Ok(None),
        })
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
        let guard = self.store.pin();
        let fence = match Page::<WORDS>::guess_lower(self.memory().arenas(), address)? {
            Some(fence) => fence,
            None => self.long_fence_at(address, &guard)?,
        };
        // It may be no node. A path to it proves that it is one.
        let found = self.retry(|| self.find(NodeName::leaf(&fence), &guard))?;
        (found.node.address() == address).then(|| fence[..].into())
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Relocate for Tree<M, WORDS, H> {
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
            match self.relocate(at.at_height(slow), Goal::promotion(to), &guard) {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // The tree changed in between: search again.
                Move::AlreadyThere | Move::Stale | Move::Blocked => {}
            }
        }
        match moved {
            0 => Move::AlreadyThere,
            _ => Move::Moved(moved),
        }
    }

    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move {
        let to = to.min(TierId(self.tiers() - 1));
        self.relocate(NodeName::named(node), Goal::tier(to), &self.store.pin())
    }

    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move {
        let (mut moved, mut outcome) = (0, Move::AlreadyThere);
        let to = to.min(TierId(self.tiers() - 1));
        let mut todo = vec![node.clone()];
        while let Some(node) = todo.last() {
            let below = {
                let guard = self.store.pin();
                let faster = |child| self.tier_at(child) < to;
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
        match moved {
            0 => outcome,
            _ => Move::Moved(moved),
        }
    }

    fn reclaim(&self) {
        self.store.domain().collect();
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> RecordCache for Tree<M, WORDS, H> {}
