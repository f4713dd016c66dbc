//! Maps as collections: made of records, extended by records, printed.

use std::borrow::Borrow;
use std::fmt;

use super::{Core, Map};
use crate::{Key, Value};

impl<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>> Extend<(Q, V)>
    for &Map<T, K, V>
{
    /// Inserts all records, as [`insert_many`](Map::insert_many) does.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(1, 1), (2, 4)].into();
    /// // By reference too, beside other threads.
    /// (&map).extend([(3, 9)]);
    /// assert_eq!(format!("{map:?}"), "{1: 1, 2: 4, 3: 9}");
    /// ```
    ///
    /// # Panics
    /// One can't be inserted: [`insert`](Map::insert) says why.
    fn extend<I: IntoIterator<Item = (Q, V)>>(&mut self, records: I) {
        if let Err(error) = self.insert_many(records) {
            panic!("a map is extended: {error}");
        }
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>> Extend<(Q, V)>
    for Map<T, K, V>
{
    /// As for `&Map`.
    fn extend<I: IntoIterator<Item = (Q, V)>>(&mut self, records: I) {
        (&*self).extend(records);
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>> FromIterator<(Q, V)>
    for Map<T, K, V>
where
    Self: Default,
{
    /// A map in plain memory of these records; of those with one key, the last.
    ///
    /// ```
    /// let map: timberline::Art<str, u64> = ["a", "b", "a"].into_iter().zip(1..).collect();
    /// assert_eq!(map.iter().collect::<Vec<_>>(), [("a".into(), 3), ("b".into(), 2)]);
    /// ```
    ///
    /// # Panics
    /// As for `extend`.
    fn from_iter<I: IntoIterator<Item = (Q, V)>>(records: I) -> Self {
        let mut map = Self::default();
        map.extend(records);
        map
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>, const N: usize>
    From<[(Q, V); N]> for Map<T, K, V>
where
    Self: Default,
{
    /// As [`FromIterator`].
    fn from(records: [(Q, V); N]) -> Self {
        Self::from_iter(records)
    }
}

/// All records, as a map of the standard library prints them.
impl<T: Core<K, V>, K: Key<Owned: fmt::Debug> + ?Sized, V: Value + fmt::Debug> fmt::Debug
    for Map<T, K, V>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> IntoIterator for &Map<T, K, V> {
    type Item = (K::Owned, V);
    type IntoIter = T::Range;

    fn into_iter(self) -> T::Range {
        self.iter()
    }
}
