//! `scc::TreeIndex`: a B+tree whose readers take no lock. Its values are read in place, so they are
//! atomics.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use scc::{Guard, TreeIndex};

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<TreeIndex<u64, AtomicU64>>;
/// Byte strings.
pub type Bytes = Arc<TreeIndex<Box<[u8]>, AtomicU64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        self.insert_sync(*key, AtomicU64::new(value)).is_ok()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        self.peek_with(key, |_, value| value.load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        self.peek_with(key, |_, old| old.store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let guard = Guard::new();
        let range = self.range(*from.., &guard);
        Scanned::of(range.map(|(_, value)| value.load(Relaxed)), limit)
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        self.insert_sync(key.into(), AtomicU64::new(value)).is_ok()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.peek_with(key, |_, value| value.load(Relaxed))
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        self.peek_with(key, |_, old| old.store(value, Relaxed))
            .is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let guard = Guard::new();
        let range = self.range::<[u8], _>((Included(from), Unbounded), &guard);
        Scanned::of(range.map(|(_, value)| value.load(Relaxed)), limit)
    }
}
