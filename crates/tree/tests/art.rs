//! The radix tree under the shared suite, and what only a radix tree has to show.

#[macro_use]
mod suite;

use std::ops::ControlFlow;
use std::sync::Arc;

use suite::bytes::{self, ByteMap, byte_suite_for};
use suite::map::Bounds;
use suite::{TestMap, rooms};
use timberline_placement::{Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::art::{Far, Near, Reach};
use timberline_tree::{Art, BulkError, Full, InsertError, Stats};

struct Map<R: Reach>(Art<u64, u64, Native, R>);

/// What a key of eight bytes may be refused for.
fn full(error: InsertError) -> Full {
    match error {
        InsertError::Full(full) => full,
        other => panic!("{other}"),
    }
}

impl<R: Reach> TestMap for Map<R> {
    const NODE_BYTES: usize = 24;
    const APART: usize = 8;
    const MANY: u64 = 6_400;
    const QUARTER: usize = 21 * rooms::CHUNK;
    const SIZES: usize = 5;
    const EMPTY_NODES: usize = 0;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Full> {
        Ok(Map(
            Art::new(Native(arenas), placement).expect("small arenas")
        ))
    }
    fn arenas(&self) -> &Arenas {
        self.0.memory().arenas()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.0.placed()
    }
    fn stats(&self) -> Stats {
        self.0.stats()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, Full> {
        self.0.insert(&key, value).map_err(full)
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.0.update(&key, value)
    }
    fn compare_and_set(&self, key: u64, expected: u64, new: u64) -> Result<(), Option<u64>> {
        self.0.compare_and_set(&key, expected, new)
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(&key)
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.0.get_many(keys, values);
    }
    fn range(&self, (low, high): Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.0.range((low.as_ref(), high.as_ref()))
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.0.scan(&from, limit, visit)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn clear(&self) {
        self.0.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, BulkError> {
        self.0.bulk_load(sorted)
    }
}

suite_for!(near: Map<Near>);

impl ByteMap for Art<[u8], u64> {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, InsertError> {
        Ok(Art::new(Native(arenas), placement).expect("small arenas"))
    }
    fn arenas(&self) -> &Arenas {
        self.memory().arenas()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.placed()
    }
    fn stats(&self) -> Stats {
        self.stats()
    }
    fn insert(&self, key: &[u8], value: u64) -> Result<Option<u64>, InsertError> {
        self.insert(key, value)
    }
    fn update(&self, key: &[u8], value: u64) -> Option<u64> {
        self.update(key, value)
    }
    fn upsert_with(
        &self,
        key: &[u8],
        value: impl FnMut(Option<u64>) -> u64,
    ) -> Result<u64, InsertError> {
        self.upsert_with(key, value)
    }
    fn remove(&self, key: &[u8]) -> Option<u64> {
        self.remove(key)
    }
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get(key)
    }
    fn get_many(&self, keys: &[&[u8]], values: &mut [Option<u64>]) {
        self.get_many(keys, values);
    }
    fn first(&self) -> Option<(Vec<u8>, u64)> {
        self.first()
    }
    fn last(&self) -> Option<(Vec<u8>, u64)> {
        self.last()
    }
    fn pop_first(&self) -> Option<(Vec<u8>, u64)> {
        self.pop_first()
    }
    fn pop_last(&self) -> Option<(Vec<u8>, u64)> {
        self.pop_last()
    }
    fn range(&self, bounds: bytes::Bounds<'_>) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
        self.range(bounds)
    }
    fn after_seek(&self, taken: usize, key: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let mut range = self.iter();
        range.by_ref().take(taken).for_each(drop);
        range.seek(key);
        range.collect()
    }
    fn prefix(&self, prefix: &[u8]) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
        self.prefix(prefix)
    }
    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> usize {
        self.scan_bytes(from, limit, visit)
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn clear(&self) {
        self.clear();
    }
}

byte_suite_for!(of_bytes: Art<[u8], u64>);

/// With links of 64 bits nodes have other sizes; that is all that differs.
mod far {
    use super::*;
    suite_for! { @ Map<Far>:
        model::agrees_over_a_long_run,
        own_keys::threads_with_their_own_keys_lose_nothing,
        scans::standing_records_are_seen_once_in_order,
        faults::a_failed_allocation_fails_an_insert_or_nothing,
        reclaim::churn_gives_everything_back,
    }
}
