//! The interface of a map under test.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::Arenas;
use timberline_tree::{Error, Stats};

use crate::suite::map::Bounds;

/// A concurrent ordered map from words to strings of bytes, whose nodes and strings live in arenas.
pub trait ValueMap: Sized + Send + Sync {
    const NODE_BYTES: usize;
    const APART: usize = Self::NODE_BYTES;
    const MANY: u64 = 25 * Self::NODE_BYTES as u64;
    const EMPTY_NODES: usize = 1;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error>;
    fn leaf_of(key: u64) -> NodeKey {
        NodeKey::of_word(key, 0)
    }
    fn arenas(&self) -> &Arenas;
    fn domain(&self) -> &Domain;
    fn placed(&self) -> Arc<dyn Placed>;
    fn stats(&self) -> Stats;

    fn insert(&self, key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn update(&self, key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn modify(
        &self,
        key: u64,
        change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Error>;
    fn upsert_with(
        &self,
        key: u64,
        value: impl FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error>;
    #[allow(clippy::type_complexity)]
    fn compare_and_set(
        &self,
        key: u64,
        expected: &[u8],
        new: &[u8],
    ) -> Result<Result<(), Option<Vec<u8>>>, Error> {
        let set = self.compare_exchange(key, Some(expected), Some(new))?;
        Ok(set.map(|before| assert_eq!(before.as_deref(), Some(expected))))
    }
    #[allow(clippy::type_complexity)]
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<Option<Vec<u8>>, Option<Vec<u8>>>, Error>;
    fn remove(&self, key: u64) -> Option<Vec<u8>>;
    fn get(&self, key: u64) -> Option<Vec<u8>>;
    fn get_with<R>(&self, key: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R>;
    fn get_many(&self, keys: &[u64], values: &mut [Option<Vec<u8>>]);
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, Vec<u8>)>;
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> usize;
    fn len(&self) -> usize;
    fn pop_first(&self) -> Option<(u64, Vec<u8>)>;
    fn pop_last(&self) -> Option<(u64, Vec<u8>)>;
    fn clear(&self);
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Result<usize, Error>;
}

/// Implements [`ValueMap`] by a map's operations of the same names: keys as the first closure makes
/// them, bounds as the second.
macro_rules! value_map {
    ([$($generics:tt)*] $map:ty, |$key:ident| $by:expr, |$bounds:ident| $within:expr, { $($more:tt)* }) => {
        impl<$($generics)*> ValueMap for $map {
            $($more)*

            fn arenas(&self) -> &Arenas {
                <$map>::memory(self).arenas()
            }
            fn domain(&self) -> &timberline_sync::epoch::Domain {
                <$map>::domain(self)
            }
            fn placed(&self) -> Arc<dyn Placed> {
                <$map>::placed(self)
            }
            fn stats(&self) -> Stats {
                <$map>::stats(self)
            }
            fn insert(&self, $key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                self.insert($by, value)
            }
            fn update(&self, $key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                self.update($by, value)
            }
            fn modify(
                &self,
                $key: u64,
                change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
            ) -> Result<Option<Vec<u8>>, Error> {
                self.modify($by, change)
            }
            fn upsert_with(
                &self,
                $key: u64,
                value: impl FnMut(Option<&[u8]>) -> Vec<u8>,
            ) -> Result<Vec<u8>, Error> {
                self.upsert_with($by, value)
            }
            fn compare_exchange(
                &self,
                $key: u64,
                current: Option<&[u8]>,
                new: Option<&[u8]>,
            ) -> Result<Result<Option<Vec<u8>>, Option<Vec<u8>>>, Error> {
                self.compare_exchange($by, current, new)
            }
            fn remove(&self, $key: u64) -> Option<Vec<u8>> {
                self.remove($by)
            }
            fn get(&self, $key: u64) -> Option<Vec<u8>> {
                self.get($by)
            }
            fn get_with<R>(&self, $key: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
                self.get_with($by, read)
            }
            fn get_many(&self, keys: &[u64], values: &mut [Option<Vec<u8>>]) {
                let keys: Vec<_> = keys.iter().map(|&$key| ToOwned::to_owned($by)).collect();
                self.get_many(&keys, values);
            }
            fn range(&self, $bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, Vec<u8>)> {
                self.range($within)
            }
            fn scan(
                &self,
                $key: u64,
                limit: usize,
                visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
            ) -> usize {
                self.scan($by, limit, visit)
            }
            fn len(&self) -> usize {
                self.len()
            }
            fn pop_first(&self) -> Option<(u64, Vec<u8>)> {
                self.pop_first()
            }
            fn pop_last(&self) -> Option<(u64, Vec<u8>)> {
                self.pop_last()
            }
            fn clear(&self) {
                self.clear();
            }
            fn bulk_load(
                &self,
                sorted: impl IntoIterator<Item = (u64, Vec<u8>)>,
            ) -> Result<usize, Error> {
                let owned = |($key, value)| (ToOwned::to_owned($by), value);
                self.bulk_load(sorted.into_iter().map(owned))
            }
        }
    };
}
pub(crate) use value_map;
