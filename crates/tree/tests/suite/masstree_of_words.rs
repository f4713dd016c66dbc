//! Masstree as the suite sees it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{KeyBytes, NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{Error, Key, Masstree, OutOfMemory, Stats};

use crate::suite::TestMap;
use crate::suite::map::{Bounds, full};

/// Body words of the smallest node, 128 bytes: six entries.
pub const NODE_128: usize = 12;

/// The name of the border node that a key's last slice is in: all its slices.
pub fn leaf_of(key: &[u8]) -> NodeKey {
    let mut name = Vec::new();
    let mut rest = key;
    while let Some((slice, more)) = rest
        .split_at_checked(7)
        .filter(|(_, more)| !more.is_empty())
    {
        name.extend_from_slice(slice);
        name.push(8);
        rest = more;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = rest.len() as u8;
    name.extend(last);
    NodeKey::leaf(KeyBytes::from(&name[..]))
}

/// How a map writes words as keys.
pub trait Written: Key<Borrowed = Self, Owned = u64> + Send + Sync {
    fn of(word: u64) -> Self;
}

/// Numbers of eight bytes: one more than a slice, so all but the topmost layer lead to more.
impl Written for u64 {
    fn of(word: u64) -> u64 {
        word
    }
}

pub struct Map<const WORDS: usize, K: Written = u64>(pub Masstree<K, u64, Native, WORDS>);

pub fn bound(bound: &Bound<u64>) -> Bound<&u64> {
    bound.as_ref()
}

impl<const WORDS: usize, K: Written> TestMap for Map<WORDS, K> {
    const NODE_BYTES: usize = Masstree::<K, u64, Native, WORDS>::NODE_BYTES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        Masstree::in_memory(Native(arenas), placement).map(Map)
    }
    fn leaf_of(key: u64) -> NodeKey {
        leaf_of(K::of(key).to_bytes().as_ref())
    }
    fn key_of(fence: &[u8]) -> u64 {
        let slices = fence.chunks_exact(8).flat_map(|slice| &slice[..7]);
        let mut bytes: Vec<u8> = slices.copied().collect();
        bytes.resize(K::of(0).to_bytes().as_ref().len(), 0);
        K::from_bytes(&bytes)
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
        self.0.insert(&K::of(key), value).map_err(full)
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.0.update(&K::of(key), value)
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let set = self.0.compare_exchange(&K::of(key), current, new);
        set.expect("there is room")
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(&K::of(key))
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&K::of(key))
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let keys: Vec<K> = keys.iter().copied().map(K::of).collect();
        self.0.get_many(&keys, values);
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let (low, high) = (bounds.0.map(K::of), bounds.1.map(K::of));
        self.0.range((low.as_ref(), high.as_ref()))
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.0.scan(&K::of(from), limit, visit)
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
        let written = |(key, value)| (K::of(key), value);
        self.0.bulk_load(sorted.into_iter().map(written))
    }
}
