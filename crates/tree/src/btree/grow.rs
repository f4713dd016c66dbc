//! Inserting records, and the structure modifications that make room: redistribution between siblings
//! and splits.
//!
//! A full node first shares with a sibling in the same tier that has room; only when its neighbours
//! are nearly full too does it split. That is the B*-tree's idea (Knuth, The Art of Computer
//! Programming 3, §6.2.4); it is worth about a tenth of the memory (`docs/design/btree.md`).
//!
//! Locks are taken parent first, then children from left to right. Memory is taken before any lock.

use timberline_placement::{Access, NewNode};
use timberline_sync::epoch::{self, Guard};
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, OutOfMemory};

use super::node::{Body, Link};
use super::tree::{At, Held, HeldParent, Parent, Place, Tree, address};

enum Put {
    Done(Option<u64>),
    NoRoom,
}

enum Room {
    Made,
    ParentFull,
}

/// Memory for a node that is not linked yet; freed if it never is.
struct Fresh<'t, M: Memory, const WORDS: usize> {
    tree: &'t Tree<M, WORDS>,
    link: Option<Link>,
}

impl<'t, M: Memory, const WORDS: usize> Fresh<'t, M, WORDS> {
    fn new(tree: &'t Tree<M, WORDS>, new: NewNode) -> Result<Self, OutOfMemory> {
        Ok(Fresh {
            tree,
            link: Some(tree.allocate(new)?),
        })
    }

    fn link(mut self) -> Link {
        self.link.take().expect("linked once")
    }
}

