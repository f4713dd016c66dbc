//! Replacing the value of a present record.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::descent::Cursor;
use super::insert::Put;
use super::node::LeafView;
use super::payload::Values;
use super::tree::Tree;
use crate::abort::attempt;
use crate::error::Refused;
use crate::value::{Change, Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// The leaf of a present record, and the record's index there.
    pub fn record<'g>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(LeafView<'g, WORDS>, usize)>, Restart> {
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
            match attempt(|| self.put::<false, _, _>(key, change, &mut out, &guard))? {
                Put::Done(before) => Ok(before),
                Put::Full => unreachable!("nothing is inserted"),
            }
        })
    }
}
