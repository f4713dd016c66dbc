//! Replacing the value of a present record.

use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::descent::Cursor;
use super::node::{Body, Write};
use super::payload::Values;
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::value::{Change, Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// The leaf of a present record, and the record's index there.
    pub fn record<'g>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Snapshot<'g, Body<WORDS>>, usize)>, Restart> {
        let Cursor { leaf, found, .. } = self.cursor::<false>(key, guard)?;
        Ok(found.ok().map(|index| (leaf, index)))
    }

    /// Replaces a present record's value by `change` of it, atomically. Returns what `out` makes of
    /// the value before.
    pub fn modify<R>(
        &self,
        key: u64,
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            attempt(|| self.try_modify(key, change, &mut out, &guard))
        })
    }

    fn try_modify<R, C: Change>(
        &self,
        key: u64,
        change: &mut C,
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> Result<Option<R>, Abort> {
        let Some((leaf, index)) = self.record(key, guard)? else {
            return Ok(None);
        };
        if C::PREPARES {
            let before = leaf.get(|body| body.payload(index))?;
            change.prepare(Some(Loan::new(before, guard)), self.tier_of(leaf))?;
        }
        let held = leaf.upgrade()?;
        self.charge_payload(&held, index);
        let before = held.payload(index);
        match change.change(Some(before)) {
            Some(after) => {
                held.set_payload(index, after);
                let access = self.rewrite_copy(&held, key, after, guard);
                self.reclaim_value(before, guard);
                self.note_unlocked(held, access, guard);
            }
            None => held.unchanged(),
        }
        Ok(Some(out(Loan::new(before, guard))))
    }
}
