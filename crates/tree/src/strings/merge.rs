//! Merging underfull nodes, and the loss of a level, as in the B+tree of words (`btree/merge.rs`);
//! and, where memory is used up, merging leaves that are half empty (`btree/compact.rs`).

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::{Location, NodeName, Parent};
use super::node::{LongKeys, Page, View};
use super::tree::Tree;
use crate::seeded::{self, Bug};
use crate::value::Represent;

/// What may be underfull after a merge: the parent or the new root, and a child at the seam.
#[derive(Default)]
struct Next {
    parent: bool,
    seam: Option<Vec<u8>>,
    /// The tree lost a level.
    below: bool,
}

/// Parents below which leaves are looked at for memory, at most.
const PARENTS: usize = 16;
/// Leaves that are enough: one insert takes a node or two.
const ENOUGH: usize = 4;

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Merges an underfull node, and then whatever became underfull, or got a neighbour, by that.
    pub(super) fn shrink(&self, mut place: NodeName<'_>, guard: &Guard) {
        loop {
            let next = self.retry(|| self.try_shrink(place, guard));
            if let Some(seam) = next.seam
                && let Some(height) = place.height.checked_sub(1)
            {
                let key = &seam[..];
                self.shrink(NodeName { key, height }, guard);
            }
            place = match (next.parent, next.below) {
                (true, _) => place.at_height(place.height + 1),
                (_, true) => place.at_height(place.height - 1),
                _ => return,
            };
        }
    }

    /// Returns the nodes to look at next.
    fn try_shrink(&self, at: NodeName<'_>, guard: &Guard) -> Result<Next, Restart> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(Next::default());
        };
        let (count, is_underfull) = place.node.get(|page| (page.count(), page.is_underfull()))?;
        let above = match place.parent {
            Parent::Node(above) => above,
            Parent::Root(_) if at.height > 0 && count == 1 => return self.drop_level(place, guard),
            Parent::Root(_) => return Ok(Next::default()),
        };
        if !is_underfull {
            return Ok(Next::default());
        }
        let children = above.get(Page::count)?;
        let right = Some(place.index).filter(|right| right + 1 < children);
        for left in [right, place.index.checked_sub(1)].into_iter().flatten() {
            if let Some(seam) = self.merge(above, left, at.height, false, guard)? {
                return Ok(Next {
                    parent: true,
                    seam: Some(seam),
                    below: false,
                });
            }
        }
        Ok(Next::default())
    }

    /// Merges the children at `left` and `left + 1`, of this height, if they fit one node: three
    /// quarters of it, or `all`. Returns the key where they met.
    fn merge(
        &self,
        above: View<'_, WORDS>,
        left: usize,
        height: u8,
        all: bool,
        guard: &Guard,
    ) -> Result<Option<Vec<u8>>, Restart> {
        let memory = self.memory();
        let (first, second) = (above.child(left)?.read()?, above.child(left + 1)?.read()?);
        above.validate()?;
        let counts = [first.get(Page::count)?, second.get(Page::count)?];
        let tiers = [first, second].map(|node| self.tier_at(node.address()));
        let tier = tiers[0].max(tiers[1]);
        let Some(mut keys) = Page::fit_together(&first, &second, all, tier, &self.store)? else {
            return Ok(None);
        };
        let apart = tiers[0] != tiers[1];
        let empty = |side: usize| counts[side] == 0;
        // Values' blocks lie in their leaf's tier: the one that goes is empty.
        if apart && H::IN_BLOCKS && height == 0 && !empty(0) && !empty(1) {
            return Ok(None);
        }
        let seam = second.lower(memory)?;
        let above = above.upgrade()?;
        let (first, second) = (first.upgrade()?, second.upgrade()?);
        let sinks = self.has_child_faster_than(tiers[0], &second);
        let into_left = !(apart && empty(0) || sinks);
        if seeded::has(Bug::LastLeftBehind) && into_left {
            Page::lose_last(&second);
        }
        let unlinked = Page::merge(&above, [&first, &second], into_left, &mut keys, memory);
        match into_left {
            true => second.retire(),
            false => first.retire(),
        }
        keys.reclaim(&self.store, guard);
        self.reclaim(unlinked, guard);
        Ok(Some(seam))
    }

    /// Makes the only child of the root the root.
    fn drop_level(&self, place: Location<'_, WORDS>, guard: &Guard) -> Result<Next, Restart> {
        let parent = place.parent.upgrade()?;
        let root = place.node.upgrade()?;
        let mut keys = LongKeys::none();
        let unlinked = parent.lower(&root, &mut keys);
        root.retire();
        keys.reclaim(&self.store, guard);
        self.reclaim(unlinked, guard);
        Ok(Next {
            below: true,
            ..Next::default()
        })
    }

    /// Merges some leaves of the slowest tier, below parents near a key and then at the tree's
    /// beginning.
    #[cold]
    pub(super) fn compact(&self, key: &[u8], guard: &Guard) {
        let (mut key, mut merged) = (key.to_vec(), 0);
        for _ in 0..PARENTS {
            while merged < ENOUGH && self.retry(|| self.merge_a_pair(&key, guard)) {
                merged += 1;
            }
            if merged > 0 {
                // The parent lost entries.
                let key = &key[..];
                self.shrink(NodeName { key, height: 1 }, guard);
            }
            if merged == ENOUGH {
                return;
            }
            key = self
                .retry(|| self.behind_parent(&key, guard))
                .unwrap_or_default();
        }
    }

    /// The upper fence of a leaf's parent, if both are there.
    fn behind_parent(&self, key: &[u8], guard: &Guard) -> Result<Option<Vec<u8>>, Restart> {
        match self.find(NodeName { key, height: 1 }, guard)? {
            Some(above) => above.node.upper(self.memory()),
            None => Ok(None),
        }
    }

    /// Merges the first two neighbours below a leaf's parent that fit into one.
    fn merge_a_pair(&self, key: &[u8], guard: &Guard) -> Result<bool, Restart> {
        let found = self.find(NodeName { key, height: 1 }, guard)?;
        let Some(Location { node: above, .. }) = found else {
            return Ok(false);
        };
        let slowest = self.memory().arenas().slowest();
        for left in 0..above.get(Page::count)?.saturating_sub(1) {
            let is_there = |child| {
                let child = above.child(child)?;
                Ok(self.tier_at(child.address()) == slowest)
            };
            let are_there = is_there(left)? && is_there(left + 1)?;
            if are_there && self.merge(above, left, 0, true, guard)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
