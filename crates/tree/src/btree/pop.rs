//! Removing the first or the last record, and all records.
//!
//! The first record is the first entry of the leftmost leaf that is not empty. A pop locks that
//! leaf, then validates that the leaves before it are still empty. So no record is less at the
//! moment of the lock, and until the unlock no other thread reads the record.

use std::ops::ControlFlow;

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::NodeName;
use super::node::Body;
use super::payload::Values;
use super::tree::Tree;
use crate::clear::{self, GROUP};
use crate::range::Way;
use crate::seeded::{self, Bug};
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Removes the first or the last record. Returns what `out` makes of its key and its value.
    pub fn pop<R>(&self, way: Way, out: impl FnOnce(u64, Loan<'_>) -> R) -> Option<R> {
        let guard = self.store.pin();
        let (key, value, left) = self.retry(|| self.try_pop(way, &guard))?;
        if left < Self::UNDERFULL {
            self.shrink(NodeName::leaf(key), &guard);
        }
        Some(out(key, value))
    }

    /// The key, the value, and how many records are left in the leaf.
    fn try_pop<'g>(
        &'g self,
        way: Way,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(u64, Loan<'g>, usize)>, Restart> {
        let (mut next, mut empty) = (Some(way.least_word()), Vec::new());
        while let Some(word) = next {
            let location = self.find(NodeName::leaf(word), guard)?;
            let leaf = location.expect("every tree has leaves").node;
            let (count, behind) = leaf.get(|body| (body.count(), way.behind(body)))?;
            if count == 0 {
                empty.push(leaf);
                next = behind;
                continue;
            }
            let index = way.first_of(count);
            let key = leaf.get(|body| body.key(index))?;
            if seeded::has(Bug::PoppedInTwoSteps) {
                std::thread::yield_now();
                let taken = self.take(key, None, guard)?.ok_or(Restart)?;
                return Ok(Some((key, taken.0, taken.1)));
            }
            let held = leaf.upgrade()?;
            if empty.iter().any(|leaf| leaf.validate().is_err()) {
                held.unchanged();
                return Err(Restart);
            }
            self.take_over(&held, index, guard);
            let (value, left) = self.take_at(held, index, guard);
            return Ok(Some((key, value, left)));
        }
        // The last one was empty when all others were.
        empty.iter().try_for_each(|leaf| leaf.validate())?;
        Ok(None)
    }

    /// Removes all records: see [`clear`](crate::clear).
    pub fn clear(&self) {
        let last = self.retry(|| self.last_key(&self.store.pin()));
        let next = |passed: Option<&u64>, keys: &mut Vec<u64>| {
            // What was passed is less than the last key.
            let from = passed.map_or(0, |passed| passed + 1);
            self.scan(from, GROUP, |key, _| {
                keys.push(key);
                ControlFlow::Continue(())
            });
        };
        let remove = |key: &u64| _ = self.remove(*key, None, |_| ());
        clear::clear(last, next, remove);
        while self.drop_page_of_copies() {}
    }

    /// The greatest key, or one that was it a moment ago.
    fn last_key(&self, guard: &Guard) -> Result<Option<u64>, Restart> {
        let mut next = Some(u64::MAX);
        while let Some(word) = next {
            let leaf = self.leaf(word, guard);
            let (last, before) = leaf.get(|body| {
                let last = body.count().checked_sub(1).map(|last| body.key(last));
                (last, body.lower().checked_sub(1))
            })?;
            if last.is_some() {
                return Ok(last);
            }
            next = before;
        }
        Ok(None)
    }
}

impl Way {
    /// The slice or key that a leaf at this end covers.
    pub(crate) fn least_word(self) -> u64 {
        match self {
            Way::Forward => 0,
            Way::Backward => u64::MAX,
        }
    }

    /// Covered by the next leaf of the tree.
    pub(crate) fn behind<const WORDS: usize>(self, leaf: &Body<WORDS>) -> Option<u64> {
        match self {
            Way::Forward => leaf.upper().checked_add(1),
            Way::Backward => leaf.lower().checked_sub(1),
        }
    }

    /// The first entry of this many, at least one.
    pub(crate) fn first_of(self, count: usize) -> usize {
        match self {
            Way::Forward => 0,
            Way::Backward => count - 1,
        }
    }
}
