//! Operations on one record.
//!
//! A value is the payload of an entry, or lies in a record; either is written under the lock of the border node, so that whoever reads it under
//! that node's version knows whether it was there.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::Tree;
use super::deepen::Room;
use super::descent::{End, Locate, Spot};
use super::slice::{Lead, SLICE, has_more, path};
use crate::InsertError;
use crate::abort::{Abort, attempt};
use crate::btree::node::Block;
use crate::btree::tree::{At, Held};
use crate::value::{Change, Keep};

/// What became of an attempt to write.
enum Put<R> {
    /// With what the value before became.
    Done(Option<R>),
    /// The leaf is full.
    NoRoom { depth: usize, word: u64 },
    /// There is a new layer: look again.
    Deeper,
}

/// Where a value is.
#[derive(Clone, Copy)]
pub(super) enum Home {
    Entry(usize),
    Record(usize, Block),
}

impl Home {
    fn value<const WORDS: usize>(self, leaf: &Held<'_, WORDS>) -> u64 {
        match self {
            Home::Entry(index) => leaf.payload(index),
            Home::Record(_, record) => record.word(),
        }
    }

    fn replace<const WORDS: usize>(self, leaf: &Held<'_, WORDS>, value: u64) {
        match self {
            Home::Entry(index) => leaf.set_payload(index, value),
            Home::Record(_, record) => record.set_word(value),
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, H> {
    fn spot<'g>(&'g self, key: &'g [u8], guard: &'g Guard<'g>) -> Spot<'g, WORDS> {
        self.search.run(Locate {
            tree: self,
            key,
            guard,
        })
    }

    /// Where the value of a present record is.
    fn home(&self, key: &[u8], spot: &Spot<'_, WORDS>) -> Option<Home> {
        match spot.end {
            End::Value { index, .. } => Some(Home::Entry(index)),
            End::Record { index, record } => {
                self.memory().charge_access(record.address(), record.used());
                let is_it = record.bytes() == &key[spot.depth + SLICE..];
                is_it.then_some(Home::Record(index, record))
            }
            End::Absent { .. } | End::Beside { .. } => None,
        }
    }

    /// The value of a record that is not locked.
    fn seen(home: Home, spot: &Spot<'_, WORDS>) -> Result<u64, Restart> {
        let value = match home {
            Home::Entry(index) => spot.leaf.get(|body| body.payload(index))?,
            Home::Record(_, record) => record.word(),
        };
        spot.leaf.validate().map(|()| value)
    }

    /// Makes the value of a key what `change` makes of what is there, atomically. Returns what `out` makes of what was there.
    pub fn upsert<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(u64) -> R,
    ) -> Result<Option<R>, InsertError> {
        self.store.reclaiming(&mut change, |change| {
            self.put_pinned(key, change, &mut out, &self.store.pin())
        })
    }

    fn put_pinned<R>(
        &self,
        key: &[u8],
        change: &mut impl Change,
        out: &mut impl FnMut(u64) -> R,
        guard: &Guard,
    ) -> Result<Option<R>, InsertError> {
        loop {
            match attempt(|| self.try_put(key, change, out, guard))? {
                Put::Done(before) => return Ok(before),
                Put::Deeper => {}
                Put::NoRoom { depth, word } => {
                    let path = &path(&key[..depth])[..];
                    let leaf = At {
                        path,
                        key: word,
                        height: 0,
                    };
                    self.make_room(leaf, guard)?;
                }
            }
        }
    }

    fn try_put<R, C: Change>(
        &self,
        key: &[u8],
        change: &mut C,
        out: &mut impl FnMut(u64) -> R,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let spot = self.spot(key, guard);
        if let Some(home) = self.home(key, &spot) {
            let before = self.replace(home, &spot, change, out, guard)?;
            return Ok(Put::Done(Some(before)));
        }
        match spot.end {
            End::Absent { index, count } => {
                if count == Self::CAPACITY {
                    let Spot { depth, word, .. } = spot;
                    return Ok(Put::NoRoom { depth, word });
                }
                self.add(key, &spot, index, change)
            }
            _ => {
                self.deepen(key, &spot, guard)?;
                Ok(Put::Deeper)
            }
        }
    }

    /// Replaces the value of a present record. Returns what `out` makes of the value before.
    fn replace<R, C: Change>(
        &self,
        home: Home,
        spot: &Spot<'_, WORDS>,
        change: &mut C,
        out: &mut impl FnMut(u64) -> R,
        guard: &Guard,
    ) -> Result<R, Abort> {
        if C::PREPARES {
            let seen = Self::seen(home, spot)?;
            change.prepare(Some(seen), self.tier_of(spot.leaf))?;
        }
        let held = spot.leaf.upgrade()?;
        let before = home.value(&held);
        match change.change(Some(before)) {
            Some(after) => {
                home.replace(&held, after);
                self.reclaim_value(before, guard);
                self.note_unlocked(held, Access::Reuse);
            }
            None => held.unchanged(),
        }
        Ok(out(before))
    }

    /// Inserts an entry for a key into a leaf with room.
    fn add<R, C: Change>(
        &self,
        key: &[u8],
        spot: &Spot<'_, WORDS>,
        index: usize,
        change: &mut C,
    ) -> Result<Put<R>, Abort> {
        let mut room = None;
        let tier = self.tier_of(spot.leaf);
        if has_more(spot.word) {
            let rest = &key[spot.depth + SLICE..];
            let block = Room::new(&self.store, tier, Block::slot_for(rest.len()))?;
            room = Some((block, rest));
        }
        if C::PREPARES {
            change.prepare(None, tier)?;
        }
        let held = spot.leaf.upgrade()?;
        self.charge_payload(&held, index);
        let Some(value) = change.change(None) else {
            held.unchanged();
            return Ok(Put::Done(None));
        };
        let payload = match room {
            Some((room, rest)) => Lead::Record(room.block(value, &[rest])).payload(),
            None => value,
        };
        held.insert(index, spot.word, payload);
        self.count(1);
        self.reaches(spot.level);
        self.note_unlocked(held, Access::Insert);
        Ok(Put::Done(None))
    }

    /// Replaces a present record's value by `change` of it, atomically. Returns what `out` makes of the value before.
    pub fn modify<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(u64) -> R,
    ) -> Result<Option<R>, InsertError> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            attempt(|| {
                let spot = self.spot(key, &guard);
                let home = self.home(key, &spot);
                home.map(|home| self.replace(home, &spot, change, &mut out, &guard))
                    .transpose()
            })
        })
    }

    /// Locks the leaf of a present record.
    fn hold<'g>(
        &self,
        key: &[u8],
        spot: &Spot<'g, WORDS>,
    ) -> Result<Option<(Held<'g, WORDS>, Home)>, Restart> {
        match self.home(key, spot) {
            Some(home) => Ok(Some((spot.leaf.upgrade()?, home))),
            None => Ok(None),
        }
    }

    /// Removes a record. Returns what `out` makes of its value.
    pub fn remove<R>(&self, key: &[u8], out: impl FnOnce(u64) -> R) -> Option<R> {
        let guard = self.store.pin();
        let (value, left, depth, word) = self.retry(|| {
            let spot = self.spot(key, &guard);
            let Some((held, home)) = self.hold(key, &spot)? else {
                return Ok(None);
            };
            let (value, left) = self.take_at(held, home, &guard);
            Ok(Some((value, left, spot.depth, spot.word)))
        })?;
        self.shrink_after(left, &key[..depth], word, &guard);
        Some(out(value))
    }

    /// Removes a record from its leaf. Returns its value, which is there as long as the thread stays pinned, and how many are left.
    pub(super) fn take_at(&self, held: Held<'_, WORDS>, home: Home, guard: &Guard) -> (u64, usize) {
        let value = home.value(&held);
        match home {
            Home::Entry(index) => held.remove(index),
            Home::Record(index, record) => {
                held.remove(index);
                self.reclaim_block(record, record.slot(), guard);
            }
        }
        self.count(-1);
        let left = held.count();
        self.reclaim_value(value, guard);
        self.note_unlocked(held, Access::Reuse);
        (value, left)
    }

    /// Merges the leaf that covers a slice behind these bytes, if so many entries are too few for it.
    pub(super) fn shrink_after(&self, left: usize, before: &[u8], word: u64, guard: &Guard) {
        if left < Self::UNDERFULL {
            let path = &path(before)[..];
            let leaf = At {
                path,
                key: word,
                height: 0,
            };
            self.shrink(leaf, guard);
        }
    }
}
