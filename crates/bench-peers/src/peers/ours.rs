//! `btree`, `art`, `masstree-ours`: our maps as users make them, in plain memory.

use std::ops::ControlFlow;

use timberline_tree::{Art, BTree, Masstree};

use crate::index::{Index, Scanned, Setting};

/// Defines an adapter from the map and its scan.
macro_rules! ours {
    ($map:ident<$key:ty>, $scan:ident) => {
        impl Index<$key> for $map<$key, u64> {
            fn new(_: &Setting) -> Result<Self, String> {
                Ok($map::new())
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> bool {
                $map::insert(self, key, value).is_ok()
            }

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                $map::get(self, key)
            }

            #[inline]
            fn update(&self, key: &$key, value: u64) -> bool {
                matches!($map::update(self, key, value), Ok(Some(_)))
            }

            #[inline]
            fn scan(&self, from: &$key, limit: usize) -> Scanned {
                let mut scanned = Scanned::default();
                self.$scan(from, limit, |_, value| {
                    scanned.take(value, limit);
                    ControlFlow::Continue(())
                });
                scanned
            }
        }
    };
}

ours!(BTree<u64>, scan);
ours!(Art<u64>, scan_bytes);
ours!(Art<[u8]>, scan_bytes);
ours!(Masstree<u64>, scan_bytes);
ours!(Masstree<[u8]>, scan_bytes);
