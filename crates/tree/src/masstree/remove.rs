//! Removing a record.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::Tree;
use super::descent::Cursor;
use super::slice::path;
use super::update::ValueSlot;
use crate::btree::find::NodeName;
use crate::btree::node::{Body, LockedNode};
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Locks the leaf of a present record.
    fn hold<'g>(
        &self,
        key: &[u8],
        cursor: &Cursor<'g, WORDS>,
    ) -> Result<Option<(LockedNode<'g, WORDS>, ValueSlot<'g>)>, Restart> {
        match self.slot(key, cursor) {
            Some(slot) => Ok(Some((cursor.leaf.upgrade()?, slot))),
            None => Ok(None),
        }
    }

    /// Removes a record, if its value is `only` or that is `None`. Returns what `out` makes of its
    /// value.
    pub fn remove<R>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        let guard = self.store.pin();
        let value = self.take(key, only, &guard)?;
        Some(out(value))
    }

    /// Removes a record, if its value is `only` or that is `None`. Returns its value, which is
    /// valid as long as the guard lives.
    #[inline(always)]
    pub(super) fn take<'g>(
        &'g self,
        key: &[u8],
        only: Option<u64>,
        guard: &'g Guard<'g>,
    ) -> Option<Loan<'g>> {
        let (value, left, depth, word) = self.retry(|| {
            let cursor = self.cursor(key, guard);
            let Some((held, slot)) = self.hold(key, &cursor)? else {
                return Ok(None);
            };
            if only.is_some_and(|only| only != slot.value(&held).word()) {
                held.unchanged();
                return Ok(None);
            }
            let (value, left) = self.take_at(key, held, slot, guard);
            Ok(Some((value, left, cursor.depth, cursor.word)))
        })?;
        self.shrink_after(left, &key[..depth], word, guard);
        Some(value)
    }

    /// Removes a key's record from its leaf. Returns its value, which is valid as long as the
    /// thread stays pinned, and the number of entries left.
    pub(super) fn take_at<'g>(
        &self,
        key: &[u8],
        held: LockedNode<'g, WORDS>,
        slot: ValueSlot<'g>,
        guard: &Guard,
    ) -> (Loan<'g>, usize) {
        let (ValueSlot::Payload(index) | ValueSlot::Record(index, _)) = slot;
        let (removed, block) = Body::remove_record(&held, index);
        let value = removed.loan();
        self.forget_copy(&held, key, guard);
        if let Some(block) = block {
            block.reclaim(&self.store, guard);
        }
        self.count(-1);
        let left = held.count();
        self.reclaim_value(removed, guard);
        self.note_unlocked(held, Access::Reuse, guard);
        (value, left)
    }

    /// Merges the leaf that covers slice `word` of the layer at `before`, if it is underfull with
    /// `left` entries.
    pub(super) fn shrink_after(&self, left: usize, before: &[u8], word: u64, guard: &Guard) {
        if left < Self::UNDERFULL {
            let path = &path(before)[..];
            let leaf = NodeName {
                path,
                key: word,
                height: 0,
            };
            self.shrink(leaf, guard);
        }
    }
}
