//! `arctic-map`: a lock-free adaptive radix tree (Ni et al., OSDI 2026).
//!
//! For byte strings we use its type without zero bytes, since our files have none. The crate checks
//! that on each operation. (Skipping the check needs unsafe code.)

use std::ops::ControlFlow;
use std::sync::Arc;

use arctic::key::{BoxedSlice, NonNull, Slice};
use arctic::{ConcurrentMap, Order};

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<ConcurrentMap<u64, u64>>;
/// Byte strings.
pub type Bytes = Arc<ConcurrentMap<BoxedSlice<NonNull>, u64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        ConcurrentMap::insert(self, *key, value).is_ok()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        ConcurrentMap::get(self, key).map(|value| *value)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        ConcurrentMap::update(self, key, value).is_ok()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let range = self.range(*from..);
        let mut scanned = Scanned::default();
        let _ = range
            .values(Order::Ascend)
            .try_fold((), |(), value| more(&mut scanned, *value, limit));
        scanned
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        ConcurrentMap::insert(self, checked(key), value).is_ok()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        ConcurrentMap::get(self, checked(key)).map(|value| *value)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        ConcurrentMap::update(self, checked(key), value).is_ok()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let range = self.range(checked(from)..);
        let mut scanned = Scanned::default();
        let _ = range
            .values(Order::Ascend)
            .try_fold((), |(), value| more(&mut scanned, *value, limit));
        scanned
    }
}

#[inline]
fn checked(key: &[u8]) -> &Slice<NonNull> {
    Slice::new(key).expect("a line without a zero byte")
}

#[inline]
fn more(scanned: &mut Scanned, value: u64, limit: usize) -> ControlFlow<()> {
    if scanned.take(value, limit) {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
