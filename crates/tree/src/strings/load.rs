//! Sorted input: records that belong behind a leaf's last one are appended under one lock, as many
//! as it has room for. So most of them are not searched for.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, hint};

use super::find::NodeName;
use super::node::{Page, Sought};
use super::split::Halves;
use super::tree::Tree;
use crate::map::Batch;
use crate::value::Represent;

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Appends the records of a batch, from one on, to the leaf where they belong. Returns how
    /// many. 0: the key is there, few belong between its neighbours, it needs a block, or memory is
    /// short.
    pub(super) fn append(&self, batch: &Batch, from: usize) -> usize {
        let (guard, mut plans) = (self.store.pin(), true);
        loop {
            match self.retry(|| self.append_to_leaf(batch, from, plans, &guard)) {
                Appended::Records(0) => return 0,
                Appended::Records(count) => {
                    self.store.count(count as i64);
                    return count;
                }
                Appended::ToDivide(cause) => {
                    // What a full leaf leaves is empty, and to be planned.
                    plans = plans && cause == Cause::Full;
                    let (leaf, halves) = (batch.key(from), Halves::OfRun(batch, from));
                    let made = self.make_room(NodeName::leaf(leaf), halves, &guard);
                    if made.is_err() {
                        return 0;
                    }
                }
            }
        }
    }

    fn append_to_leaf(
        &self,
        batch: &Batch,
        from: usize,
        plans: bool,
        guard: &Guard,
    ) -> Result<Appended, Restart> {
        let (key, memory) = (batch.key(from), self.memory());
        let leaf = self.leaf(key, guard);
        hint::prefetch_lines(leaf.address(), Self::BYTES / hint::LINE);
        self.charge_leaf(&leaf);
        let count = leaf.get(Page::count)?;
        let Err(index) = leaf.seek(Sought::new(key), memory)? else {
            return Ok(Appended::Records(0));
        };
        if leaf.get(|page| page.needs_block(key))? {
            return Ok(Appended::Records(0));
        }
        if index < count {
            let few = from + FEW;
            let is_run =
                plans && few < batch.len() && batch.key(few) < &leaf.key(index, memory)?[..];
            return Ok(match is_run {
                true => Appended::ToDivide(Cause::Plan),
                false => Appended::Records(0),
            });
        }
        if !leaf.get(|page| page.has_room_for(key))? {
            return Ok(Appended::ToDivide(Cause::Full));
        }
        let end = batch.end_below(from, leaf.upper(memory)?.as_deref());
        if plans && count == 0 && end - from > Page::<WORDS>::MOST {
            return Ok(Appended::ToDivide(Cause::Plan));
        }
        let leaf = leaf.upgrade()?;
        let records = (from..end).map(|at| (batch.key(at), batch.value(at)));
        Ok(Appended::Records(Page::append_records(&leaf, records)))
    }
}

/// Fewer keys that belong between two of a leaf are inserted one by one.
const FEW: usize = 16;

enum Appended {
    Records(usize),
    /// The leaf is to be split first.
    ToDivide(Cause),
}

#[derive(PartialEq, Eq)]
enum Cause {
    Full,
    /// So many records are to come that its fence is planned for them.
    Plan,
}
