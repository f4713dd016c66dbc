//! `indexset`: a two-level B-tree. Its byte strings are `String`s, because it looks up no other
//! owned type by a borrowed form. The adapter checks on each operation that they are UTF-8.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use indexset::concurrent::map::BTreeMap;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<BTreeMap<u64, u64>>;
/// Byte strings.
pub type Bytes = Arc<BTreeMap<String, u64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(BTreeMap::new()))
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        BTreeMap::insert(self, *key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        BTreeMap::get(self, key).map(|found| found.get().value)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        BTreeMap::insert(self, *key, value).is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let range = self.range::<u64, _>(*from..);
        Scanned::of(range.map(|(_, value)| *value), limit)
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(BTreeMap::new()))
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        BTreeMap::insert(self, text(key).into(), value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        BTreeMap::get(self, text(key)).map(|found| found.get().value)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        BTreeMap::insert(self, text(key).into(), value).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let range = self.range::<str, _>((Included(text(from)), Unbounded));
        Scanned::of(range.map(|(_, value)| *value), limit)
    }
}

#[inline]
fn text(key: &[u8]) -> &str {
    std::str::from_utf8(key).expect("a line of text")
}
