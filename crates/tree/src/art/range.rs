//! Iterating over the records of a range, from both ends. Between batches nothing is held: no lock, no pin.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_tier::Memory;

use super::node::Reach;
use super::tree::Tree;
use super::way::{Start, Way};
use crate::value::owned;
use crate::{ByteKey, Value};

/// The most records of a batch; the first ones are smaller.
const BATCH: usize = 64;

/// Records copied out of the tree. Their keys lie in one buffer.
struct Batch<V> {
    keys: Vec<u8>,
    /// Where a key begins and ends, and the value; in order of keys.
    records: VecDeque<(usize, usize, V)>,
}

impl<V> Batch<V> {
    fn new() -> Self {
        let (keys, records) = (Vec::new(), VecDeque::new());
        Batch { keys, records }
    }

    fn key(&self, (start, end, _): &(usize, usize, V)) -> &[u8] {
        &self.keys[*start..*end]
    }
}

/// The keys that are still to come.
#[derive(Debug)]
struct Span {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl Span {
    /// Whether a key lies above the lower bound.
    fn reaches_down_to(&self, key: &[u8]) -> bool {
        match &self.low {
            Bound::Included(low) => key >= low.as_slice(),
            Bound::Excluded(low) => key > low.as_slice(),
            Bound::Unbounded => true,
        }
    }

    /// Whether a key lies below the upper bound.
    fn reaches_up_to(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Included(high) => key <= high.as_slice(),
            Bound::Excluded(high) => key < high.as_slice(),
            Bound::Unbounded => true,
        }
    }
}

fn start(bound: &Bound<Vec<u8>>) -> Start<'_> {
    match bound {
        Bound::Included(key) => Start::at(key),
        Bound::Excluded(key) => Start::after(key),
        Bound::Unbounded => Start::Everything,
    }
}

/// An iterator over the records of a range, from both ends. See [`Art::range`](super::Art::range).
pub struct Range<K: ?Sized, V: Value, M: Memory, R: Reach> {
    tree: Arc<Tree<M, R>>,
    front: Batch<V>,
    back: Batch<V>,
    /// The keys in between, not read yet; `None` when there are none.
    unread: Option<Span>,
    /// Records of the next batch.
    next: usize,
    typed: PhantomData<fn(&K)>,
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> Range<K, V, M, R> {
    pub(super) fn new(tree: Arc<Tree<M, R>>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Range {
            tree,
            front: Batch::new(),
            back: Batch::new(),
            unread: Some(Span { low, high }),
            next: 4,
            typed: PhantomData,
        }
    }

    /// Skips records from the front, up to the first with a key that is not less than `key`.
    pub fn seek(&mut self, key: &K) {
        let key = key.to_bytes();
        let key = key.as_ref();
        for batch in [&mut self.front, &mut self.back] {
            while let Some(first) = batch.records.front()
                && batch.key(first) < key
            {
                batch.records.pop_front();
            }
        }
        if let Some(span) = &mut self.unread
            && span.reaches_down_to(key)
        {
            span.low = Bound::Included(key.to_vec());
        }
    }

    /// Reads the next batch at one end.
    fn read(&mut self, way: Way) {
        let Some(span) = &mut self.unread else { return };
        let (batch, from) = match way {
            Way::Forward => (&mut self.front, &span.low),
            Way::Backward => (&mut self.back, &span.high),
        };
        batch.keys.clear();
        let (mut read, limit) = (0, self.next);
        let mut ended = false;
        let memory = self.tree.memory();
        self.tree.scan(way, start(from), limit, |key, value| {
            ended = match way {
                Way::Forward => !span.reaches_up_to(key),
                Way::Backward => !span.reaches_down_to(key),
            };
            if ended {
                return ControlFlow::Break(());
            }
            read += 1;
            let at = batch.keys.len();
            batch.keys.extend_from_slice(key);
            let record = (at, batch.keys.len(), owned(memory, value));
            match way {
                Way::Forward => batch.records.push_back(record),
                Way::Backward => batch.records.push_front(record),
            }
            ControlFlow::Continue(())
        });
        self.next = (limit * 2).min(BATCH);
        if ended || read < limit {
            self.unread = None;
            return;
        }
        match way {
            Way::Forward => {
                let last = batch.records.back().map(|last| batch.key(last).to_vec());
                span.low = last.map_or(Bound::Unbounded, Bound::Excluded);
            }
            Way::Backward => {
                let last = batch.records.front().map(|last| batch.key(last).to_vec());
                span.high = last.map_or(Bound::Unbounded, Bound::Excluded);
            }
        }
    }

    fn typed(batch: &Batch<V>, record: (usize, usize, V)) -> (K::Owned, V) {
        (K::from_bytes(batch.key(&record)), record.2)
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> Iterator for Range<K, V, M, R> {
    type Item = (K::Owned, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.records.is_empty() {
            self.read(Way::Forward);
        }
        if let Some(record) = self.front.records.pop_front() {
            return Some(Self::typed(&self.front, record));
        }
        let record = self.back.records.pop_front()?;
        Some(Self::typed(&self.back, record))
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> DoubleEndedIterator for Range<K, V, M, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.records.is_empty() {
            self.read(Way::Backward);
        }
        if let Some(record) = self.back.records.pop_back() {
            return Some(Self::typed(&self.back, record));
        }
        let record = self.front.records.pop_back()?;
        Some(Self::typed(&self.front, record))
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> FusedIterator for Range<K, V, M, R> {}
