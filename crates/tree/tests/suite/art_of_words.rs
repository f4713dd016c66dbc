//! The radix tree as the suite sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::art::Reach;
use timberline_tree::{Art, Error, OutOfMemory, Stats};

use crate::suite::map::{Bounds, full};
use crate::suite::{TestMap, arenas};

pub struct Map<R: Reach>(pub Art<u64, u64, Native, R>);

impl<R: Reach> TestMap for Map<R> {
    const NODE_BYTES: usize = 24;
    const APART: usize = 8;
    // Neighbours: 256 in a row.
    const MANY: u64 = 64_000;
    const QUARTER: usize = 42 * arenas::CHUNK;
    const SIZES: usize = 8;
    const EMPTY_NODES: usize = 0;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        Ok(Map(
            Art::in_memory(Native(arenas), placement).expect("small arenas")
        ))
    }
    fn arenas(&self) -> &Arenas {
        self.0.memory().arenas()
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
        self.0.insert(&key, value).map_err(full)
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.0.update(&key, value)
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let set = self.0.compare_exchange(&key, current, new);
        set.expect("there is room")
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
    fn pop_first(&self) -> Option<(u64, u64)> {
        self.0.pop_first()
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        self.0.pop_last()
    }
    fn clear(&self) {
        self.0.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        self.0.bulk_load(sorted)
    }
}
