//! Inserting a record, or replacing its value.

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::Tree;
use super::descent::{Cursor, End};
use super::slice::{SLICE, path};
use crate::abort::{Abort, attempt};
use crate::btree::find::NodeName;
use crate::btree::node::{Block, Body, Write, has_more};
use crate::error::Refused;
use crate::value::{Change, Loan, Represent};

/// The result of an attempt to write.
enum Put<R> {
    /// The result of `out` for the old value.
    Done(Option<R>),
    /// The leaf is full.
    Full { depth: usize, word: u64 },
    /// A layer was inserted: the insert restarts.
    Deeper,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Sets a key's value to `change` of the old one, atomically. Returns `out` of the old value.
    pub fn upsert<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.store.reclaiming(&mut change, |change| {
            self.put_pinned(key, change, &mut out, &self.store.pin())
        })
    }

    fn put_pinned<R>(
        &self,
        key: &[u8],
        change: &mut impl Change,
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> Result<Option<R>, Refused> {
        loop {
            match attempt(|| self.try_put(key, change, out, guard))? {
                Put::Done(before) => return Ok(before),
                Put::Deeper => {}
                Put::Full { depth, word } => {
                    let path = &path(&key[..depth])[..];
                    let leaf = NodeName {
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
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let cursor = self.cursor(key, guard);
        if let Some(slot) = self.slot(key, &cursor) {
            let before = self.replace(key, slot, &cursor, change, out, guard)?;
            return Ok(Put::Done(Some(before)));
        }
        match cursor.end {
            End::Absent { index, count } => {
                if count == Self::CAPACITY {
                    let Cursor { depth, word, .. } = cursor;
                    return Ok(Put::Full { depth, word });
                }
                self.add(key, &cursor, index, change, guard)
            }
            _ => {
                self.deepen(key, &cursor, guard)?;
                Ok(Put::Deeper)
            }
        }
    }

    /// Inserts an entry for a key into a leaf that is not full.
    fn add<R, C: Change>(
        &self,
        key: &[u8],
        cursor: &Cursor<'_, WORDS>,
        index: usize,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let mut suffix = None;
        let tier = self.tier_of(*cursor.leaf);
        if has_more(cursor.word) {
            let rest = &key[cursor.depth + SLICE..];
            let slot = self
                .store
                .allocate_from(tier, Block::slot_for(rest.len()))?;
            suffix = Some((slot, rest));
        }
        if C::PREPARES {
            change.prepare(None, tier)?;
        }
        let held = cursor.leaf.upgrade()?;
        self.charge_payload(&held, index);
        let Some(value) = change.change(None) else {
            held.unchanged();
            return Ok(Put::Done(None));
        };
        match suffix {
            Some((slot, rest)) => {
                Body::insert_record(&held, index, cursor.word, slot, rest, value);
            }
            None => held.insert(index, cursor.word, value),
        }
        self.count(1);
        self.reaches(cursor.level);
        self.note_unlocked(held, Access::Insert, guard);
        Ok(Put::Done(None))
    }
}
