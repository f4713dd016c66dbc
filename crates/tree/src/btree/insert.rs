//! Inserting a record, or replacing its value.

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::descent::{Cursor, Place};
use super::find::NodeName;
use super::node::{Body, Write};
use super::payload::Values;
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::value::{Change, Loan, Represent};

pub(super) enum Put<R> {
    /// The result of `out` for the old value.
    Done(Option<R>),
    /// The leaf is full.
    Full,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Inserts or replaces a record atomically: `change` computes the new value from the old one.
    /// Returns `out` of the old value.
    pub fn upsert<R>(
        &self,
        key: u64,
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            loop {
                match attempt(|| self.put::<true, _, _>(key, change, &mut out, &guard))? {
                    Put::Done(before) => return Ok(before),
                    Put::Full => self.make_room(NodeName::leaf(key), &guard)?,
                }
            }
        })
    }

    /// Replaces the value of a record, or inserts one if it may and there is none.
    #[inline(always)]
    pub(super) fn put<const INSERTS: bool, R, C: Change>(
        &self,
        key: u64,
        change: &mut C,
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let Cursor { leaf, found, count } = match self.place_of::<INSERTS>(key, guard)? {
            Place::Leaf(cursor) => cursor,
            Place::Copy(copy) => {
                let before = self.put_in_copy(key, copy, change, out, guard);
                return Ok(Put::Done(Some(before)));
            }
        };
        if !INSERTS && found.is_err() {
            return Ok(Put::Done(None));
        }
        if found.is_err() && count == Self::CAPACITY {
            return Ok(Put::Full);
        }
        if C::PREPARES {
            let seen = found.ok().map(|index| leaf.value(index)).transpose()?;
            change.prepare(seen, self.tier_of(*leaf))?;
        }
        let held = leaf.upgrade()?;
        let index = found.unwrap_or_else(|index| index);
        self.charge_payload(&held, index);
        if found.is_ok() && self.take_over(&held, index, guard) {
            // It was not dirty a moment ago.
            return Err(Abort::Restart);
        }
        let before = found.ok().map(|index| Body::value(&held, index));
        let Some(after) = change.change(before) else {
            held.unchanged();
            return Ok(Put::Done(before.map(out)));
        };
        let (access, blocking) = match found {
            Ok(index) => {
                let replaced = Body::replace_value(&held, index, after);
                let blocking = self.rewrite_copy(&held, index, guard);
                // Once no copy has it either.
                self.reclaim_value(replaced, guard);
                (Access::Reuse, blocking)
            }
            Err(index) => {
                held.insert(index, key, after);
                self.count(1);
                (Access::Insert, None)
            }
        };
        self.note_unlocked(held, access, guard);
        if let Some(key) = blocking {
            self.unblock(key, guard);
        }
        Ok(Put::Done(before.map(out)))
    }
}
