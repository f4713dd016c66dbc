//! Sorted input: records that belong behind a leaf's last one are appended under one lock, as many
//! as it has room for. So most of them are not searched for.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, hint};

use super::find::NodeName;
use super::node::{LongKeys, Page, Sought};
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
                Appended::None(halves) => {
                    plans = false;
                    let leaf = NodeName::leaf(batch.key(from));
                    if self.make_room(leaf, halves, &guard).is_err() {
                        return 0;
                    }
                }
            }
        }
    }

    fn append_to_leaf<'b>(
        &self,
        batch: &'b Batch,
        from: usize,
        plans: bool,
        guard: &Guard,
    ) -> Result<Appended<'b>, Restart> {
        let (key, memory) = (batch.key(from), self.memory());
        let leaf = self.leaf(key, guard);
        hint::prefetch_lines(leaf.address(), Self::BYTES / hint::LINE);
        self.charge_leaf(&leaf);
        let count = leaf.get(Page::count)?;
        let place = leaf.seek(Sought::new(key), memory)?;
        let Err(index) = place else {
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
                true => Appended::None(Halves::Apart(batch, from)),
                false => Appended::Records(0),
            });
        }
        if !leaf.get(|page| page.has_room_for(key))? {
            return Ok(Appended::None(Halves::OfRun(batch, from)));
        }
        let end = batch.end_below(from, leaf.upper(memory)?.as_deref());
        if plans && count == 0 && end - from > Page::<WORDS>::MOST {
            return Ok(Appended::None(Halves::Ahead(batch, from)));
        }
        let leaf = leaf.upgrade()?;
        let keys = (from..end).map(|at| (at, batch.key(at)));
        let fitting = keys.take_while(|&(_, key)| leaf.has_room_for(key) && !leaf.needs_block(key));
        let (mut count, mut blocks) = (0, LongKeys::none());
        for (at, key) in fitting {
            let (index, key) = (leaf.count(), Sought::new(key));
            Page::insert_record(&leaf, index, key, batch.value(at), &mut blocks);
            count += 1;
        }
        Ok(Appended::Records(count))
    }
}

/// Fewer keys that belong between two of a leaf are inserted one by one.
const FEW: usize = 16;

enum Appended<'b> {
    Records(usize),
    /// The leaf is to be split first.
    None(Halves<'b>),
}
