//! Replacing the value of a present record.
//!
//! A value is the payload of an entry, or lies in a record. Writers hold the border node's lock, so
//! readers validate either under that node's version.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::Tree;
use super::descent::{Cursor, End, Locate};
use super::slice::SLICE;
use crate::abort::{Abort, attempt};
use crate::btree::node::{Body, Record, address};
use crate::btree::tree::LockedNode;
use crate::error::Refused;
use crate::value::{Change, Loan, Represent, RetiredValue};

/// Where a value is.
#[derive(Clone, Copy)]
pub(super) enum ValueSlot<'g> {
    /// The payload of the entry at this index.
    Payload(usize),
    /// In the record of the entry at this index.
    Record(usize, Record<'g>),
}

impl<'g> ValueSlot<'g> {
    pub fn value<const WORDS: usize>(self, leaf: &LockedNode<'g, WORDS>) -> Loan<'g> {
        match self {
            ValueSlot::Payload(index) => Body::value(leaf, index),
            ValueSlot::Record(_, record) => record.value(),
        }
    }

    pub fn replace<const WORDS: usize>(
        self,
        leaf: &LockedNode<'g, WORDS>,
        value: u64,
    ) -> RetiredValue<'g> {
        match self {
            ValueSlot::Payload(index) => Body::replace_value(leaf, index, value),
            ValueSlot::Record(_, record) => record.replace(leaf, value),
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    pub(super) fn cursor<'g>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> Cursor<'g, WORDS> {
        self.search.run(Locate {
            tree: self,
            key,
            guard,
        })
    }

    /// Where the value of a present record is.
    pub(super) fn slot<'g>(&self, key: &[u8], cursor: &Cursor<'g, WORDS>) -> Option<ValueSlot<'g>> {
        match cursor.end {
            End::Value { index, .. } => Some(ValueSlot::Payload(index)),
            End::Record { index, record } => {
                self.memory().charge_access(record.address(), record.used());
                let is_it = record.bytes() == &key[cursor.depth + SLICE..];
                is_it.then_some(ValueSlot::Record(index, record))
            }
            End::Absent { .. } | End::Beside { .. } => None,
        }
    }

    /// The value of a record, read without the lock.
    fn seen<'g>(slot: ValueSlot<'g>, cursor: &Cursor<'g, WORDS>) -> Result<Loan<'g>, Restart> {
        let value = match slot {
            ValueSlot::Payload(index) => cursor.leaf.entry(index)?.value(),
            ValueSlot::Record(_, record) => record.value(),
        };
        cursor.leaf.validate().map(|()| value)
    }

    /// Replaces the value of a present record. Returns `out` of the old value.
    pub(super) fn replace<R, C: Change>(
        &self,
        key: &[u8],
        slot: ValueSlot<'_>,
        cursor: &Cursor<'_, WORDS>,
        change: &mut C,
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> Result<R, Abort> {
        if C::PREPARES {
            let seen = Self::seen(slot, cursor)?;
            change.prepare(Some(seen), self.tier_of(*cursor.leaf))?;
        }
        let held = cursor.leaf.upgrade()?;
        let before = slot.value(&held);
        match change.change(Some(before)) {
            Some(after) => {
                let replaced = slot.replace(&held, after);
                match self.may_have_copies(address(held.of())) {
                    true => self.rewrite_copy_too(held, key, after, replaced, guard),
                    false => {
                        self.reclaim_value(replaced, guard);
                        self.note_unlocked(held, Access::Reuse, guard);
                    }
                }
            }
            None => held.unchanged(),
        }
        Ok(out(before))
    }

    /// A record of a slow leaf, which is locked, was given another value: so is its copy.
    // Out of line, for updates of fast leaves.
    #[cold]
    #[inline(never)]
    fn rewrite_copy_too(
        &self,
        held: LockedNode<'_, WORDS>,
        key: &[u8],
        after: u64,
        replaced: RetiredValue<'_>,
        guard: &Guard,
    ) {
        let access = self.rewrite_copy(&held, key, after, guard);
        // Once no copy has it either.
        self.reclaim_value(replaced, guard);
        self.note_unlocked(held, access, guard);
    }

    /// Replaces a present record's value by `change` of it, atomically. Returns `out` of the old
    /// value.
    pub fn modify<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            attempt(|| {
                let cursor = self.cursor(key, &guard);
                let slot = self.slot(key, &cursor);
                slot.map(|slot| self.replace(key, slot, &cursor, change, &mut out, &guard))
                    .transpose()
            })
        })
    }
}
