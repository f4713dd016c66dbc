//! `masstree`: a trie of B+trees over byte strings.
//!
//! Its scans of byte strings skip the record at the start key (version 0.9.5, in every scan API),
//! so we do not measure them. Scans of keys of 8 bytes, which end in its first layer, are correct.

use std::sync::Arc;

use masstree::{MassTree, RangeBound};

use crate::index::{BigEndian, Index, Scanned, Setting};

/// Words.
pub type Words = BigEndian<Bytes>;
/// Byte strings.
pub type Bytes = Arc<MassTree<u64>>;

impl Index<[u8]> for Bytes {
    const SCANS: bool = false;

    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(MassTree::new()))
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        MassTree::insert(self, key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        MassTree::get(self, key)
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let guard = self.guard();
        let mut scanned = Scanned::default();
        MassTree::scan(
            self,
            RangeBound::Included(from),
            RangeBound::Unbounded,
            |_, value| scanned.take(value, limit),
            &guard,
        );
        scanned
    }
}
