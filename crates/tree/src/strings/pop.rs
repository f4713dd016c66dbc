//! Removing the first or the last record. As in the B+tree of words (`btree/pop.rs`), a pop locks
//! the leaf that has it, then validates that the leaves before it are still empty.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::descent::Descent;
use super::find::NodeName;
use super::node::{Aim, Sought};
use super::tree::Tree;
use crate::range::Way;
use crate::seeded::{self, Bug};
use crate::traverse::run;
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Removes the first or the last record. Returns what `out` makes of its key and its value.
    pub(super) fn take_end<R>(
        &self,
        way: Way,
        out: impl FnOnce(&[u8], Loan<'_>) -> R,
    ) -> Option<R> {
        let guard = self.store.pin();
        let (key, value, is_underfull) = self.retry(|| self.try_take_end(way, &guard))?;
        if is_underfull {
            self.shrink(NodeName::leaf(&key), &guard);
        }
        Some(out(&key, value))
    }

    #[allow(clippy::type_complexity, reason = "a record, and whether few are left")]
    fn try_take_end<'g>(
        &'g self,
        way: Way,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Vec<u8>, Loan<'g>, bool)>, Restart> {
        let (memory, pinned) = (self.memory(), self.store.pinned(guard));
        let (mut border, mut empty) = (None::<Vec<u8>>, Vec::new());
        loop {
            let aim = match (way, &border) {
                (Way::Forward, None) => Aim::At(&[]),
                (Way::Forward, Some(border)) => Aim::At(border),
                (Way::Backward, None) => Aim::Last,
                (Way::Backward, Some(border)) => Aim::Below(border),
            };
            let leaf = run(Descent::<_, WORDS, H, false>::new(self, aim, pinned));
            self.charge_leaf(&leaf);
            let count = leaf.get(|page| page.count())?;
            if count == 0 {
                empty.push(leaf);
                border = match way {
                    Way::Forward => leaf.upper(memory)?,
                    Way::Backward => Some(leaf.lower(memory)?).filter(|lower| !lower.is_empty()),
                };
                if border.is_none() {
                    // The last one was empty when all others were.
                    empty.iter().try_for_each(|leaf| leaf.validate())?;
                    return Ok(None);
                }
                continue;
            }
            let index = way.first_of(count);
            let key = leaf.key(index, memory)?;
            if seeded::has(Bug::PoppedInTwoSteps) {
                std::thread::yield_now();
                let taken = self.take(Sought::new(&key), None, guard)?.ok_or(Restart)?;
                return Ok(Some((key, taken.0, taken.1)));
            }
            let held = leaf.upgrade()?;
            if empty.iter().any(|leaf| leaf.validate().is_err()) {
                held.unchanged();
                return Err(Restart);
            }
            let (value, is_underfull) = self.take_at(held, leaf, index, guard);
            return Ok(Some((key, value, is_underfull)));
        }
    }
}
