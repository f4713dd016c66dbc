//! Making room for an entry: redistribution between siblings, and splits.
//!
//! A full node first shares with a sibling that has room, in the same tier if it can be; only when
//! its neighbours are nearly full too does it split. That is the B*-tree's idea (Knuth, The Art of
//! Computer Programming 3, §6.2.4); it is worth about a tenth of the memory
//! (`docs/design/btree.md`).
//!
//! Locks are taken parent first, then children from left to right. Memory is taken before any lock.

use timberline_placement::NewNode;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory, Slot};

use super::blocks::Blocks;
use super::find::{Location, NodeName, Parent};
use super::node::{Body, Fresh, LockedParent, View, Write, address};
use super::payload::Payload;
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::seeded::{self, Bug};

enum Outcome {
    Made,
    ParentFull,
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// A sibling with at least this many free entries is worth sharing with. At least two, so that
    /// both have room afterwards.
    const WORTH_SHARING: usize = if Self::CAPACITY < 16 {
        2
    } else {
        Self::CAPACITY / 8
    };

    /// Makes the node at `place` (and, where needed, its ancestors) able to take another entry.
    /// Others may fill it again at once.
    ///
    /// # Errors
    /// There is no memory for a node. Where leaves could be merged, there is some for the next
    /// attempt, when it is reclaimed.
    pub fn make_room(&self, place: NodeName<'_>, guard: &Guard) -> Result<(), Refused> {
        loop {
            match attempt(|| self.try_make_room(place, guard)) {
                Ok(Outcome::Made) => return Ok(()),
                Ok(Outcome::ParentFull) => {
                    self.make_room(place.at_height(place.height + 1), guard)?;
                }
                Err(full) => {
                    self.compact(place, guard);
                    return Err(full);
                }
            }
        }
    }

