//! `locked-btreemap`: the standard library's B-tree under `parking_lot`'s reader-writer lock.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = Arc<RwLock<BTreeMap<K, u64>>>;

impl<K: ?Sized + Ord, O: Owned<K>> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        self.write().insert(O::copy(key), value).is_none()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.read().get(key).copied()
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        let mut map = self.write();
        map.get_mut(key).map(|old| *old = value).is_some()
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let map = self.read();
        let range = map.range((Included(from), Unbounded));
        Scanned::of(range.map(|(_, value)| *value), limit)
    }
}
