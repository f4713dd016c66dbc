//! `bplustree`: a B+tree with optimistic lock coupling.

use std::sync::Arc;

use bplustree::BPlusTree;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<BPlusTree<u64, u64>>;
/// Byte strings.
pub type Bytes = Arc<BPlusTree<Box<[u8]>, u64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(BPlusTree::new()))
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        BPlusTree::insert(self, *key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        self.lookup(key, |value| *value)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        BPlusTree::insert(self, *key, value).is_some()
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let mut records = self.raw_iter();
        records.seek(from);
        let mut scanned = Scanned::default();
        while let Some((_, value)) = records.next()
            && scanned.take(*value, limit)
        {}
        scanned
    }
}

impl Index<[u8]> for Bytes {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(BPlusTree::new()))
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        BPlusTree::insert(self, key.into(), value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.lookup(key, |value| *value)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        BPlusTree::insert(self, key.into(), value).is_some()
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
        let mut records = self.raw_iter();
        records.seek(from);
        let mut scanned = Scanned::default();
        while let Some((_, value)) = records.next()
            && scanned.take(*value, limit)
        {}
        scanned
    }
}
