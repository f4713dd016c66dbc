//! Maps as collections: made of records, extended by records, printed.

use std::borrow::Borrow;
use std::fmt;

use super::{Core, Map};
use crate::{Key, Value};

impl<T: Core<K, V>, K: Key + ?Sized, V: Value, Q: Borrow<K::Borrowed>> Extend<(Q, V)>
    for &Map<T, K, V>
{
    /// Inserts all records.
    ///
    /// # Panics
    /// One can't be inserted: [`insert`](Map::insert) says why.
    fn extend<I: IntoIterator<Item = (Q, V)>>(&mut self, records: I) {
        for (key, value) in records {
            if let Err(error) = self.insert(key.borrow(), value.lend()) {
                panic!("a map is extended: {error}");
            }
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
