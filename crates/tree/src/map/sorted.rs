//! Sorted input, a batch at a time, for trees that link many records at once.
//!
//! It is pulled ahead while nothing is locked or pinned: it may be slow, and may come out of the
//! map that it goes into.

use std::borrow::Borrow;

use super::{ByteTree, Core, Map};
use crate::value::Represent;
use crate::{Error, Key, MAX_KEY, Value};

/// A batch ends with this many records, or bytes of keys. Each are 64 KiB: the C library gives
/// blocks from 128 KiB on back to the system, so twice as much took four times the page faults.
const RECORDS: usize = 4096;
const BYTES: usize = 64 << 10;

/// Ascending keys of at most [`MAX_KEY`] bytes, with values that are words.
#[derive(Default)]
pub struct Batch {
    keys: Vec<u8>,
    /// Where each key ends, and its value.
    records: Vec<(usize, u64)>,
    /// The last key of the batch before.
    before: Option<Vec<u8>>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.records[before].0);
        &self.keys[start..self.records[at].0]
    }

    pub fn value(&self, at: usize) -> u64 {
        self.records[at].1
    }

    /// The end of the records from this one on whose keys begin with the first `depth` bytes of its
    /// key.
    pub fn end_of_prefix(&self, from: usize, depth: usize) -> usize {
        let prefix = &self.key(from)[..depth];
        let other = (from + 1..self.len()).find(|&at| !self.key(at).starts_with(prefix));
        other.unwrap_or(self.len())
    }

    /// The end of the records from this one on whose keys are less than a bound, if there is one.
    pub fn end_below(&self, from: usize, bound: Option<&[u8]>) -> usize {
        let (mut start, mut end) = (from, self.len());
        let Some(key) = bound else {
            return end;
        };
        while start < end {
            let middle = start.midpoint(end);
            match self.key(middle) < key {
                true => start = middle + 1,
                false => end = middle,
            }
        }
        start
    }

    fn is_full(&self) -> bool {
        self.len() == RECORDS || self.keys.len() >= BYTES
    }

    fn clear(&mut self) {
        if let Some(last) = self.len().checked_sub(1) {
            self.before = Some(self.key(last).into());
        }
        self.keys.clear();
        self.records.clear();
    }

    /// Takes one more record, unless it says why it can't.
    fn push(&mut self, key: &[u8], value: u64) -> Result<(), Error> {
        let last = match self.len() {
            0 => self.before.as_deref(),
            more => Some(self.key(more - 1)),
        };
        if last.is_some_and(|last| !is_less(last, key)) {
            return Err(Error::Unsorted);
        }
        if key.len() > MAX_KEY {
            return Err(Error::KeyTooLong(key.len()));
        }
        self.keys.extend_from_slice(key);
        self.records.push((self.keys.len(), value));
        Ok(())
    }
}

/// Whether a key is less than another, most often by their first bytes alone.
fn is_less(one: &[u8], two: &[u8]) -> bool {
    match (one.first_chunk::<8>(), two.first_chunk::<8>()) {
        (Some(a), Some(b)) if a != b => u64::from_be_bytes(*a) < u64::from_be_bytes(*b),
        _ => one < two,
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// Inserts ascending records one by one.
    pub(crate) fn insert_sorted<Q: Borrow<K::Borrowed>>(
        &self,
        sorted: impl Iterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        let (mut loaded, mut last) = (0, None::<Q>);
        for (key, value) in sorted {
            let lent = key.borrow();
            if last.is_some_and(|last| !T::ascends(last.borrow(), lent)) {
                return Err(Error::Unsorted.at(loaded));
            }
            self.insert(lent, value.lend())
                .map_err(|error| error.at(loaded))?;
            (loaded, last) = (loaded + 1, Some(key));
        }
        Ok(loaded)
    }
}

/// Loads ascending records, with values that are words, into a map's tree that
/// [grows](ByteTree::grow).
pub fn load<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>>(
    map: &Map<T, K, V>,
    tree: &impl ByteTree,
    sorted: impl Iterator<Item = (Q, V)>,
) -> Result<usize, Error> {
    let (mut sorted, mut batch, mut loaded) = (sorted.fuse(), Batch::default(), 0);
    loop {
        let mut wrong = None;
        while !batch.is_full()
            && wrong.is_none()
            && let Some((key, value)) = sorted.next()
        {
            let word = V::Representation::word(V::to_stored(value.lend())).expect("no string");
            wrong = batch.push(key.borrow().to_bytes().as_ref(), word).err();
        }
        let mut from = 0;
        while from < batch.len() {
            let grown = tree.grow(&batch, from);
            if grown == 0 {
                let set = |_: Option<u64>| Some(batch.value(from));
                ByteTree::upsert(tree, batch.key(from), set, |_| ())
                    .map_err(|refused| map.error(refused).at(loaded + from))?;
            }
            from += grown.max(1);
        }
        loaded += batch.len();
        if let Some(error) = wrong {
            return Err(error.at(loaded));
        }
        if batch.len() == 0 {
            return Ok(loaded);
        }
        batch.clear();
    }
}
