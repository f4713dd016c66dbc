//! `concurrent-map`: a lock-free B+tree. Each thread has its own clone of the handle.

use std::ops::Bound::{Included, Unbounded};

use concurrent_map::{ConcurrentMap, Minimum};

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = ConcurrentMap<K, u64>;

impl<K: ?Sized + Ord + PartialEq, O: Owned<K> + Minimum> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(ConcurrentMap::default())
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        ConcurrentMap::insert(self, O::copy(key), value).is_none()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        ConcurrentMap::get(self, key)
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let range = self.range::<K, _>((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| value), limit)
    }
}
