//! `ferntree`: a B+tree with optimistic lock coupling. Lookups use its optimistic reads, which take
//! no lock.

use std::sync::Arc;

use ferntree::Tree;

use crate::index::{Index, Scanned, Setting};

/// Words.
pub type Words = Arc<Tree<u64, u64>>;
/// Byte strings.
pub type Bytes = Arc<Tree<Vec<u8>, u64>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(Tree::new()))
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        Tree::insert(self, *key, value).is_none()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        self.get_optimistic(key)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        Tree::insert(self, *key, value).is_some()
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
        Ok(Arc::new(Tree::new()))
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        Tree::insert(self, key.into(), value).is_none()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.get_optimistic(key)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        Tree::insert(self, key.into(), value).is_some()
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
