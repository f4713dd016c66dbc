//! `crossbeam-skiplist`: a lock-free skip list. Its values are read in place, so they are atomics.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_skiplist::SkipMap;

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = Arc<SkipMap<K, AtomicU64>>;

impl<K: ?Sized + Ord, O: Owned<K>> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(SkipMap::new()))
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        SkipMap::insert(self, O::copy(key), AtomicU64::new(value));
        true
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| entry.value().load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        let entry = SkipMap::get(self, key);
        entry
            .map(|entry| entry.value().store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let range = self.range((Included(from), Unbounded));
        Scanned::of(range.map(|entry| entry.value().load(Relaxed)), limit)
    }
}
