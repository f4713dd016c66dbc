//! Iterating over the records of a range, from both ends. Between batches nothing is held: no lock,
//! no pin.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use timberline_tier::Memory;

use crate::map::Shared;
use crate::value::{Loan, owned};
use crate::{Key, Value};

/// Which way to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Forward,
    Backward,
}

/// A tree of byte strings, whose records can be walked over.
pub trait Ordered: Send + Sync + 'static {
    type Memory: Memory;

    fn memory(&self) -> &Self::Memory;

    /// Calls `visit` with up to `limit` keys and words, one way from `from` on, until it breaks.
    /// Returns how many it was called with. While it lasts the epoch is held back.
    fn walk(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize;

    /// As [`walk`](Self::walk), with the words alone.
    fn walk_values(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.walk(way, from, limit, |_, value| visit(value))
    }

    /// Has the memory fetch what lies on the way to `key`, yielding at each node.
    fn approach(&self, key: &[u8]) -> impl Future<Output = ()>;
}

/// An iterator that reads records ahead, and can have the memory fetch them first.
pub trait Approach: Iterator {
    /// Has the memory fetch what the next call of `next` would wait for, if it is to read more,
    /// yielding meanwhile.
    fn approach(&self) -> impl Future<Output = ()>;
}

/// The records of a range, which come while other tasks run: see
/// [`Map::range_async`](crate::Map::range_async).
#[derive(Debug)]
pub struct AsyncRange<R>(pub(crate) R);

impl<R: Approach> AsyncRange<R> {
    /// The next record. Yields where it would wait for memory: before it copies a leaf of a B+tree,
    /// or a batch of another map's records. Between calls nothing is held, and a future that is
    /// dropped loses no record.
    pub async fn next(&mut self) -> Option<R::Item> {
        self.0.approach().await;
        self.0.next()
    }
}

/// The most records that are copied at once; the first batches are smaller.
const BATCH: usize = 64;

/// Where a key begins and ends, and the value.
type Copied<V> = (usize, usize, V);

/// Records copied from one end, in order of keys, which lie in one buffer.
struct Batch<V> {
    keys: Vec<u8>,
    records: VecDeque<Copied<V>>,
}

impl<V> Batch<V> {
    fn new() -> Self {
        let (keys, records) = (Vec::new(), VecDeque::new());
        Batch { keys, records }
    }

    fn key(&self, (start, end, _): &Copied<V>) -> &[u8] {
        &self.keys[*start..*end]
    }

    fn first(&self) -> Option<&[u8]> {
        self.records.front().map(|first| self.key(first))
    }

    fn last(&self) -> Option<&[u8]> {
        self.records.back().map(|last| self.key(last))
    }

    fn typed<K: Key + ?Sized>(&self, record: Copied<V>) -> (K::Owned, V) {
        (K::from_bytes(self.key(&record)), record.2)
    }
}

/// The keys that are still to come.
#[derive(Debug)]
struct Span {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl Span {
    fn is_above_low(&self, key: &[u8]) -> bool {
        match &self.low {
            Bound::Included(low) => key >= &low[..],
            Bound::Excluded(low) => key > &low[..],
            Bound::Unbounded => true,
        }
    }

    fn is_below_high(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Included(high) => key <= &high[..],
            Bound::Excluded(high) => key < &high[..],
            Bound::Unbounded => true,
        }
    }
}

/// The records of a range of a tree, from both ends: what the maps' iterators are made of.
pub struct Records<K: ?Sized, V: Value, T> {
    tree: Shared<T>,
    front: Batch<V>,
    back: Batch<V>,
    /// The keys in between, not read yet; `None` when there are none.
    unread: Option<Span>,
    batch: usize,
    typed: PhantomData<fn(Box<K>)>,
}

impl<K: Key + ?Sized, V: Value, T: Ordered> Records<K, V, T> {
    pub(crate) fn new(tree: Shared<T>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Records {
            tree,
            front: Batch::new(),
            back: Batch::new(),
            unread: Some(Span { low, high }),
            batch: 4,
            typed: PhantomData,
        }
    }

    /// Skips records from the front, up to the first with a key that is not less than `key`.
    ///
    /// ```
    /// let map: timberline::Art<str, u64> = [("a", 1), ("b", 2), ("c", 3)].into();
    /// let mut range = map.range(..);
    /// range.seek("bb");
    /// assert_eq!(range.next(), Some(("c".into(), 3)));
    /// ```
    pub fn seek(&mut self, key: &K::Borrowed) {
        let key = key.to_bytes();
        let key = key.as_ref();
        for batch in [&mut self.front, &mut self.back] {
            while batch.first().is_some_and(|first| first < key) {
                batch.records.pop_front();
            }
        }
        if let Some(span) = &mut self.unread
            && span.is_above_low(key)
        {
            span.low = Bound::Included(key.to_vec());
        }
    }

    /// Copies the next records at one end.
    fn read(&mut self, way: Way) {
        let Some(span) = &mut self.unread else { return };
        let (into, from) = match way {
            Way::Forward => (&mut self.front, &span.low),
            Way::Backward => (&mut self.back, &span.high),
        };
        into.keys.clear();
        let (mut read, limit) = (0, self.batch);
        let from = from.as_ref().map(|key| &key[..]);
        let memory = self.tree.memory();
        self.tree.walk(way, from, limit, |key, value| {
            let within = match way {
                Way::Forward => span.is_below_high(key),
                Way::Backward => span.is_above_low(key),
            };
            if !within {
                return ControlFlow::Break(());
            }
            read += 1;
            let start = into.keys.len();
            into.keys.extend_from_slice(key);
            let record = (start, into.keys.len(), owned(memory, value));
            match way {
                Way::Forward => into.records.push_back(record),
                Way::Backward => into.records.push_front(record),
            }
            ControlFlow::Continue(())
        });
        self.batch = (2 * limit).min(BATCH);
        let (bound, reached) = match way {
            Way::Forward => (&mut span.low, into.last()),
            Way::Backward => (&mut span.high, into.first()),
        };
        match reached {
            Some(key) if read == limit => *bound = Bound::Excluded(key.to_vec()),
            _ => self.unread = None,
        }
    }
}

impl<K: Key + ?Sized, V: Value, T: Ordered> Iterator for Records<K, V, T> {
    type Item = (K::Owned, V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front.records.is_empty() {
            self.read(Way::Forward);
        }
        if let Some(record) = self.front.records.pop_front() {
            return Some(self.front.typed::<K>(record));
        }
        let record = self.back.records.pop_front()?;
        Some(self.back.typed::<K>(record))
    }
}

impl<K: Key + ?Sized, V: Value, T: Ordered> Approach for Records<K, V, T> {
    async fn approach(&self) {
        if self.front.records.is_empty()
            && let Some(span) = &self.unread
        {
            let (Bound::Included(low) | Bound::Excluded(low)) = &span.low else {
                return self.tree.approach(&[]).await;
            };
            self.tree.approach(low).await;
        }
    }
}

impl<K: Key + ?Sized, V: Value, T: Ordered> DoubleEndedIterator for Records<K, V, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.back.records.is_empty() {
            self.read(Way::Backward);
        }
        if let Some(record) = self.back.records.pop_back() {
            return Some(self.back.typed::<K>(record));
        }
        let record = self.front.records.pop_back()?;
        Some(self.front.typed::<K>(record))
    }
}
