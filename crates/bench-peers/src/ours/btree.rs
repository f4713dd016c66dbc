//! `btree`: our B+tree over words.

use std::ops::ControlFlow;

use timberline_tier::Plain;
use timberline_tree::BTree;

use super::{committed, plain_memory};
use crate::index::{Index, Scanned, Setting};

impl Index<u64> for BTree<u64, u64, Plain> {
    fn new(setting: &Setting) -> Result<Self, String> {
        let (memory, placement) = plain_memory(setting)?;
        BTree::new(memory, placement).map_err(|error| error.to_string())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        BTree::insert(self, *key, value).is_ok()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        BTree::get(self, *key)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        matches!(BTree::update(self, *key, value), Ok(Some(_)))
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let mut scanned = Scanned::default();
        BTree::scan(self, *from, limit, |_, value| {
            scanned.take(value, limit);
            ControlFlow::Continue(())
        });
        scanned
    }

    fn committed(&self) -> u64 {
        committed(self.memory())
    }
}
