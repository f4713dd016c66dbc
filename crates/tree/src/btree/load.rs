//! Loading sorted input: one descent a leaf instead of one a record.

use std::collections::VecDeque;

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::NodeName;
use super::node::{Body, Write};
use super::payload::Values;
use super::tree::Tree;
use crate::Error;
use crate::value::Represent;

/// A key and a value that is a word.
type Record = (u64, u64);

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Inserts ascending records, with values that are words. Into an empty tree, or after its
    /// greatest key, this leaves full leaves.
    ///
    /// Input is pulled ahead, a leaf's worth at a time, while nothing is locked or pinned: it may
    /// be slow, and may come out of this tree.
    pub fn load(&self, sorted: impl Iterator<Item = Record>) -> Result<usize, Error> {
        let mut sorted = sorted.fuse();
        let (mut batch, mut last) = (VecDeque::with_capacity(Self::CAPACITY), None);
        let (mut loaded, mut unsorted) = (0, false);
        loop {
            while batch.len() < Self::CAPACITY && !unsorted {
                let Some(record) = sorted.next() else { break };
                unsorted = last.is_some_and(|last| record.0 <= last);
                if !unsorted {
                    last = Some(record.0);
                    batch.push_back(record);
                }
            }
            let Some(&(key, _)) = batch.front() else {
                break;
            };
            let guard = self.store.pin();
            let taken = self.retry(|| self.fill_leaf(&mut batch, &guard));
            loaded += taken;
            if taken == 0
                && let Err(refused) = self.make_room(NodeName::leaf(key), &guard)
            {
                drop(guard);
                if !self.store.reclaimed() {
                    return Err(self.store.error(refused).at(loaded));
                }
            }
        }
        if unsorted {
            return Err(Error::Unsorted.at(loaded));
        }
        Ok(loaded)
    }

    /// Puts as many records into the first one's leaf as belong there and fit.
    fn fill_leaf(&self, batch: &mut VecDeque<Record>, guard: &Guard) -> Result<usize, Restart> {
        let Some(&(first, _)) = batch.front() else {
            return Ok(0);
        };
        let leaf = self.leaf(first, guard).upgrade()?;
        let mut taken = 0;
        while let Some(&(key, value)) = batch.front() {
            if !leaf.covers(key) {
                break;
            }
            match leaf.find(self.search, key) {
                Ok(hit) => {
                    let index = hit.index();
                    self.take_over(&leaf, index, guard);
                    let before = Body::replace_value(&leaf, index, value);
                    self.rewrite_copy(&leaf, index, guard);
                    self.reclaim_value(before, guard);
                }
                Err(_) if leaf.count() == Self::CAPACITY => break,
                Err(index) => {
                    leaf.insert(index, key, value);
                    self.count(1);
                }
            }
            taken += 1;
            batch.pop_front();
        }
        Ok(taken)
    }
}
