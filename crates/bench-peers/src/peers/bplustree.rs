//! `bplustree`: a B+tree with optimistic lock coupling.

use std::sync::Arc;

use bplustree::BPlusTree;

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = Arc<BPlusTree<K, u64>>;

impl<K: ?Sized + Ord, O: Owned<K>> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(BPlusTree::new()))
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        BPlusTree::insert(self, O::copy(key), value).is_none()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.lookup(key, |value| *value)
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let mut records = self.raw_iter();
        records.seek(from);
        let mut scanned = Scanned::default();
        while let Some((_, value)) = records.next()
            && scanned.take(*value, limit)
        {}
        scanned
    }
}
