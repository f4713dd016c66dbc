//! The operations that a tree provides to the handle of a map.

use std::borrow::Borrow;
use std::ops::{Bound, ControlFlow};

use timberline_placement::Placed;
use timberline_tier::Memory;

use super::{Map, Shared};
use crate::error::Refused;
use crate::range::{Approach, Way};
use crate::store::Store;
use crate::value::{Change, Loan};
use crate::{Error, Key, Stats, Value};

/// A tree from keys `K` to the words of values `V`. Where a closure gets a value's word, the word
/// is validated and the thread is pinned.
pub trait Core<K: Key + ?Sized, V: Value>: Placed + Sized + 'static {
    /// The map's name in messages.
    const NAME: &'static str;
    /// The memory that its nodes live in.
    type Memory: Memory;
    /// The iterator over a range.
    type Range: DoubleEndedIterator<Item = (K::Owned, V)> + Approach;

    /// Whether the second key is greater than the first.
    fn ascends(first: &K::Borrowed, second: &K::Borrowed) -> bool;

    /// The store of its nodes.
    fn store(&self) -> &Store<Self::Memory>;

    /// Applies `out` to the value of a key.
    fn get<R>(&self, key: &K::Borrowed, out: impl FnOnce(Loan<'_>) -> R) -> Option<R>;

    /// Calls `found` with each key's position and value. `depth` lookups overlap.
    fn get_each<Q: Borrow<K::Borrowed>>(
        &self,
        keys: &[Q],
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    );

    /// Brings what inserts of these keys read into the CPU's caches, with overlapping cache misses,
    /// where that makes them faster.
    fn approach_each<Q: Borrow<K::Borrowed>>(&self, keys: &[Q]);

    /// As [`get`](Self::get), yielding at each node.
    fn get_async<'k, R>(
        &'k self,
        key: &'k K::Borrowed,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> impl Future<Output = Option<R>>;

    /// Inserts or replaces by `change` of the present value, atomically. Applies `out` to the
    /// previous value.
    fn upsert<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused>;

    /// As [`upsert`](Self::upsert), of a present record only.
    fn modify<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused>;

    /// Removes a record, if its value is `only` or that is `None`. Applies `out` to its value.
    fn remove<R>(
        &self,
        key: &K::Borrowed,
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R>;

    /// Removes the first record in one direction, as one step. Applies `out` to its key and value.
    fn pop<R>(&self, way: Way, out: impl FnOnce(K::Owned, Loan<'_>) -> R) -> Option<R>;

    /// Removes all records that are present throughout.
    fn clear(&self);

    /// The records of a range.
    fn range(
        tree: &Shared<Self>,
        low: Bound<&K::Borrowed>,
        high: Bound<&K::Borrowed>,
    ) -> Self::Range;

    /// Calls `visit` with up to `limit` records from `from` on until it breaks. Returns the number
    /// of calls.
    fn scan(
        &self,
        from: &K::Borrowed,
        limit: usize,
        visit: impl FnMut(K::Owned, Loan<'_>) -> ControlFlow<()>,
    ) -> usize;

    /// Loads ascending records into a map of this tree.
    fn load<Q: Borrow<K::Borrowed>>(
        map: &Map<Self, K, V>,
        sorted: impl Iterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        map.insert_sorted(sorted)
    }

    /// Nodes by level and tier.
    fn stats(&self) -> Stats;
}
