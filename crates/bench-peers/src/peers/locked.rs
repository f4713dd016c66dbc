//! `locked-btreemap`: the standard library's B-tree under `parking_lot`'s reader-writer lock.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<RwLock<BTreeMap<u64, u64>>>;
/// Byte strings.
pub type Bytes = Arc<RwLock<BTreeMap<Box<[u8]>, u64>>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        self.write().insert(*key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        self.read().get(key).copied()
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        let mut map = self.write();
        map.get_mut(key).map(|old| *old = value).is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let map = self.read();
        Scanned::of(map.range(*from..).map(|(_, value)| *value), limit)
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        self.write().insert(key.into(), value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.read().get(key).copied()
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        let mut map = self.write();
        map.get_mut(key).map(|old| *old = value).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let map = self.read();
        let range = map.range::<[u8], _>((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| *value), limit)
    }
}
