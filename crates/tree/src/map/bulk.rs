//! Many records at once: keys, values, insertion, removal. None of these methods is atomic as a
//! whole; each record is read, inserted or removed atomically, as by a method for one record.
//!
//! There is no `append` and no `split_off`: the standard library's move subtrees from one map to
//! another, which takes exclusive access to both, and here nodes belong to the memory and the
//! placement of one map.

use std::borrow::Borrow;

use smallvec::SmallVec;

use super::{Core, Map};
use crate::traverse::DEPTH;
use crate::{Error, Key, KeyRange, Value};

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// All keys, in order, from either end. As [`iter`](Self::iter), it copies the values too.
    ///
    /// ```
    /// let map: timberline::BTree<i32, char> = [(3, 'c'), (1, 'a')].into();
    /// assert_eq!(map.keys().collect::<Vec<_>>(), [1, 3]);
    /// ```
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K::Owned> + use<T, K, V> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys, from either end.
    ///
    /// ```
    /// let map: timberline::BTree<i32, char> = [(3, 'c'), (1, 'a')].into();
    /// assert_eq!(map.values().collect::<String>(), "ac");
    /// ```
    pub fn values(&self) -> impl DoubleEndedIterator<Item = V> + use<T, K, V> {
        self.iter().map(|(_, value)| value)
    }

    /// Inserts records, or replaces the values of existing ones, in the order of the input. Returns
    /// the number of new ones. Each insert is linearizable on its own.
    ///
    /// Faster than as many calls of [`insert`](Map::insert) in an `Art` or a `Masstree` that the
    /// CPU's caches don't hold: for [`DEPTH`] records at a time, the cache misses on the way to
    /// their places overlap. For sorted input, see [`bulk_load`](Map::bulk_load).
    ///
    /// ```
    /// let map: timberline::Art<str, u64> = [("a", 1)].into();
    /// assert_eq!(map.insert_many([("b", 2), ("a", 3), ("c", 4)])?, 2);
    /// assert_eq!(map.values().collect::<Vec<_>>(), [3, 2, 4]);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Record`]: a key or a value is too long, or memory is used up. The records before
    /// it have been inserted.
    pub fn insert_many<Q: Borrow<K::Borrowed>>(
        &self,
        records: impl IntoIterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        let mut records = records.into_iter();
        let (mut keys, mut values) = (SmallVec::<[Q; DEPTH]>::new(), SmallVec::<[V; DEPTH]>::new());
        let (mut position, mut new) = (0, 0);
        loop {
            for (key, value) in records.by_ref().take(DEPTH) {
                keys.push(key);
                values.push(value);
            }
            if keys.is_empty() {
                return Ok(new);
            }
            if keys.len() > 1 {
                self.tree.approach_each(&keys);
            }
            for (key, value) in keys.drain(..).zip(values.drain(..)) {
                let before = self.insert(key.borrow(), value.lend());
                new += usize::from(before.map_err(|error| error.at(position))?.is_none());
                position += 1;
            }
        }
    }

    /// Removes the records for which `keep` returns false. O(n), beside other threads: a record is
    /// removed with the value that `keep` refused last, and one that is inserted meanwhile is
    /// looked at or not. `keep` is called without a lock, and more than once for a record that it
    /// refuses; it may use the map.
    ///
    /// ```
    /// let map: timberline::BTree<i32, u8> = [(1, 1), (2, 2), (3, 3)].into();
    /// map.retain(|_, value| value % 2 == 1);
    /// assert_eq!(map.keys().collect::<Vec<_>>(), [1, 3]);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K::Borrowed, V::Ref<'_>) -> bool)
    where
        K::Owned: Borrow<K::Borrowed>,
    {
        for (key, value) in self {
            if !keep(key.borrow(), value.lend()) {
                self.remove_if(key.borrow(), |value| !keep(key.borrow(), value));
            }
        }
    }

    /// Removes the records of a range, and returns their number. Records that others insert there
    /// meanwhile are removed or not.
    ///
    /// ```
    /// let map: timberline::Art<str, u64> = [("a", 1), ("b", 2), ("c", 3)].into();
    /// assert_eq!(map.remove_range("a".."c"), 2);
    /// ```
    pub fn remove_range(&self, bounds: impl KeyRange<K::Borrowed>) -> usize
    where
        K::Owned: Borrow<K::Borrowed>,
    {
        let keys = self.range(bounds).map(|(key, _)| key);
        keys.filter(|key| self.remove(key.borrow()).is_some())
            .count()
    }
}
