//! Loading sorted input: one descent a leaf instead of one a record.

use std::fmt;
use std::iter::Peekable;

use timberline_placement::NodeKey;
use timberline_sync::Restart;
use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, OutOfMemory};

use super::scan::Entry;
use super::tree::Tree;

/// Why a bulk load ended early. All records before are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkError {
    /// The record at this position (from 0) has no greater key than the one before.
    Unsorted(usize),
    /// No memory for the record at this position.
    Full(usize, OutOfMemory),
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
        }
    }
}

impl std::error::Error for BulkError {}

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// Inserts ascending records. Into an empty tree, or behind its greatest key, this leaves full
    /// leaves.
    pub fn load(&self, sorted: impl Iterator<Item = Entry>) -> Result<usize, BulkError> {
        let guard = epoch::pin();
        let mut input = sorted.peekable();
        let (mut loaded, mut last) = (0, None);
        while let Some(&(key, _)) = input.peek() {
            if last.is_some_and(|last| key <= last) {
                return Err(BulkError::Unsorted(loaded));
            }
            let taken = self.retry(|| self.fill_leaf(&mut input, &mut last, &guard));
            loaded += taken;
            if taken == 0 {
                let room = self.make_room(NodeKey { key, height: 0 }, &guard);
                room.map_err(|full| BulkError::Full(loaded, full))?;
            }
        }
        Ok(loaded)
    }

    /// Puts as many records into the next one's leaf as belong there and fit.
    fn fill_leaf(
        &self,
        input: &mut Peekable<impl Iterator<Item = Entry>>,
        last: &mut Option<u64>,
        guard: &Guard,
    ) -> Result<usize, Restart> {
        let Some(&(first, _)) = input.peek() else {
            return Ok(0);
        };
        let leaf = self.leaf(first, guard)?.upgrade()?;
        let mut taken = 0;
        while let Some(&(key, value)) = input.peek() {
            if !leaf.covers(key) || last.is_some_and(|last| key <= last) {
                break;
            }
            match leaf.find(self.search, key) {
                Ok(index) => leaf.set_payload(index, value),
                Err(_) if leaf.count() == Self::CAPACITY => break,
                Err(index) => {
                    leaf.insert(index, key, value);
                    self.count(1);
                }
            }
            *last = Some(key);
            taken += 1;
            input.next();
        }
        Ok(taken)
    }
}
