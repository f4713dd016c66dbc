//! Maps over byte strings: what their trees have in common, and the methods that only they have.

use std::borrow::Borrow;
use std::ops::{Bound, ControlFlow};

use timberline_placement::Placed;
use timberline_tier::Memory;

use super::{Batch, Core, Map, Shared, sorted};
use crate::error::Refused;
use crate::range::{Ordered, Records, Way};
use crate::store::Store;
use crate::traverse::DEPTH;
use crate::value::{Change, Loan, Represent, lend};
use crate::{Error, Key, MAX_KEY, Stats, Value};

/// A tree from byte strings to words. See [`Core`] for its methods.
pub trait ByteTree: Ordered + Placed + Sized {
    const NAME: &'static str;

    fn store(&self) -> &Store<Self::Memory>;

    fn get<R>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> R) -> Option<R>;

    fn get_each<H: Represent, B: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = B>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    );

    fn get_async<H: Represent, R>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> impl Future<Output = Option<R>>;

    /// The key has at most [`MAX_KEY`] bytes.
    fn upsert<R>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused>;

    fn modify<R>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused>;

    fn remove<R>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R>;

    fn pop<R>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> R) -> Option<R>;

    fn clear(&self);

    /// Whether [`grow`](Self::grow) ever does something.
    const GROWS: bool = false;

    /// Links records of sorted input, with values that are words, from this one on: as many as
    /// belong where its path ends. Returns how many; 0: this one is to be inserted.
    fn grow(&self, batch: &Batch, from: usize) -> usize {
        let _ = (batch, from);
        0
    }

    fn stats(&self) -> Stats;
}

/// A tree of values that are stored as `H` says.
pub trait Stores<H>: ByteTree {}

impl<T: Stores<V::Representation>, K: Key + ?Sized, V: Value> Core<K, V> for T {
    const NAME: &'static str = T::NAME;
    type Memory = <T as Ordered>::Memory;
    type Range = Records<K, V, T>;

    fn ascends(first: &K::Borrowed, second: &K::Borrowed) -> bool {
        first.to_bytes().as_ref() < second.to_bytes().as_ref()
    }

    #[inline(always)]
    fn store(&self) -> &Store<Self::Memory> {
        ByteTree::store(self)
    }

    #[inline(always)]
    fn get<R>(&self, key: &K::Borrowed, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        ByteTree::get(self, key.to_bytes(), out)
    }

    fn get_each<Q: Borrow<K::Borrowed>>(
        &self,
        keys: &[Q],
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let keys = keys.iter().map(|key| key.borrow().to_bytes());
        ByteTree::get_each::<V::Representation, _>(self, keys, depth, found);
    }

    /// Lookups read almost all of what inserts do. The emulator has no cache, so it would charge
    /// each line twice.
    fn approach_each<Q: Borrow<K::Borrowed>>(&self, keys: &[Q]) {
        if !<Self::Memory as Memory>::CHARGES {
            Core::<K, V>::get_each(self, keys, DEPTH, |_, _| ());
        }
    }

    async fn get_async<'k, R>(
        &'k self,
        key: &'k K::Borrowed,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        let key = key.to_bytes();
        ByteTree::get_async::<V::Representation, _>(self, key.as_ref(), out).await
    }

    #[inline(always)]
    fn upsert<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        let key = key.to_bytes();
        match key.as_ref().len() {
            ..=MAX_KEY => ByteTree::upsert(self, key, change, out),
            len => Err(Refused::key_of(len)),
        }
    }

    #[inline(always)]
    fn modify<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        ByteTree::modify(self, key.to_bytes(), change, out)
    }

    #[inline(always)]
    fn remove<R>(
        &self,
        key: &K::Borrowed,
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        ByteTree::remove(self, key.to_bytes().as_ref(), only, out)
    }

    fn pop<R>(&self, way: Way, out: impl FnOnce(K::Owned, Loan<'_>) -> R) -> Option<R> {
        ByteTree::pop(self, way, |key, value| out(K::from_bytes(key), value))
    }

    fn clear(&self) {
        ByteTree::clear(self);
    }

    fn range(
        tree: &Shared<T>,
        low: Bound<&K::Borrowed>,
        high: Bound<&K::Borrowed>,
    ) -> Records<K, V, T> {
        let bytes = |key: &K::Borrowed| key.to_bytes().as_ref().to_vec();
        Records::new(tree.clone(), low.map(bytes), high.map(bytes))
    }

    fn scan(
        &self,
        from: &K::Borrowed,
        limit: usize,
        mut visit: impl FnMut(K::Owned, Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let from = Bound::Included(from.as_ref());
        let typed = |key: &[u8], value: Loan<'_>| visit(K::from_bytes(key), value);
        self.walk(Way::Forward, from, limit, typed)
    }

    fn load<Q: Borrow<K::Borrowed>>(
        map: &Map<Self, K, V>,
        sorted: impl Iterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        match T::GROWS && V::Representation::DISPOSE.is_none() {
            true => sorted::load(map, &*map.tree, sorted),
            false => map.insert_sorted(sorted),
        }
    }

    fn stats(&self) -> Stats {
        ByteTree::stats(self)
    }
}

/// Keys as bytes.
impl<T: Ordered + Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// The records whose keys begin with the bytes of `prefix`, in order, from either end.
    ///
    /// ```
    /// let map: timberline::Masstree<str, u64> = [("a/x", 1), ("a/y", 2), ("b/x", 3)].into();
    /// assert_eq!(map.prefix("a/").map(|(_, value)| value).collect::<Vec<_>>(), [1, 2]);
    /// ```
    pub fn prefix(&self, prefix: &K::Borrowed) -> Records<K, V, T> {
        let low = prefix.to_bytes().as_ref().to_vec();
        let high = after_all_with(&low);
        Records::new(self.tree.clone(), Bound::Included(low), high)
    }

    /// As [`scan`](Self::scan), with the keys lent as bytes: no allocation a record.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// let map: timberline::Art<str, u64> = [("pea", 1), ("pear", 2), ("plum", 3)].into();
    /// let mut bytes = 0;
    /// map.scan_bytes("pear", 10, |key, _| {
    ///     bytes += key.len();
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(bytes, 8);
    /// ```
    pub fn scan_bytes(
        &self,
        from: &K::Borrowed,
        limit: usize,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let from = Bound::Included(from.as_ref());
        let memory = self.memory();
        let typed =
            |key: &[u8], value: Loan<'_>| lend::<V, _>(memory, value, |value| visit(key, value));
        self.tree.walk(Way::Forward, from, limit, typed)
    }

    /// As [`scan_bytes`](Self::scan_bytes), with the values alone: in a `BTree` and a `Masstree`,
    /// no key is put together.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// let map: timberline::BTree<str, u64> = [("pea", 1), ("pear", 2), ("plum", 3)].into();
    /// let mut sum = 0;
    /// map.scan_values("pear", 10, |value| {
    ///     sum += value;
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(sum, 5);
    /// ```
    pub fn scan_values(
        &self,
        from: &K::Borrowed,
        limit: usize,
        mut visit: impl FnMut(V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let from = Bound::Included(from.as_ref());
        let memory = self.memory();
        let typed = |value: Loan<'_>| lend::<V, _>(memory, value, &mut visit);
        self.tree.walk_values(Way::Forward, from, limit, typed)
    }
}

/// The least key after all that begin with `prefix`, as a bound.
pub fn after_all_with(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}