    fn try_make_room(&self, at: NodeName<'_>, guard: &Guard) -> Result<Outcome, Abort> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(Outcome::Made);
        };
        if place.node.get(Body::count)? < Self::CAPACITY {
            return Ok(Outcome::Made);
        }
        if let Parent::Node(above) = place.parent {
            if self.share(above, &place, guard)? {
                return Ok(Outcome::Made);
            }
            if above.get(Body::count)? == Self::CAPACITY {
                return Ok(Outcome::ParentFull);
            }
        }
        let fresh = self.fresh_nodes(&place)?;
        let blocks = self.fresh_blocks(&place, &fresh)?;
        self.split(place, fresh, blocks, guard)?;
        Ok(Outcome::Made)
    }

    /// Memory for the blocks of records that go to another tier with the right half.
    fn fresh_blocks(
        &self,
        place: &Location<'_, WORDS>,
        fresh: &[Option<Slot<'_>>; 2],
    ) -> Result<Blocks<'_, M>, Abort> {
        let there = fresh[0].as_ref().map(Slot::tier);
        let here = self.memory().arenas().tier_of(place.address());
        if P::BLOCKS
            && place.at.height == 0
            && let Some(tier) = there.filter(|&there| there != here)
        {
            let (from, _) = place.node.get(|body| body.split_point(place.at.key))?;
            return Blocks::allocate_from::<P, WORDS>(&self.store, &place.node, from, tier);
        }
        Ok(Blocks::none())
    }

    /// Evens out a full node and a neighbour, if one has room to share: one of the same tier rather
    /// than another.
    fn share(
        &self,
        above: View<'_, WORDS>,
        full: &Location<'_, WORDS>,
        guard: &Guard,
    ) -> Result<bool, Restart> {
        let tier_of = |node| self.memory().arenas().tier_of(node);
        let tier = tier_of(full.address());
        let (index, count) = above.get(|body| {
            let index = body.child_for(self.search, full.at.key);
            (index, body.count())
        })?;
        // A node without children and values beside it may be in any tier.
        let tiers = match full.at.height == 0 && !P::BLOCKS {
            true => &[true, false][..],
            false => &[true],
        };
        let neighbours = [
            Some(index + 1).filter(|&right| right < count),
            index.checked_sub(1),
        ];
        let in_order = tiers.iter().flat_map(|&is_same| {
            let neighbours = neighbours.into_iter().flatten();
            neighbours.map(move |neighbour| (neighbour, is_same))
        });
        for (neighbour, is_same) in in_order {
            let link = above.child(neighbour)?;
            let there = tier_of(link.address());
            if (there == tier) != is_same {
                continue;
            }
            let sibling = link.read()?;
            above.validate()?;
            let other = sibling.get(Body::count)?;
            if Self::CAPACITY - other < Self::WORTH_SHARING {
                continue;
            }
            let above = above.upgrade()?;
            let keep = (Self::CAPACITY + other) / 2;
            let is_left = neighbour < index;
            let (left, right) = match is_left {
                true => (sibling.upgrade()?, full.node.upgrade()?),
                false => (full.node.upgrade()?, sibling.upgrade()?),
            };
            for node in [&left, &right] {
                self.take_over_all(node, guard);
            }
            if is_left {
                let moving = Self::CAPACITY - keep;
                self.forget_copies(&right, 0..moving, there, guard);
                right.move_head(moving, &left);
            } else {
                self.forget_copies(&left, keep..Self::CAPACITY, there, guard);
                left.move_tail(keep, &right);
            }
            let border = right.key(0);
            left.set_upper(border - 1);
            right.set_lower(border);
            above.set_key(index.max(neighbour), border);
            // Where the boundary was broken, it may be at two nodes now, and under other names.
            self.check_boundary(full.at.path, &left);
            self.check_boundary(full.at.path, &right);
            return Ok(true);
        }
        Ok(false)
    }

    /// Memory for a split: the new right half and, above a root, a new root.
    fn fresh_nodes(
        &self,
        place: &Location<'_, WORDS>,
    ) -> Result<[Option<Slot<'_>>; 2], OutOfMemory> {
        let right = NewNode {
            height: place.at.height,
            level: place.level,
            parent: place.parent.tier(self.memory()),
            split_from: self.memory().arenas().tier_of(place.address()),
        };
        if let Parent::Node(_) = place.parent {
            return Ok([Some(self.store.allocate(right, Self::BYTES)?), None]);
        }
        let above = NewNode {
            height: place.at.height + 1,
            ..right
        };
        let root = self.store.allocate(above, Self::BYTES)?;
        let below = NewNode {
            level: place.level.saturating_add(1),
            parent: root.tier(),
            ..right
        };
        match self.store.allocate(below, Self::BYTES) {
            Ok(right) => Ok([Some(right), Some(root)]),
            Err(full) => {
                if seeded::has(Bug::LeakedWhereMemoryEnds) {
                    root.keep();
                }
                Err(full)
            }
        }
    }

    fn split<'g>(
        &'g self,
        Location {
            at,
            level,
            parent,
            node,
        }: Location<'g, WORDS>,
        [right, root]: [Option<Slot<'g>>; 2],
        blocks: Blocks<'_, M>,
        guard: &'g Guard<'g>,
    ) -> Result<(), Restart> {
        let parent = parent.upgrade()?;
        let left = node.upgrade()?;
        self.take_over_all(&left, guard);
        let height = left.height();
        let (middle, border) = left.split_point(at.key);
        let half = Fresh::beside(right.expect("a right half"), &left, border);
        let (here, there) = (address(left.of()), half.address());
        // The placement is told before anything changes, or when all is done: it may panic.
        if height == 0 {
            let placement = &self.store.placement;
            placement.leaf_split(self.leaf_ref(here, &left), self.leaf_ref(there, &half));
        }
        let there = self.memory().arenas().tier_of(there);
        self.forget_copies(&left, middle..left.count(), there, guard);
        left.move_tail(middle, &half);
        left.set_upper(border - 1);
        self.move_blocks(blocks, half.locked(), middle, guard);
        self.count_leaf(height, 1);
        match parent {
            LockedParent::Node(above) => {
                let index = above.child_for(self.search, border);
                debug_assert_eq!(above.child_address(index), here);
                let half = Body::insert_child(&above, index + 1, half);
                self.check_boundary(at.path, &half);
            }
            above => {
                let root = above.raise(self.search, &left, root.expect("a new root"));
                let half = Body::insert_child(&root, 1, half);
                self.reaches(level.saturating_add(1));
                self.check_boundary(at.path, &half);
                self.check_boundary(at.path, &root);
            }
        }
        Ok(())
    }
}
