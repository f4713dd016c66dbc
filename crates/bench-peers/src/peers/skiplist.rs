//! `crossbeam-skiplist`: a lock-free skip list. Its values are read in place, so they are atomics.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_skiplist::SkipMap;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<SkipMap<u64, AtomicU64>>;
/// Byte strings.
pub type Bytes = Arc<SkipMap<Box<[u8]>, AtomicU64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        SkipMap::insert(self, *key, AtomicU64::new(value));
        true
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| entry.value().load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        SkipMap::get(self, key)
            .map(|entry| entry.value().store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let range = self.range(*from..);
        Scanned::of(range.map(|entry| entry.value().load(Relaxed)), limit)
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        SkipMap::insert(self, key.into(), AtomicU64::new(value));
        true
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| entry.value().load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        SkipMap::get(self, key)
            .map(|entry| entry.value().store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let range = self.range::<[u8], _>((Included(from), Unbounded));
        Scanned::of(range.map(|entry| entry.value().load(Relaxed)), limit)
    }
}
