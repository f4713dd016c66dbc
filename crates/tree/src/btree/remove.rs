//! Removing a record.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::NodeName;
use super::node::Body;
use super::payload::Values;
use super::tree::{LockedNode, Tree};
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Removes a record, if its value is `only` or that is `None`. Returns what `out` makes of its
    /// value.
    pub fn remove<R>(
        &self,
        key: u64,
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        let guard = self.store.pin();
        let (value, left) = self.retry(|| self.take(key, only, &guard))?;
        if left < Self::UNDERFULL {
            self.shrink(NodeName::leaf(key), &guard);
        }
        Some(out(value))
    }

    /// Removes a record from its leaf. Returns its value, which is valid as long as the thread
    /// stays pinned, and how many are left.
    pub(super) fn take<'g>(
        &'g self,
        key: u64,
        only: Option<u64>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Loan<'g>, usize)>, Restart> {
        let Some((leaf, index)) = self.record(key, guard)? else {
            return Ok(None);
        };
        let held = leaf.upgrade()?;
        let was_stale = self.take_over(&held, index, guard);
        if only.is_some_and(|only| only != Body::value(&held, index).word()) {
            if !was_stale {
                held.unchanged();
            }
            return Ok(None);
        }
        Ok(Some(self.take_at(held, index, guard)))
    }

    /// The same of a leaf that is locked, and has the record's newest value.
    pub(super) fn take_at<'g>(
        &self,
        held: LockedNode<'g, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> (Loan<'g>, usize) {
        self.charge_payload(&held, index);
        let key = held.key(index);
        let removed = Body::remove_value(&held, index);
        let value = removed.loan();
        self.forget_copy(&held, key, guard);
        self.count(-1);
        let left = held.count();
        self.reclaim_value(removed, guard);
        self.note_unlocked(held, Access::Reuse, guard);
        (value, left)
    }
}
