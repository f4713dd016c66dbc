//! Loading sorted input: one descent a leaf instead of one a record.

use std::collections::VecDeque;
use std::fmt;

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory};

use super::payload::Values;
use super::scan::Entry;
use super::tree::{At, Tree};
use crate::InsertError;
use crate::value::Keep;

/// Why a bulk load ended early. All records before are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkError {
    /// The record at this position (from 0) has no greater key than the one before.
    Unsorted(usize),
    /// No memory for the record at this position.
    Full(usize, OutOfMemory),
    /// The key at this position has so many bytes, which is more than [`MAX_KEY`](crate::MAX_KEY).
    KeyTooLong(usize, usize),
    /// The value at this position has so many bytes, which is more than
    /// [`MAX_VALUE`](crate::MAX_VALUE).
    ValueTooLong(usize, usize),
}

impl BulkError {
    /// Why the record at a position was not taken in.
    pub(crate) fn at(position: usize, error: InsertError) -> BulkError {
        match error {
            InsertError::Full(full) => BulkError::Full(position, full),
            InsertError::KeyTooLong(len) => BulkError::KeyTooLong(position, len),
            InsertError::ValueTooLong(len) => BulkError::ValueTooLong(position, len),
        }
    }
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BulkError::Unsorted(at) => {
                write!(
                    f,
                    "record {at} is out of order: keys must ascend, each once"
                )
            }
            BulkError::Full(at, full) => write!(f, "no room for record {at}: {full}"),
            BulkError::KeyTooLong(at, len) => {
                write!(f, "record {at}: {}", InsertError::KeyTooLong(*len))
            }
            BulkError::ValueTooLong(at, len) => {
                write!(f, "record {at}: {}", InsertError::ValueTooLong(*len))
            }
        }
    }
}

impl std::error::Error for BulkError {}

impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, Values<H>> {
    /// Inserts ascending records, with values that are words. Into an empty tree, or behind its
    /// greatest key, this leaves full leaves.
    ///
    /// Input is pulled ahead, a leaf's worth at a time, while nothing is locked or pinned: it may
    /// be slow, and may come out of this tree.
    pub fn load(&self, sorted: impl Iterator<Item = Entry>) -> Result<usize, BulkError> {
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
                && let Err(refused) = self.make_room(At::leaf(key), &guard)
            {
                drop(guard);
                if !self.store.reclaimed() {
                    return Err(BulkError::at(loaded, refused));
                }
            }
        }
        if unsorted {
            return Err(BulkError::Unsorted(loaded));
        }
        Ok(loaded)
    }

    /// Puts as many records into the first one's leaf as belong there and fit.
    fn fill_leaf(&self, batch: &mut VecDeque<Entry>, guard: &Guard) -> Result<usize, Restart> {
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
                Ok(index) => {
                    leaf.set_payload(index, value);
                    self.rewrite_copy(&leaf, key, value, guard);
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
