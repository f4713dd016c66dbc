//! Merging underfull nodes, and the loss of a level.
//!
//! A node that falls below a quarter is merged with a neighbour under the same parent, if both
//! together leave some room. An empty leaf without neighbours stays until its parent gets some:
//! where inner nodes merged, their children at the seam are looked at again. So a map from which
//! all was removed is one leaf. Nodes of different tiers merge into the left one, or into the right
//! one where that would put fast children below a slow node.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::{Location, NodeName, Parent};
use super::node::{Body, Link, View, Write};
use super::payload::Payload;
use super::tree::Tree;
use crate::seeded::{self, Bug};

/// What may be underfull after a merge: the parent (or the new root), a child at the seam.
type Next<'g> = [Option<NodeName<'g>>; 2];
const NOTHING: Next<'static> = [None, None];

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Fewer entries than this are too few.
    pub const UNDERFULL: usize = Self::CAPACITY / 4 + 1;
    /// A merged node may hold this many.
    const MERGED: usize = Self::CAPACITY - Self::CAPACITY / 4;

    /// Merges an underfull node, and then whatever became underfull, or got a neighbour, by that.
    pub fn shrink<'g>(&'g self, mut place: NodeName<'g>, guard: &'g Guard<'g>) {
        loop {
            let [parent, seam] = self.retry(|| self.try_shrink(place, guard));
            if let Some(seam) = seam {
                self.shrink(seam, guard);
            }
            match parent {
                Some(parent) => place = parent,
                None => return,
            }
        }
    }

    /// Returns the nodes to look at next.
    fn try_shrink<'g>(
        &'g self,
        at: NodeName<'g>,
        guard: &'g Guard<'g>,
    ) -> Result<Next<'g>, Restart> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(NOTHING);
        };
        let at = place.at;
        let count = place.node.get(Body::count)?;
        let above = match place.parent {
            Parent::Node(above) => above,
            _ if at.height > 0 && count == 1 => return self.drop_level(place, guard),
            Parent::Leaf(..) if at.height == 0 && count == 0 => {
                return self.drop_layer(place, guard);
            }
            _ => return Ok(NOTHING),
        };
        if count >= Self::UNDERFULL {
            return Ok(NOTHING);
        }
        let (index, children) =
            above.get(|body| (body.child_for(self.search, at.key), body.count()))?;
        let right = Some(index).filter(|right| right + 1 < children);
        for left in [right, index.checked_sub(1)].into_iter().flatten() {
            if let Some(key) = self.merge(above, left, at.height, Self::MERGED, guard)? {
                let parent = at.at_height(at.height + 1);
                let seam = at.height.checked_sub(1);
                let child = seam.map(|height| NodeName { key, height, ..at });
                // The parent lost an entry; it may be underfull, or a root with one child.
                return Ok([Some(parent), child]);
            }
        }
        Ok(NOTHING)
    }

    /// Merges the children at `left` and `left + 1`, of this height, if they have `most` entries
    /// together. Returns the key where they met.
    pub(super) fn merge(
        &self,
        above: View<'_, WORDS>,
        left: usize,
        height: u8,
        most: usize,
        guard: &Guard,
    ) -> Result<Option<u64>, Restart> {
        let (one, two) = (above.child(left)?, above.child(left + 1)?);
        let (first, second) = (one.read()?, two.read()?);
        above.validate()?;
        let counts = (first.get(Body::count)?, second.get(Body::count)?);
        if counts.0 + counts.1 > most {
            return Ok(None);
        }
        let tier_of = |link: Link<'_, WORDS>| self.memory().arenas().tier_of(link.address());
        // Blocks lie in their leaf's tier: where there may be some, the one that goes is empty.
        let apart = P::BLOCKS && height == 0 && tier_of(one) != tier_of(two);
        if apart && counts.0 > 0 && counts.1 > 0 {
            return Ok(None);
        }
        let above = above.upgrade()?;
        let (first, second) = (first.upgrade()?, second.upgrade()?);
        for node in [&first, &second] {
            self.take_over_all(node, guard);
        }
        let seam = second.lower();
        let sinks = self.has_child_faster_than(tier_of(one), &second);
        let unlinked = if (apart && counts.0 == 0) || sinks {
            self.forget_copies(&first, 0..counts.0, tier_of(two), guard);
            first.move_tail(0, &second);
            second.set_lower(first.lower());
            let unlinked = Body::remove_child(&above, left, &first);
            above.set_key(left, first.lower());
            first.retire();
            unlinked
        } else {
            self.forget_copies(&second, 0..counts.1, tier_of(one), guard);
            let left_behind = usize::from(seeded::has(Bug::LastLeftBehind));
            second.move_head(second.count().saturating_sub(left_behind), &first);
            first.set_upper(second.upper());
            let unlinked = Body::remove_child(&above, left + 1, &second);
            second.retire();
            unlinked
        };
        self.reclaim(unlinked, guard);
        Ok(Some(seam))
    }

    /// Makes the only child of the root the root.
    fn drop_level<'g>(
        &'g self,
        place: Location<'g, WORDS>,
        guard: &'g Guard<'g>,
    ) -> Result<Next<'g>, Restart> {
        let parent = place.parent.upgrade()?;
        let root = place.node.upgrade()?;
        let child = place.at.at_height(place.at.height - 1);
        let unlinked = parent.lower(self.search, &root);
        root.retire();
        self.reclaim(unlinked, guard);
        Ok([Some(child), None])
    }

    /// Unlinks an empty layer. Its root is locked together with the leaf above, so that no thread
    /// inserts meanwhile.
    fn drop_layer<'g>(
        &'g self,
        place: Location<'g, WORDS>,
        guard: &'g Guard<'g>,
    ) -> Result<Next<'g>, Restart> {
        let Parent::Leaf(above, entry) = place.parent else {
            unreachable!("a layer hangs below a leaf")
        };
        let (above, root) = (above.upgrade()?, place.node.upgrade()?);
        let index = above.find(self.search, entry.key);
        let index = index.expect("a layer has an entry").index();
        let arenas = self.memory().arenas();
        let (unlinked, blocks) = Body::remove_layer(&above, index, &root, arenas);
        root.retire();
        self.reclaim(unlinked, guard);
        for block in blocks.into_iter().flatten() {
            block.reclaim(&self.store, guard);
        }
        Ok([Some(entry), None])
    }
}
