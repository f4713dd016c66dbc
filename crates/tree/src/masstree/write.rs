//! Operations on one record.
//!
//! A value is the payload of an entry, or lies in a record; either is written under the lock of the border node, so that whoever reads it under
//! that node's version knows whether it was there.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, OutOfMemory};

use super::Tree;
use super::deepen::Room;
use super::descent::{End, Locate, Spot};
use super::slice::{Lead, SLICE, has_more, path};
use crate::btree::node::Block;
use crate::btree::tree::{At, Held, address};

/// What became of an attempt to write.
enum Put {
    Done(Option<u64>),
    /// The leaf is full.
    NoRoom {
        depth: usize,
        word: u64,
    },
    /// There is a new layer: look again.
    Deeper,
    Full(OutOfMemory),
}

/// Where a value is.
#[derive(Clone, Copy)]
enum Home {
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

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    fn spot<'g>(&'g self, key: &'g [u8], guard: &'g Guard) -> Spot<'g, WORDS> {
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
                self.memory().visit(record.address(), record.used());
                let is_it = record.bytes() == &key[spot.depth + SLICE..];
                is_it.then_some(Home::Record(index, record))
            }
            End::Absent { .. } | End::Beside { .. } => None,
        }
    }

    /// Makes the value of a key `value` of what is there. Returns what was there. `value` is called once, while the record
    /// is locked.
    pub fn put(
        &self,
        key: &[u8],
        mut value: impl FnMut(Option<u64>) -> u64,
    ) -> Result<Option<u64>, OutOfMemory> {
        loop {
            let outcome = self.put_pinned(key, &mut value, &epoch::pin());
            if outcome.is_ok() || !self.store.reclaimed() {
                return outcome;
            }
        }
    }

    fn put_pinned(
        &self,
        key: &[u8],
        value: &mut impl FnMut(Option<u64>) -> u64,
        guard: &Guard,
    ) -> Result<Option<u64>, OutOfMemory> {
        loop {
            match self.retry(|| self.try_put(key, value, guard)) {
                Put::Done(before) => return Ok(before),
                Put::Full(full) => return Err(full),
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

    fn try_put(
        &self,
        key: &[u8],
        value: &mut impl FnMut(Option<u64>) -> u64,
        guard: &Guard,
    ) -> Result<Put, Restart> {
        let spot = self.spot(key, guard);
        if let Some(home) = self.home(key, &spot) {
            let held = spot.leaf.upgrade()?;
            let before = home.value(&held);
            home.replace(&held, value(Some(before)));
            self.note_unlocked(held, Access::Reuse);
            return Ok(Put::Done(Some(before)));
        }
        match spot.end {
            End::Absent { index, count } => {
                if count == Self::CAPACITY {
                    let Spot { depth, word, .. } = spot;
                    return Ok(Put::NoRoom { depth, word });
                }
                self.add(key, &spot, index, value)
            }
            _ => {
                let deeper = self.deepen(key, &spot, guard)?;
                Ok(deeper.map_or_else(Put::Full, |()| Put::Deeper))
            }
        }
    }

    /// Inserts an entry for a key into a leaf with room.
    fn add(
        &self,
        key: &[u8],
        spot: &Spot<'_, WORDS>,
        index: usize,
        value: &mut impl FnMut(Option<u64>) -> u64,
    ) -> Result<Put, Restart> {
        let mut room = None;
        if has_more(spot.word) {
            let rest = &key[spot.depth + SLICE..];
            let tier = self.memory().arenas().tier_of(address(spot.leaf.of()));
            match Room::new(&self.store, tier, Block::slot_for(rest.len())) {
                Ok(fitting) => room = Some((fitting, rest)),
                Err(full) => return Ok(Put::Full(full)),
            }
        }
        let held = spot.leaf.upgrade()?;
        self.touch(&held, index);
        let value = value(None);
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

    /// Replaces a present record's value by `change` of it, atomically. Returns the value before;
    /// `change` returning `None` leaves the record alone.
    pub fn modify(&self, key: &[u8], mut change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let guard = epoch::pin();
        self.retry(|| {
            let spot = self.spot(key, &guard);
            let Some((held, home)) = self.hold(key, &spot)? else {
                return Ok(None);
            };
            let before = home.value(&held);
            match change(before) {
                Some(after) => {
                    home.replace(&held, after);
                    self.note_unlocked(held, Access::Reuse);
                }
                None => held.unchanged(),
            }
            Ok(Some(before))
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

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: &[u8]) -> Option<u64> {
        let guard = epoch::pin();
        let (value, left, depth, word) = self.retry(|| {
            let spot = self.spot(key, &guard);
            let Some((held, home)) = self.hold(key, &spot)? else {
                return Ok(None);
            };
            let value = home.value(&held);
            match home {
                Home::Entry(index) => held.remove(index),
                Home::Record(index, record) => {
                    held.remove(index);
                    self.reclaim_block(record, record.slot(), &guard);
                }
            }
            self.count(-1);
            let left = held.count();
            self.note_unlocked(held, Access::Reuse);
            Ok(Some((value, left, spot.depth, spot.word)))
        })?;
        if left < Self::UNDERFULL {
            let path = &path(&key[..depth])[..];
            let leaf = At {
                path,
                key: word,
                height: 0,
            };
            self.shrink(leaf, &guard);
        }
        Some(value)
    }
}
