//! `arctic-map`: a lock-free adaptive radix tree (Ni et al., OSDI 2026).
//!
//! For byte strings we use its type without zero bytes, since our keys have none. The crate checks
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

/// Defines an adapter from the map, its form of a key, and a reference to that.
macro_rules! arctic {
    ($map:ty, $key:ty, $key_of:expr, $lend:expr) => {
        impl Index<$key> for $map {
            fn new(_: &Setting) -> Result<Self, String> {
                Ok(Arc::default())
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> bool {
                ConcurrentMap::insert(self, $key_of(key), value).is_ok()
            }

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                ConcurrentMap::get(self, $lend(key)).map(|value| *value)
            }

            #[inline]
            fn update(&self, key: &$key, value: u64) -> bool {
                ConcurrentMap::update(self, $lend(key), value).is_ok()
            }

            #[inline]
            fn scan(&self, from: &$key, limit: usize) -> Scanned {
                let range = self.range($key_of(from)..);
                let mut scanned = Scanned::default();
                let _ = range.values(Order::Ascend).try_fold((), |(), value| {
                    match scanned.take(*value, limit) {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                scanned
            }
        }
    };
}

arctic!(Words, u64, |key: &u64| *key, std::convert::identity);
arctic!(Bytes, [u8], checked, checked);

#[inline]
fn checked(key: &[u8]) -> &Slice<NonNull> {
    Slice::new(key).expect("a key without a zero byte")
}
