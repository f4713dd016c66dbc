//! `indexset`: a two-level B-tree. Its byte strings are `String`s, because it looks up no other
//! owned type by a borrowed form. The adapter checks on each operation that they are UTF-8.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use indexset::concurrent::map::BTreeMap;

use crate::index::{Index, Scanned, Setting};

/// Defines an adapter from the map's keys, and how they are borrowed.
macro_rules! indexset {
    ($owned:ty, $key:ty, $borrowed:ty, $borrow:expr) => {
        impl Index<$key> for Arc<BTreeMap<$owned, u64>> {
            fn new(_: &Setting) -> Result<Self, String> {
                Ok(Arc::new(BTreeMap::new()))
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> bool {
                BTreeMap::insert(self, $borrow(key).to_owned(), value).is_none()
            }

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                BTreeMap::get(self, $borrow(key)).map(|found| found.get().value)
            }

            #[inline]
            fn scan(&self, from: &$key, limit: usize) -> Scanned {
                let range = self.range::<$borrowed, _>((Included($borrow(from)), Unbounded));
                Scanned::of(range.map(|(_, value)| *value), limit)
            }
        }
    };
}

indexset!(u64, u64, u64, std::convert::identity::<&u64>);
indexset!(String, [u8], str, text);

/// Words, or byte strings.
pub type Map<K> = Arc<BTreeMap<K, u64>>;

#[inline]
fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("a key of text")
}
