//! Masstree over byte strings as the suite sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{InsertError, Masstree, Stats};

use crate::bytes::{Bounds, ByteMap};
use crate::masstree_of_words::leaf_of;

impl<const WORDS: usize> ByteMap for Masstree<[u8], u64, Native, WORDS> {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, InsertError> {
        Ok(Masstree::new(Native(arenas), placement)?)
    }
    fn leaf_of(key: &[u8]) -> NodeKey {
        leaf_of(key)
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
        self.update(key, value).expect("words need no memory")
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
    fn range(&self, bounds: Bounds<'_>) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
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
