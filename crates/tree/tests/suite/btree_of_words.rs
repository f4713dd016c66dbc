//! The B+tree as the suite sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{BTree, Error, OutOfMemory, Stats};

use crate::suite::TestMap;
use crate::suite::map::{Bounds, full};

/// Body words of the smallest node, 128 bytes: six entries.
pub const NODE_128: usize = 12;

pub type Map<const WORDS: usize> = BTree<u64, u64, Native, WORDS>;

impl<const WORDS: usize> TestMap for Map<WORDS> {
    const NODE_BYTES: usize = Self::NODE_BYTES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        BTree::in_memory(Native(arenas), placement)
    }
    fn arenas(&self) -> &Arenas {
        self.memory().arenas()
    }
    fn domain(&self) -> &Domain {
        self.domain()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.placed()
    }
    fn stats(&self) -> Stats {
        self.stats()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        self.insert(&key, value).map_err(full)
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.update(&key, value)
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let set = self.compare_exchange(&key, current, new);
        set.expect("there is room")
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key)
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        self.get_many(keys, values);
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.range(bounds)
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.scan(&from, limit, visit)
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn pop_first(&self) -> Option<(u64, u64)> {
        self.pop_first()
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        self.pop_last()
    }
    fn clear(&self) {
        self.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        self.bulk_load(sorted)
    }
}