impl<M: Memory, const WORDS: usize> Drop for Fresh<'_, M, WORDS> {
    fn drop(&mut self) {
        if let Some(link) = self.link {
            self.tree.discard(link);
        }
    }
}

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// A sibling with at least this many free entries is worth sharing with. At least two, so that both
    /// have room afterwards.
    const WORTH_SHARING: usize = if Self::CAPACITY < 16 {
        2
    } else {
        Self::CAPACITY / 8
    };

    /// Inserts or replaces. Returns the value before.
    pub fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        loop {
            let outcome = self.try_insert(key, value, &epoch::pin());
            if outcome.is_ok() || !self.store.reclaimed() {
                return outcome;
            }
        }
    }

    fn try_insert(&self, key: u64, value: u64, guard: &Guard) -> Result<Option<u64>, OutOfMemory> {
        loop {
            match self.retry(|| self.put(key, value, guard)) {
                Put::Done(before) => return Ok(before),
                Put::NoRoom => self.make_room(At::leaf(key), guard)?,
            }
        }
    }

    fn put(&self, key: u64, value: u64, guard: &Guard) -> Result<Put, Restart> {
        let (leaf, share) = self.leaf_near(key, guard);
        let (found, count) =
            leaf.get(|body| (self.seek(self.search, body, key, share), body.count()))?;
        if found.is_err() && count == Self::CAPACITY {
            return Ok(Put::NoRoom);
        }
        let held = leaf.upgrade()?;
        let index = found.unwrap_or_else(|index| index);
        self.touch(&held, index);
        let before = match found {
            Ok(index) => Some(held.replace_payload(index, value)),
            Err(index) => {
                held.insert(index, key, value);
                self.count(1);
                None
            }
        };
        let access = match before {
            Some(_) => Access::Reuse,
            None => Access::Insert,
        };
        self.note_unlocked(held, access);
        Ok(Put::Done(before))
    }

    /// Makes the node at `place` (and, where needed, its ancestors) able to take another entry. Others
    /// may fill it again at once.
    pub fn make_room(&self, place: At, guard: &Guard) -> Result<(), OutOfMemory> {
        loop {
            match self.retry(|| self.try_make_room(place, guard))? {
                Room::Made => return Ok(()),
                Room::ParentFull => {
                    self.make_room(
                        At {
                            key: place.key,
                            height: place.height + 1,
                        },
                        guard,
                    )?;
                }
            }
        }
    }

    fn try_make_room(&self, at: At, guard: &Guard) -> Result<Result<Room, OutOfMemory>, Restart> {
        let Some(place) = self.find(at, guard)? else {
            return Ok(Ok(Room::Made));
        };
        if place.node.get(Body::count)? < Self::CAPACITY {
            return Ok(Ok(Room::Made));
        }
        if let Parent::Node(above) = place.parent {
            if self.share(at.key, above, &place, guard)? {
                return Ok(Ok(Room::Made));
            }
            if above.get(Body::count)? == Self::CAPACITY {
                return Ok(Ok(Room::ParentFull));
            }
        }
        match self.fresh_nodes(at, &place)? {
            Ok(fresh) => self
                .split(at.key, place, fresh, guard)
                .map(|()| Ok(Room::Made)),
            Err(full) => Ok(Err(full)),
        }
    }

    /// Evens out a full node and a neighbour, if one has room to share.
    fn share(
        &self,
        key: u64,
        above: Snapshot<'_, Body<WORDS>>,
        full: &Place<'_, WORDS>,
        guard: &Guard,
    ) -> Result<bool, Restart> {
        let arenas = self.memory().arenas();
        let tier = arenas.tier_of(full.link.address());
        let (index, count) = above.get(|body| (body.child_for(self.search, key), body.count()))?;
        let neighbours = [
            Some(index + 1).filter(|&right| right < count),
            index.checked_sub(1),
        ];
        for neighbour in neighbours.into_iter().flatten() {
            let link = above.get(|body| body.child(neighbour))?;
            if arenas.tier_of(link.address()) != tier {
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
                left.move_tail(keep, &right);
            } else {
                (left, right) = (sibling.upgrade()?, full.node.upgrade()?);
                right.move_head(Self::CAPACITY - keep, &left);
            }
            let border = right.key(0);
            left.set_upper(border - 1);
            right.set_lower(border);
            above.set_key(index.max(neighbour), border);
            // Where the boundary was broken, it may be at two nodes now, and under other names.
            self.check_boundary(&left);
            self.check_boundary(&right);
            return Ok(true);
        }
        Ok(false)
    }

    /// Memory for a split: the new right half and, above a root, a new root.
    #[allow(clippy::type_complexity)]
    fn fresh_nodes(
        &self,
        at: At,
        place: &Place<'_, WORDS>,
    ) -> Result<Result<[Option<Fresh<'_, M, WORDS>>; 2], OutOfMemory>, Restart> {
        let root_height = self.root.read()?.get(|root| root.height())?;
        place.parent.validate()?;
        let tier_of = |link: Link| self.memory().arenas().tier_of(link.address());
        let right = NewNode {
            height: at.height,
            level: root_height.saturating_sub(at.height),
            parent: place.parent.tier(self.memory()),
            twin: tier_of(place.link),
        };
        let Parent::Root(_) = place.parent else {
            return Ok(Fresh::new(self, right).map(|right| [Some(right), None]));
        };
        let root = NewNode {
            height: at.height + 1,
            ..right
        };
        Ok(Fresh::new(self, root).and_then(|root| {
            let parent = root.link.map_or(right.parent, tier_of);
            let below = NewNode {
                level: 1,
                parent,
                ..right
            };
            Ok([Some(Fresh::new(self, below)?), Some(root)])
        }))
    }

    fn split<'g>(
        &'g self,
        key: u64,
        Place { parent, link, node }: Place<'g, WORDS>,
        [right, root]: [Option<Fresh<'_, M, WORDS>>; 2],
        guard: &'g Guard,
    ) -> Result<(), Restart> {
        let parent = parent.upgrade()?;
        let left = node.upgrade()?;
        let right = right.expect("a right half").link();
        let half = right.node::<WORDS>(guard).claim();
        let height = left.height();
        let (at, border) = Self::split_point(&left, key);
        half.reset(height, border, left.upper());
        left.move_tail(at, &half);
        left.set_upper(border - 1);
        if height == 0 {
            let (old, new) = (link.address(), right.address());
            let placement = &self.store.placement;
            placement.leaf_split(self.leaf_ref(old, &left), self.leaf_ref(new, &half));
        } else {
            self.check_boundary(&half);
        }
        match parent {
            HeldParent::Node(above) => {
                let index = above.child_for(self.search, border);
                debug_assert_eq!(above.child(index), link);
                above.insert(index + 1, border, right.to_word());
            }
            HeldParent::Root(cell) => {
                let root = root.expect("a new root").link();
                let body = root.node::<WORDS>(guard).claim();
                body.reset(height + 1, 0, u64::MAX);
                body.push(0, link.to_word());
                body.push(border, right.to_word());
                self.check_boundary(&body);
                cell.set(root, height + 1);
            }
        }
        Ok(())
    }

    /// How many entries stay in the left half, and the first key of the right one. A run of ascending keys at
    /// the tree's end leaves full nodes behind.
    fn split_point(full: &Held<'_, WORDS>, key: u64) -> (usize, u64) {
        let count = full.count();
        let ascending = full.upper() == u64::MAX && key > full.key(count - 1);
        match (ascending, full.height()) {
            (true, 0) => (count, key),
            (true, _) => (count - 1, full.key(count - 1)),
            (false, _) => (count / 2, full.key(count / 2)),
        }
    }

    /// Tells the placement if an inner node came to lie below the boundary with children above it.
    fn check_boundary(&self, node: &Held<'_, WORDS>) {
        let tier = self.memory().arenas().tier_of(address(node.of()));
        let slow = !tier.is_fast();
        if slow && self.has_fast_child(node) {
            let place = At {
                key: node.lower(),
                height: node.height(),
            };
            self.store.placement.boundary_broken(place.name());
        }
    }

    /// Whether a child of this inner node is fast. Addresses tell; no child is touched.
    pub fn has_fast_child(&self, node: &Body<WORDS>) -> bool {
        let arenas = self.memory().arenas();
        node.height() > 0
            && (0..node.count()).any(|index| arenas.tier_of(node.child(index).address()).is_fast())
    }
}
