//! `concurrent-map`: a lock-free B+tree. Each thread has its own clone of the handle.

use std::ops::Bound::{Included, Unbounded};

use concurrent_map::ConcurrentMap;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = ConcurrentMap<u64, u64>;
/// Byte strings.
pub type Bytes = ConcurrentMap<Vec<u8>, u64>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(ConcurrentMap::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        ConcurrentMap::insert(self, *key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        ConcurrentMap::get(self, key)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        ConcurrentMap::insert(self, *key, value).is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        Scanned::of(self.range(*from..).map(|(_, value)| value), limit)
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(ConcurrentMap::default())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        ConcurrentMap::insert(self, key.into(), value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        ConcurrentMap::get(self, key)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        ConcurrentMap::insert(self, key.into(), value).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let range = self.range::<[u8], _>((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| value), limit)
    }
}
