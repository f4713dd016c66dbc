//! Making room for an entry: redistribution between siblings, and splits, as in the B+tree of words
//! (`btree/split.rs`). Locks are taken parent first, then children from left to right. Memory is
//! taken before any lock.

use timberline_placement::NewNode;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory, Slot, TierId};

use super::beside::Beside;
use super::find::{Location, NodeName, Parent};
use super::node::{Cut, Fresh, LockedParent, LongKeys, Page, Shares, Sought, View};
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::map::Batch;
use crate::seeded::{self, Bug};
use crate::value::Represent;

/// How a full node is divided.
#[derive(Clone, Copy)]
pub(super) enum Halves<'b> {
    /// A neighbour takes some of its entries, or a new node half of them. At the tree's end
    /// ascending keys leave full nodes all the same.
    Even,
    /// For the ascending keys of a batch, from one on: what they are behind stays, full. A leaf is
    /// divided even if there is room, where that leaves it to the run.
    OfRun(&'b Batch, usize),
}

enum Outcome {
    Made,
    /// The parent has no room for this key.
    ParentFull(Vec<u8>),
}

/// The memory that a split takes.
struct Taken<'t, M: Memory> {
    right: Slot<'t>,
    /// For a new root.
    root: Option<Slot<'t>>,
    keys: LongKeys<'t>,
    beside: Beside<'t, M>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Makes the node at `place` (and, where needed, its ancestors) able to take its key. Others
    /// may fill it again at once.
    ///
    /// # Errors
    /// There is no memory for a node. Where leaves could be merged, there is some for the next
    /// attempt, when it is reclaimed.
    pub(super) fn make_room(
        &self,
        place: NodeName<'_>,
        halves: Halves<'_>,
        guard: &Guard,
    ) -> Result<(), Refused> {
        loop {
            match attempt(|| self.try_make_room(place, halves, guard)) {
                Ok(Outcome::Made) => return Ok(()),
                Ok(Outcome::ParentFull(key)) => {
                    let (key, height) = (&key[..], place.height + 1);
                    self.make_room(NodeName { key, height }, halves, guard)?;
                }
                Err(full) => {
                    self.compact(place.key, guard);
                    return Err(full);
                }
            }
        }
    }

    fn try_make_room(
        &self,
        at: NodeName<'_>,
        halves: Halves<'_>,
        guard: &Guard,
    ) -> Result<Outcome, Abort> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(Outcome::Made);
        };
        let planned = match halves {
            Halves::Even => None,
            Halves::OfRun(batch, from) => self.cut_for_run(&place.node, batch, from)?,
        };
        if planned.is_none() && place.node.get(|page| page.has_room_for(at.key))? {
            return Ok(Outcome::Made);
        }
        if let Halves::Even = halves
            && let Parent::Node(above) = place.parent
            && self.share(above, &place, guard)?
        {
            return Ok(Outcome::Made);
        }
        let cut = match planned {
            Some(cut) => cut,
            None => {
                let is_run =
                    matches!(halves, Halves::OfRun(..)) || place.node.get(Page::is_last)?;
                Cut::of(&place.node, at.key, is_run, self.memory())?
            }
        };
        if let Parent::Node(above) = place.parent
            && !above.get(|page| page.has_room_for(&cut.key))?
        {
            return Ok(Outcome::ParentFull(cut.key));
        }
        let taken = self.take_memory(at.height, &place, &cut)?;
        self.split(at, place, &cut, taken, guard)?;
        Ok(Outcome::Made)
    }

    /// Where to split a leaf for a run; `None` if there is no such place, or if it is no leaf.
    fn cut_for_run(
        &self,
        node: &View<'_, WORDS>,
        batch: &Batch,
        from: usize,
    ) -> Result<Option<Cut>, Restart> {
        let memory = self.memory();
        let Some(leaf) = node.leaf() else {
            return Ok(None);
        };
        let Err(index) = leaf.seek(Sought::new(batch.key(from)), memory)? else {
            return Ok(None);
        };
        if index < leaf.get(Page::count)? {
            let end = batch.end_below(from, Some(&leaf.key(index, memory)?));
            return Cut::behind_run(&leaf, index, batch.key(end - 1), memory);
        }
        let end = batch.end_below(from, leaf.upper(memory)?.as_deref());
        Cut::of_run(&leaf, (from..end).map(|at| batch.key(at)), memory)
    }

    /// Evens out a full node and a neighbour in the same tier, if one has room to share.
    fn share(
        &self,
        above: View<'_, WORDS>,
        full: &Location<'_, WORDS>,
        guard: &Guard,
    ) -> Result<bool, Restart> {
        let (tier, memory) = (self.tier_at(full.node.address()), self.memory());
        let children = above.get(Page::count)?;
        let right = Some(full.index + 1).filter(|&right| right < children);
        for neighbour in [right, full.index.checked_sub(1)].into_iter().flatten() {
            let link = above.child(neighbour)?;
            if self.tier_at(link.address()) != tier {
                continue;
            }
            let sibling = link.read()?;
            above.validate()?;
            if !sibling.get(Page::is_worth_sharing)? {
                continue;
            }
            let (left, right) = match neighbour > full.index {
                true => (full.node, sibling),
                false => (sibling, full.node),
            };
            let Some(shares) = Shares::of(&left, &right, memory)? else {
                continue;
            };
            if !above.get(|page| page.has_room_for(&shares.key))? {
                continue;
            }
            let above = above.upgrade()?;
            let (left, right) = (left.upgrade()?, right.upgrade()?);
            let mut keys = LongKeys::none();
            shares.share(&above, &left, &right, &mut keys, memory);
            keys.reclaim(&self.store, guard);
            // Where the boundary was broken, it may be at two nodes now, and under other names.
            self.check_boundary(&left);
            self.check_boundary(&right);
            return Ok(true);
        }
        Ok(false)
    }

    fn take_memory(
        &self,
        height: u8,
        place: &Location<'_, WORDS>,
        cut: &Cut,
    ) -> Result<Taken<'_, M>, Abort> {
        let here = self.tier_at(place.node.address());
        let (right, root) = self.fresh_nodes(height, place, here)?;
        let there = right.tier();
        let keys = LongKeys::of::<WORDS>(&self.store, &cut.key, Cut::BLOCKS, here.max(there))?;
        let beside = match here == there {
            true => Beside::none(),
            false => Beside::of_right::<WORDS, H>(&self.store, &place.node, cut.first(), there)?,
        };
        Ok(Taken {
            right,
            root,
            keys,
            beside,
        })
    }

    /// The new right half and, above a root, a new root.
    fn fresh_nodes(
        &self,
        height: u8,
        place: &Location<'_, WORDS>,
        split_from: TierId,
    ) -> Result<(Slot<'_>, Option<Slot<'_>>), OutOfMemory> {
        let right = NewNode {
            height,
            level: place.level,
            parent: place.parent.tier(self.memory()),
            split_from,
        };
        if let Parent::Node(_) = place.parent {
            return Ok((self.store.allocate(right, Self::BYTES)?, None));
        }
        let above = NewNode {
            height: height + 1,
            ..right
        };
        let root = self.store.allocate(above, Self::BYTES)?;
        let below = NewNode {
            level: place.level.saturating_add(1),
            parent: root.tier(),
            ..right
        };
        match self.store.allocate(below, Self::BYTES) {
            Ok(right) => Ok((right, Some(root))),
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
        at: NodeName<'_>,
        place: Location<'g, WORDS>,
        cut: &Cut,
        taken: Taken<'g, M>,
        guard: &'g Guard<'g>,
    ) -> Result<(), Restart> {
        let (Location { parent, node, .. }, memory) = (place, self.memory());
        let lower = node.lower(memory)?;
        let parent = parent.upgrade()?;
        let left = node.upgrade()?;
        let Taken {
            right,
            root,
            mut keys,
            beside,
        } = taken;
        let half = Fresh::empty(right, at.height);
        // The placement is told before anything changes: it may panic.
        if at.height == 0 {
            let left = self.leaf_ref(node.address(), &left, &lower);
            let right = self.leaf_ref(half.address(), &half, &cut.key);
            self.store.placement.leaf_split(left, right);
        }
        cut.fill_right(&half, &left, &mut keys, memory);
        cut.finish(&left, &mut keys, memory);
        self.move_beside(beside, half.locked(), cut.first(), &mut keys, guard);
        self.count_leaf(at.height, 1);
        let (above, is_new) = match parent {
            LockedParent::Node(above) => (above, false),
            root_cell => (root_cell.raise(&left, root.expect("a new root")), true),
        };
        let half = Page::insert_child(&above, &cut.key, half, &mut keys, memory);
        self.check_boundary(&half);
        if is_new {
            self.check_boundary(&above);
        }
        keys.reclaim(&self.store, guard);
        Ok(())
    }
}
