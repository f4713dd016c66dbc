//! `ferntree`: a B+tree with optimistic lock coupling. Lookups use its optimistic reads, which take
//! no lock.

use std::sync::Arc;

use ferntree::{OptimisticRead, Tree};

use crate::index::{Index, Owned, Scanned, Setting};

/// Words, or byte strings.
pub type Map<K> = Arc<Tree<K, u64>>;

impl<K: ?Sized + Ord, O: Owned<K> + OptimisticRead> Index<K> for Map<O> {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::new(Tree::new()))
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        Tree::insert(self, O::copy(key), value).is_none()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        self.get_optimistic(key)
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
