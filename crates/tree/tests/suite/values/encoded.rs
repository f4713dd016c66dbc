//! A map of strings as one of words, for the tests that take those.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::Arenas;
use timberline_tree::{Error, OutOfMemory, Stats};

use super::ValueMap;
use crate::suite::TestMap;
use crate::suite::map::{Bounds, full};

/// A word as a string: itself, and up to a few dozen bytes that follow from it.
pub fn encode(word: u64) -> Vec<u8> {
    let more = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    let mut bytes = word.to_le_bytes().to_vec();
    bytes.extend((0..more).map(|at| (word ^ at) as u8));
    bytes
}

fn decode(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().expect("eight bytes at least");
    let word = u64::from_le_bytes(*word);
    assert_eq!(bytes, encode(word), "a string of one piece");
    word
}

/// The map as one of words.
pub struct Encoded<T>(pub T);

impl<T: ValueMap> TestMap for Encoded<T> {
    const NODE_BYTES: usize = T::NODE_BYTES;
    const APART: usize = T::APART;
    const MANY: u64 = T::MANY;
    // Sizes of slots; chunks among them are not shared.
    const SIZES: usize = 12;
    const EMPTY_NODES: usize = T::EMPTY_NODES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        T::make(arenas, placement).map(Encoded)
    }
    fn leaf_of(key: u64) -> NodeKey {
        T::leaf_of(key)
    }
    fn arenas(&self) -> &Arenas {
        self.0.arenas()
    }
    fn domain(&self) -> &Domain {
        self.0.domain()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.0.placed()
    }
    fn stats(&self) -> Stats {
        self.0.stats()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        let before = self.0.insert(key, &encode(value)).map_err(full)?;
        Ok(before.map(|before| decode(&before)))
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        let before = self.0.update(key, &encode(value)).expect("room");
        before.map(|before| decode(&before))
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let (current, new) = (current.map(encode), new.map(encode));
        let set = self
            .0
            .compare_exchange(key, current.as_deref(), new.as_deref());
        let decoded = |value: Option<Vec<u8>>| value.map(|value| decode(&value));
        set.expect("room").map(decoded).map_err(decoded)
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(key).map(|value| decode(&value))
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get_with(key, decode)
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let mut strings = vec![None; values.len()];
        self.0.get_many(keys, &mut strings);
        for (value, string) in values.iter_mut().zip(strings) {
            *value = string.map(|string| decode(&string));
        }
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let decoded = |(key, value): (u64, Vec<u8>)| (key, decode(&value));
        self.0.range(bounds).map(decoded)
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.0
            .scan(from, limit, |key, value| visit(key, decode(value)))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn pop_first(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_first()?;
        Some((key, decode(&value)))
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_last()?;
        Some((key, decode(&value)))
    }
    fn clear(&self) {
        self.0.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        let encoded = |(key, value)| (key, encode(value));
        self.0.bulk_load(sorted.into_iter().map(encoded))
    }
}
