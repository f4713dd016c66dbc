//! What the suite asks of a map over byte strings.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_tier::Arenas;
use timberline_tree::{Error, Stats};

use crate::suite::any_bits;

/// Bounds of a range of byte strings.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A concurrent ordered map from byte strings to words, whose nodes live in arenas.
pub trait ByteMap: Sized + Send + Sync {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error>;
    /// The name of the leaf that covers `key`.
    fn leaf_of(key: &[u8]) -> NodeKey {
        NodeKey::leaf(key.into())
    }
    fn arenas(&self) -> &Arenas;
    fn placed(&self) -> Arc<dyn Placed>;
    fn stats(&self) -> Stats;

    fn insert(&self, key: &[u8], value: u64) -> Result<Option<u64>, Error>;
    fn update(&self, key: &[u8], value: u64) -> Option<u64>;
    fn upsert_with(&self, key: &[u8], value: impl FnMut(Option<u64>) -> u64) -> Result<u64, Error>;
    fn bulk_load(&self, sorted: &[(Vec<u8>, u64)]) -> Result<usize, Error>;
    fn remove(&self, key: &[u8]) -> Option<u64>;
    fn get(&self, key: &[u8]) -> Option<u64>;
    fn get_many(&self, keys: &[&[u8]], values: &mut [Option<u64>]);
    fn first(&self) -> Option<(Vec<u8>, u64)>;
    fn last(&self) -> Option<(Vec<u8>, u64)>;
    fn pop_first(&self) -> Option<(Vec<u8>, u64)>;
    fn pop_last(&self) -> Option<(Vec<u8>, u64)>;
    fn range(&self, bounds: Bounds<'_>) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)>;
    /// The rest of a range after some records from it and a seek.
    fn after_seek(&self, taken: usize, key: &[u8]) -> Vec<(Vec<u8>, u64)>;
    fn prefix(&self, prefix: &[u8]) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)>;
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> usize;
    /// The values of up to `limit` records from a key on.
    fn values_from(&self, from: &[u8], limit: usize) -> Vec<u64>;
    fn len(&self) -> usize;
    fn clear(&self);
}

/// The word that a map stores for a value: it has any bits (see
/// [`any_bits`](crate::suite::any_bits)).
pub fn disguised(map: &impl ByteMap, value: u64) -> u64 {
    any_bits::disguised(value, map.arenas())
}

/// [`ByteMap`] by the methods of the same names that a map has, and what else there is to say of
/// it.
macro_rules! byte_map {
    ([$($generics:tt)*] $map:ty, {$($own:item)*}) => {
        use $crate::bytes::disguised;

        impl<$($generics)*> $crate::bytes::ByteMap for $map {
            $($own)*

            fn arenas(&self) -> &timberline_tier::Arenas {
                timberline_tier::Memory::arenas(self.memory())
            }
            fn placed(&self) -> std::sync::Arc<dyn timberline_placement::Placed> {
                self.placed()
            }
            fn stats(&self) -> timberline_tree::Stats {
                self.stats()
            }
            fn insert(&self, key: &[u8], value: u64) -> Result<Option<u64>, timberline_tree::Error> {
                let before = self.insert(key, disguised(self, value))?;
                Ok(before.map(|before| disguised(self, before)))
            }
            fn update(&self, key: &[u8], value: u64) -> Option<u64> {
                let before = self.update(key, disguised(self, value));
                before.map(|before| disguised(self, before))
            }
            fn upsert_with(
                &self,
                key: &[u8],
                mut value: impl FnMut(Option<u64>) -> u64,
            ) -> Result<u64, timberline_tree::Error> {
                let after = self.upsert_with(key, |now| {
                    let now = now.map(|now| disguised(self, now));
                    disguised(self, value(now))
                })?;
                Ok(disguised(self, after))
            }
            fn bulk_load(
                &self,
                sorted: &[(Vec<u8>, u64)],
            ) -> Result<usize, timberline_tree::Error> {
                let stored = |(key, value): &(Vec<u8>, u64)| (key.clone(), disguised(self, *value));
                self.bulk_load(sorted.iter().map(stored))
            }
            fn remove(&self, key: &[u8]) -> Option<u64> {
                self.remove(key).map(|value| disguised(self, value))
            }
            fn get(&self, key: &[u8]) -> Option<u64> {
                self.get(key).map(|value| disguised(self, value))
            }
            fn get_many(&self, keys: &[&[u8]], values: &mut [Option<u64>]) {
                self.get_many(keys, values);
                for value in values.iter_mut().flatten() {
                    *value = disguised(self, *value);
                }
            }
            fn first(&self) -> Option<(Vec<u8>, u64)> {
                self.first_key_value().map(|(key, value)| (key, disguised(self, value)))
            }
            fn last(&self) -> Option<(Vec<u8>, u64)> {
                self.last_key_value().map(|(key, value)| (key, disguised(self, value)))
            }
            fn pop_first(&self) -> Option<(Vec<u8>, u64)> {
                self.pop_first().map(|(key, value)| (key, disguised(self, value)))
            }
            fn pop_last(&self) -> Option<(Vec<u8>, u64)> {
                self.pop_last().map(|(key, value)| (key, disguised(self, value)))
            }
            fn range(&self, bounds: $crate::bytes::Bounds<'_>) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
                self.range(bounds).map(|(key, value)| (key, disguised(self, value)))
            }
            fn after_seek(&self, taken: usize, key: &[u8]) -> Vec<(Vec<u8>, u64)> {
                let mut range = self.iter();
                range.by_ref().take(taken).for_each(drop);
                range.seek(key);
                range.map(|(key, value)| (key, disguised(self, value))).collect()
            }
            fn prefix(&self, prefix: &[u8]) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
                self.prefix(prefix).map(|(key, value)| (key, disguised(self, value)))
            }
            fn scan(
                &self,
                from: &[u8],
                limit: usize,
                mut visit: impl FnMut(&[u8], u64) -> std::ops::ControlFlow<()>,
            ) -> usize {
                self.scan_bytes(from, limit, |key, value| visit(key, disguised(self, value)))
            }
            fn values_from(&self, from: &[u8], limit: usize) -> Vec<u64> {
                let mut values = Vec::new();
                let count = self.scan_values(from, limit, |value| {
                    values.push(disguised(self, value));
                    std::ops::ControlFlow::Continue(())
                });
                assert_eq!(count, values.len());
                values
            }
            fn len(&self) -> usize {
                self.len()
            }
            fn clear(&self) {
                self.clear();
            }
        }
    };
}
pub(crate) use byte_map;
