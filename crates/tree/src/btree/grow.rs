//! Inserting records, and the structure modifications that make room: redistribution between
//! siblings and splits.
//!
//! A full node first shares with a sibling that has room, in the same tier if it can be; only when
//! its neighbours are nearly full too does it split. That is the B*-tree's idea (Knuth, The Art of
//! Computer Programming 3, §6.2.4); it is worth about a tenth of the memory
//! (`docs/design/btree.md`).
//!
//! Locks are taken parent first, then children from left to right. Memory is taken before any lock.

use timberline_placement::{Access, NewNode};
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::blocks::Blocks;
use super::descent::Slot;
use super::node::{Body, Link};
use super::payload::{Payload, Values};
use super::tree::{At, Held, HeldParent, Parent, Place, Tree, address};
use crate::InsertError;
use crate::abort::{Abort, attempt};
use crate::seeded::{self, Bug};
use crate::store::Store;
use crate::value::{Change, Keep};

enum Put<R> {
    /// With what the value before became.
    Done(Option<R>),
    NoRoom,
}

enum Room {
    Made,
    ParentFull,
}

/// Memory for a node that is not linked yet; freed if it never is.
pub struct Fresh<'t, M: Memory, const WORDS: usize> {
    store: &'t Store<M>,
    link: Option<Link>,
}

impl<'t, M: Memory, const WORDS: usize> Fresh<'t, M, WORDS> {
    pub fn new(store: &'t Store<M>, new: NewNode) -> Result<Self, OutOfMemory> {
        let slot = store.allocate(new, Body::<WORDS>::BYTES)?;
        let link = Some(Link::to_slot(slot));
        Ok(Fresh { store, link })
    }

    /// In exactly this tier.
    pub fn new_in(store: &'t Store<M>, tier: TierId) -> Result<Self, OutOfMemory> {
        let slot = store.allocate_in(tier, Body::<WORDS>::BYTES)?;
        let link = Some(Link::to_slot(slot));
        Ok(Fresh { store, link })
    }

    /// Where it is going to be.
    pub fn tier(&self) -> Option<TierId> {
        let address = self.link?.address();
        Some(self.store.arenas().tier_of(address))
    }

    /// What is going to lead there.
    pub fn link(&self) -> Link {
        self.link.expect("not linked yet")
    }

    /// It is about to be linked.
    pub fn keep(mut self) -> Link {
        self.link.take().expect("linked once")
    }
}

