//! `scc::TreeIndex`: a B+tree whose readers take no lock. Its values are read in place, so they are
//! atomics.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use scc::{Guard, TreeIndex};

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = Arc<TreeIndex<K, AtomicU64>>;

impl<K: ?Sized + Ord, O: Owned<K>> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(TreeIndex::new()))
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        self.insert_sync(O::copy(key), AtomicU64::new(value))
            .is_ok()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.peek_with(key, |_, value| value.load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        self.peek_with(key, |_, old| old.store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let guard = Guard::new();
        let range = self.range::<K, _>((Included(from), Unbounded), &guard);
        Scanned::of(range.map(|(_, value)| value.load(Relaxed)), limit)
    }
}
