//! Removing records, and the structure modifications that follow: merges and the loss of a level.
//!
//! A node that falls below a quarter is merged with a neighbour under the same parent, if both
//! together leave some room. An empty leaf without neighbours stays until its parent gets some: where inner
//! nodes merged, their children at the seam are looked at again. So a map from which all was removed is one
//! leaf. Nodes of different tiers merge into the left one, or into the right one where that would put fast
//! children below a slow node.

use timberline_placement::Access;
use timberline_sync::epoch::{self, Guard};
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::node::Body;
use super::tree::{At, Parent, Place, Tree};

/// What may be underfull after a merge: the parent (or the new root), a child at the seam.
type Next = [Option<At>; 2];
const NOTHING: Next = [None, None];

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// Fewer entries than this are too few.
    const UNDERFULL: usize = Self::CAPACITY / 4 + 1;
    /// A merged node may hold this many.
    const MERGED: usize = Self::CAPACITY - Self::CAPACITY / 4;

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: u64) -> Option<u64> {
        let guard = epoch::pin();
        let (value, left) = self.retry(|| self.take(key, &guard))?;
        if left < Self::UNDERFULL {
            self.shrink(At::leaf(key), &guard);
        }
        Some(value)
    }

    /// Removes a record from its leaf. Returns its value and how many are left there.
    fn take(&self, key: u64, guard: &Guard) -> Result<Option<(u64, usize)>, Restart> {
        let Some((leaf, index)) = self.record(key, guard)? else {
            return Ok(None);
        };
        let held = leaf.upgrade()?;
        self.touch(&held, index);
        let value = held.payload(index);
        held.remove(index);
        self.count(-1);
        let left = held.count();
        self.note_unlocked(held, Access::Reuse);
        Ok(Some((value, left)))
    }

    /// Merges an underfull node, and then whatever became underfull, or got a neighbour, by that.
    fn shrink(&self, mut place: At, guard: &Guard) {
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
    fn try_shrink(&self, at: At, guard: &Guard) -> Result<Next, Restart> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(NOTHING);
        };
        let count = place.node.get(Body::count)?;
        let above = match place.parent {
            Parent::Root(_) if at.height > 0 && count == 1 => {
                return self.drop_level(at, place, guard);
            }
            Parent::Root(_) => return Ok(NOTHING),
            Parent::Node(above) => above,
        };
        let parent = At {
            key: at.key,
            height: at.height + 1,
        };
        if count >= Self::UNDERFULL {
            return Ok(NOTHING);
        }
        let (index, children) =
            above.get(|body| (body.child_for(self.search, at.key), body.count()))?;
        let right = Some(index).filter(|right| right + 1 < children);
        for left in [right, index.checked_sub(1)].into_iter().flatten() {
            if let Some(seam) = self.merge(above, left, guard)? {
                let height = at.height.checked_sub(1);
                let child = height.map(|height| At { key: seam, height });
                // The parent lost an entry; it may be underfull, or a root with one child.
                return Ok([Some(parent), child]);
            }
        }
        Ok(NOTHING)
    }

    /// Merges the children at `left` and `left + 1`, if they fit. Returns the key where they met.
    fn merge(
        &self,
        above: Snapshot<'_, Body<WORDS>>,
        left: usize,
        guard: &Guard,
    ) -> Result<Option<u64>, Restart> {
        let (one, two) = above.get(|body| (body.child(left), body.child(left + 1)))?;
        let first = one.node::<WORDS>(guard).read()?;
        let second = two.node::<WORDS>(guard).read()?;
        above.validate()?;
        if first.get(Body::count)? + second.get(Body::count)? > Self::MERGED {
            return Ok(None);
        }
        let above = above.upgrade()?;
        let (first, second) = (first.upgrade()?, second.upgrade()?);
        let (height, seam) = (second.height(), second.lower());
        let into_slow = !self.memory().arenas().tier_of(one.address()).is_fast();
        above.remove(left + 1);
        if into_slow && self.has_fast_child(&second) {
            first.move_tail(0, &second);
            second.set_lower(first.lower());
            above.set_payload(left, two.to_word());
            first.retire();
            self.reclaim(one, height, guard);
        } else {
            second.move_head(second.count(), &first);
            first.set_upper(second.upper());
            second.retire();
            self.reclaim(two, height, guard);
        }
        Ok(Some(seam))
    }

    /// Makes the only child of the root the root.
    fn drop_level(
        &self,
        at: At,
        Place { parent, link, node }: Place<'_, WORDS>,
        guard: &Guard,
    ) -> Result<Next, Restart> {
        let Parent::Root(cell) = parent else {
            unreachable!("the root's parent")
        };
        let cell = cell.upgrade()?;
        let root = node.upgrade()?;
        cell.set(root.child(0), at.height - 1);
        root.retire();
        self.reclaim(link, at.height, guard);
        let child = At {
            key: at.key,
            height: at.height - 1,
        };
        Ok([Some(child), None])
    }
}
