//! Maps whose values look like what lies in nodes.
//!
//! Tests count their values up from 0. A map that takes a value for a link would hardly show with
//! those: no address is so small. So here each value is stored as another word: as an address in an
//! arena, with each of the low bits that links are told apart by, as one below all arenas, as the
//! greatest words, or as it is.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::Arenas;
use timberline_tree::{Error, OutOfMemory, Stats};

use super::TestMap;
use super::map::Bounds;

/// The word that stands for another one. What stands for that is the first again, so no two words
/// are stored as one.
pub fn disguised(value: u64, arenas: &Arenas) -> u64 {
    let start = |range: Range<usize>| range.start as u64 & !7;
    let (fast, slow) = (arenas.range(), arenas.range_of(arenas.slowest()));
    let mask = match value & 7 {
        0..=2 => start(fast),
        3 | 4 => start(slow),
        // A thread that compares addresses takes it for one in fast memory.
        5 => 0x26_0000_0000,
        6 => 0,
        _ => !7,
    };
    value ^ mask
}

/// A map that stores values in disguise.
pub struct AnyBits<T>(pub T);

impl<T: TestMap> AnyBits<T> {
    fn other(&self, value: u64) -> u64 {
        disguised(value, self.0.arenas())
    }

    fn others(&self, values: &mut [Option<u64>]) {
        for value in values.iter_mut().flatten() {
            *value = self.other(*value);
        }
    }
}

impl<T: TestMap> TestMap for AnyBits<T> {
    const NODE_BYTES: usize = T::NODE_BYTES;
    const APART: usize = T::APART;
    const MANY: u64 = T::MANY;
    const QUARTER: usize = T::QUARTER;
    const SIZES: usize = T::SIZES;
    const EMPTY_NODES: usize = T::EMPTY_NODES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        T::make(arenas, placement).map(AnyBits)
    }
    fn leaf_of(key: u64) -> NodeKey {
        T::leaf_of(key)
    }
    fn key_of(fence: &[u8]) -> u64 {
        T::key_of(fence)
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
        let before = self.0.insert(key, self.other(value))?;
        Ok(before.map(|before| self.other(before)))
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        let before = self.0.update(key, self.other(value));
        before.map(|before| self.other(before))
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let other = |value: Option<u64>| value.map(|value| self.other(value));
        let set = self.0.compare_exchange(key, other(current), other(new));
        set.map(other).map_err(other)
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(key).map(|value| self.other(value))
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(key).map(|value| self.other(value))
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.0.get_many(keys, values);
        self.others(values);
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let range = self.0.range(bounds);
        range.map(|(key, value)| (key, self.other(value)))
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        let visit = |key, value| visit(key, self.other(value));
        self.0.scan(from, limit, visit)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn pop_first(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_first()?;
        Some((key, self.other(value)))
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_last()?;
        Some((key, self.other(value)))
    }
    fn clear(&self) {
        self.0.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        let sorted = sorted.into_iter();
        let disguised = sorted.map(|(key, value)| (key, self.other(value)));
        self.0.bulk_load(disguised)
    }
}