impl<M: Memory, const WORDS: usize> Drop for Fresh<'_, M, WORDS> {
    fn drop(&mut self) {
        if let Some(link) = self.link {
            link.free::<WORDS>(self.store.arenas());
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, Values<H>> {
    /// Inserts or replaces by what `change` makes of the value before, atomically. Returns what
    /// `out` makes of the value before.
    pub fn upsert<R>(
        &self,
        key: u64,
        mut change: impl Change,
        mut out: impl FnMut(u64) -> R,
    ) -> Result<Option<R>, InsertError> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            loop {
                match attempt(|| self.put(key, change, &mut out, &guard))? {
                    Put::Done(before) => return Ok(before),
                    Put::NoRoom => self.make_room(At::leaf(key), &guard)?,
                }
            }
        })
    }

    fn put<R, C: Change>(
        &self,
        key: u64,
        change: &mut C,
        out: &mut impl FnMut(u64) -> R,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let Slot { leaf, found, count } = self.slot::<true>(key, guard)?;
        if found.is_err() && count == Self::CAPACITY {
            return Ok(Put::NoRoom);
        }
        if C::PREPARES {
            let seen = leaf.get(|body| found.ok().map(|index| body.payload(index)))?;
            change.prepare(seen, self.tier_of(leaf))?;
        }
        let held = leaf.upgrade()?;
        let index = found.unwrap_or_else(|index| index);
        self.charge_payload(&held, index);
        let before = found.ok().map(|index| held.payload(index));
        let Some(after) = change.change(before) else {
            held.unchanged();
            return Ok(Put::Done(before.map(out)));
        };
        let access = match found {
            Ok(index) => {
                held.set_payload(index, after);
                self.rewrite_copy(&held, key, after, guard)
            }
            Err(index) => {
                held.insert(index, key, after);
                self.count(1);
                Access::Insert
            }
        };
        if let Some(before) = before {
            self.reclaim_value(before, guard);
        }
        self.note_unlocked(held, access);
        Ok(Put::Done(before.map(out)))
    }
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
    pub fn make_room(&self, place: At<'_>, guard: &Guard) -> Result<(), InsertError> {
        loop {
            match attempt(|| self.try_make_room(place, guard)) {
                Ok(Room::Made) => return Ok(()),
                Ok(Room::ParentFull) => {
                    self.make_room(place.at_height(place.height + 1), guard)?;
                }
                Err(full) => {
                    self.compact(place, guard);
                    return Err(full);
                }
            }
        }
    }

    fn try_make_room(&self, at: At<'_>, guard: &Guard) -> Result<Room, Abort> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(Room::Made);
        };
        if place.node.get(Body::count)? < Self::CAPACITY {
            return Ok(Room::Made);
        }
        if let Parent::Node(above) = place.parent {
            if self.share(above, &place, guard)? {
                return Ok(Room::Made);
            }
            if above.get(Body::count)? == Self::CAPACITY {
                return Ok(Room::ParentFull);
            }
        }
        let fresh = self.fresh_nodes(&place)?;
        let blocks = self.fresh_blocks(&place, &fresh)?;
        self.split(place, fresh, blocks, guard)?;
        Ok(Room::Made)
    }

    /// Memory for the blocks of records that go to another tier with the right half.
    fn fresh_blocks(
        &self,
        place: &Place<'_, WORDS>,
        fresh: &[Option<Fresh<'_, M, WORDS>>; 2],
    ) -> Result<Blocks<'_, M>, Abort> {
        let mut blocks = Blocks::none(&self.store);
        let there = fresh[0].as_ref().and_then(Fresh::tier);
        let here = self.memory().arenas().tier_of(place.link.address());
        if P::BLOCKS
            && place.at.height == 0
            && let Some(tier) = there.filter(|&there| there != here)
        {
            let (from, _) = place.node.get(|body| body.split_point(place.at.key))?;
            blocks.allocate_from::<P, WORDS>(&place.node, from, tier)?;
        }
        Ok(blocks)
    }

    /// Evens out a full node and a neighbour, if one has room to share: one of the same tier rather
    /// than another.
    fn share(
        &self,
        above: Snapshot<'_, Body<WORDS>>,
        full: &Place<'_, WORDS>,
        guard: &Guard,
    ) -> Result<bool, Restart> {
        let tier_of = |link: Link| self.memory().arenas().tier_of(link.address());
        let tier = tier_of(full.link);
        let (index, count) = above.get(|body| {
            let index = body.child_for(self.search, full.at.key);
            (index, body.count())
        })?;
        // What has nothing below it and beside it may lie in any tier.
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
            let link = above.get(|body| body.child(neighbour))?;
            let there = tier_of(link);
            if (there == tier) != is_same {
                continue;
            }
            let sibling = link.node::<WORDS>(guard).read()?;
            above.validate()?;
            let other = sibling.get(Body::count)?;
            if Self::CAPACITY - other < Self::WORTH_SHARING {
                continue;
            }
            let above = above.upgrade()?;
            let keep = (Self::CAPACITY + other) / 2;
            let (left, right);
            if neighbour > index {
                (left, right) = (full.node.upgrade()?, sibling.upgrade()?);
                self.forget_copies(&left, keep..Self::CAPACITY, there, guard);
                left.move_tail(keep, &right);
            } else {
                (left, right) = (sibling.upgrade()?, full.node.upgrade()?);
                let moving = Self::CAPACITY - keep;
                self.forget_copies(&right, 0..moving, there, guard);
                right.move_head(moving, &left);
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
        place: &Place<'_, WORDS>,
    ) -> Result<[Option<Fresh<'_, M, WORDS>>; 2], OutOfMemory> {
        let right = NewNode {
            height: place.at.height,
            level: place.level,
            parent: place.parent.tier(self.memory()),
            split_from: self.memory().arenas().tier_of(place.link.address()),
        };
        if let Parent::Node(_) = place.parent {
            return Ok([Some(Fresh::new(&self.store, right)?), None]);
        }
        let root = Fresh::new(
            &self.store,
            NewNode {
                height: place.at.height + 1,
                ..right
            },
        )?;
        let below = NewNode {
            level: place.level.saturating_add(1),
            parent: root.tier().unwrap_or(right.parent),
            ..right
        };
        match Fresh::new(&self.store, below) {
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
        Place {
            at,
            level,
            parent,
            link,
            node,
        }: Place<'g, WORDS>,
        [right, root]: [Option<Fresh<'_, M, WORDS>>; 2],
        blocks: Blocks<'_, M>,
        guard: &'g Guard<'g>,
    ) -> Result<(), Restart> {
        let parent = parent.upgrade()?;
        let left = node.upgrade()?;
        let right = right.expect("a right half");
        let half = right.link().node::<WORDS>(guard).claim();
        let (layer, height) = (left.layer(), left.height());
        let (middle, border) = left.split_point(at.key);
        half.reset(layer, height, border, left.upper());
        // The placement is told before anything changes, or when all is done: it may panic.
        if height == 0 {
            let (old, new) = (link.address(), right.link().address());
            let placement = &self.store.placement;
            placement.leaf_split(self.leaf_ref(old, &left), self.leaf_ref(new, &half));
        }
        let right = right.keep();
        let there = self.memory().arenas().tier_of(right.address());
        self.forget_copies(&left, middle..left.count(), there, guard);
        left.move_tail(middle, &half);
        left.set_upper(border - 1);
        self.move_blocks(blocks, &half, middle, guard);
        self.count_leaf(height, 1);
        match parent {
            HeldParent::Node(above) => {
                let index = above.child_for(self.search, border);
                debug_assert_eq!(above.child(index), link);
                above.insert(index + 1, border, right.to_word());
                self.check_boundary(at.path, &half);
            }
            above => {
                let root = root.expect("a new root").keep();
                let body = root.node::<WORDS>(guard).claim();
                body.reset(layer, height + 1, 0, u64::MAX);
                body.push(0, link.to_word());
                body.push(border, right.to_word());
                above.adopt::<P>(self.search, 0, root, height + 1);
                self.reaches(level.saturating_add(1));
                self.check_boundary(at.path, &half);
                self.check_boundary(at.path, &body);
            }
        }
        Ok(())
    }

    /// Tells the placement if a node came to lie below the boundary with children above it.
    pub fn check_boundary(&self, path: &[u8], node: &Held<'_, WORDS>) {
        let tier = self.memory().arenas().tier_of(address(node.of()));
        let slow = !tier.is_fast();
        if slow && self.has_fast_child(node) {
            let place = At {
                path,
                key: node.lower(),
                height: node.height(),
            };
            self.store.placement.boundary_broken(place.name());
        }
    }

    /// Whether a child of this locked node is fast, or the root of a layer below. Addresses tell;
    /// no child is touched.
    pub fn has_fast_child(&self, node: &Held<'_, WORDS>) -> bool {
        (0..node.count()).any(|index| {
            let (key, payload) = (node.key(index), node.payload(index));
            let child = match node.height() {
                0 => P::layer(key, payload),
                _ => Some(Link::from_word(payload)),
            };
            child.is_some_and(|child| self.is_fast(child))
        })
    }

    /// The same of a node that is not locked.
    pub fn seems_to_have_fast_child(
        &self,
        node: Snapshot<'_, Body<WORDS>>,
    ) -> Result<bool, Restart> {
        let (height, count) = node.get(|body| (body.height(), body.count()))?;
        for index in 0..if P::LINKS || height > 0 { count } else { 0 } {
            let (key, payload) = node.get(|body| (body.key(index), body.payload(index)))?;
            let child = match height {
                0 => P::layer(key, payload),
                _ => Some(Link::from_word(payload)),
            };
            if child.is_some_and(|child| self.is_fast(child)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
