//! Removing the first or the last record, and all records.
//!
//! As in the B+tree (`btree/pop.rs`): a pop locks the record's border node, and validates the
//! border nodes that led there and the empty ones that it passed.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::Tree;
use super::slice::{path, push_bytes};
use super::update::ValueSlot;
use crate::btree::find::NodeName;
use crate::btree::node::{Lead, View};
use crate::clear;
use crate::range::Way;
use crate::seeded::{self, Bug};
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Removes the first or the last record. Returns what `out` makes of its key and its value.
    pub fn pop<R>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> R) -> Option<R> {
        let (guard, mut key) = (self.store.pin(), Vec::new());
        let value = self.retry(|| self.try_pop(way, &mut key, &guard))?;
        Some(out(&key, value))
    }

    fn try_pop<'g>(
        &'g self,
        way: Way,
        key: &mut Vec<u8>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Loan<'g>>, Restart> {
        // The border nodes above, and the empty ones.
        let mut passed = Vec::new();
        let mut node = self.top(self.store.pinned(guard))?;
        key.clear();
        loop {
            let depth = key.len();
            let mut next = Some(way.least_word());
            let found = loop {
                let Some(word) = next else { break None };
                let leaf = self.leaf_in(node, word)?;
                let (count, behind) = leaf.get(|body| (body.count(), way.behind(body)))?;
                if count > 0 {
                    break Some((leaf, way.first_of(count)));
                }
                passed.push(leaf);
                next = behind;
            };
            let Some((leaf, index)) = found else {
                passed.iter().try_for_each(|leaf| leaf.validate())?;
                if depth == 0 {
                    return Ok(None);
                }
                // Another thread has removed the layer's last record and is about to remove the
                // layer. This helps it, so as not to wait.
                self.shrink(
                    NodeName {
                        path: &path(key),
                        key: 0,
                        height: 0,
                    },
                    guard,
                );
                return Err(Restart);
            };
            let entry = leaf.entry(index)?;
            push_bytes(entry.key, key);
            let root = match entry.lead() {
                Some(Lead::Layer(root)) => root,
                Some(Lead::Skip(skip)) => {
                    self.memory().charge_access(skip.address(), skip.used());
                    key.extend_from_slice(skip.bytes());
                    skip.root()
                }
                record => {
                    let mut slot = ValueSlot::Payload(index);
                    if let Some(Lead::Record(record)) = record {
                        key.extend_from_slice(record.bytes());
                        slot = ValueSlot::Record(index, record);
                    }
                    if seeded::has(Bug::PoppedInTwoSteps) {
                        std::thread::yield_now();
                        return self.take(key, None, guard).ok_or(Restart).map(Some);
                    }
                    let held = leaf.upgrade()?;
                    if passed.iter().any(|leaf| leaf.validate().is_err()) {
                        held.unchanged();
                        return Err(Restart);
                    }
                    let (value, left) = self.take_at(key, held, slot, guard);
                    self.shrink_after(left, &key[..depth], entry.key, guard);
                    return Ok(Some(value));
                }
            };
            let root = root.read()?;
            leaf.validate()?;
            node = View::of(root)?;
            passed.push(leaf);
        }
    }

    /// Removes all records: see [`clear`](crate::clear).
    pub fn clear(&self) {
        clear::clear_ordered(self, |key| _ = self.remove(key, None, |_| ()));
        while self.copies.drop_page(&self.store) {}
    }
}
