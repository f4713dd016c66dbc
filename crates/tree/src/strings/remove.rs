//! Removing a record.

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::NodeName;
use super::node::{LeafView, LockedNode, LongKeys, Page, Sought};
use super::tree::Tree;
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Removes a record, if its value is `only` or that is `None`. Returns what `out` makes of its
    /// value.
    pub(super) fn delete<R>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        let guard = self.store.pin();
        let sought = Sought::new(key);
        let (value, is_underfull) = self.retry(|| self.take(sought, only, &guard))?;
        if is_underfull {
            self.shrink(NodeName::leaf(key), &guard);
        }
        Some(out(value))
    }

    /// Removes a record from its leaf. Returns its value, which is valid as long as the thread
    /// stays pinned, and whether few are left.
    pub(super) fn take<'g>(
        &'g self,
        key: Sought<'_>,
        only: Option<u64>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Loan<'g>, bool)>, Restart> {
        let leaf = self.leaf(key.bytes, guard);
        self.charge_leaf(&leaf);
        let Some(index) = leaf.find(key, self.memory())? else {
            return Ok(None);
        };
        let held = leaf.upgrade()?;
        if only.is_some_and(|only| only != Page::value(&held, index).word()) {
            held.unchanged();
            return Ok(None);
        }
        Ok(Some(self.take_at(held, leaf, index, guard)))
    }

    /// The same of a leaf that is locked.
    pub(super) fn take_at<'g>(
        &self,
        held: LockedNode<'g, WORDS>,
        leaf: LeafView<'g, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> (Loan<'g>, bool) {
        let mut keys = LongKeys::none();
        let removed = Page::remove_record(&held, index, &mut keys);
        let value = removed.loan();
        self.store.count(-1);
        let is_underfull = held.is_underfull();
        keys.reclaim(&self.store, guard);
        self.reclaim_value(removed, guard);
        self.note_unlocked(held, leaf, Access::Reuse, guard);
        (value, is_underfull)
    }
}
