//! `art`: our radix tree, over words and over byte strings.

use std::ops::ControlFlow;

use timberline_tier::Plain;
use timberline_tree::{Art, ByteKey};

use super::{committed, plain_memory};
use crate::index::{Index, Scanned, Setting};

impl<K: ByteKey + ?Sized + 'static> Index<K> for Art<K, u64, Plain> {
    fn new(setting: &Setting) -> Result<Self, String> {
        let (memory, placement) = plain_memory(setting)?;
        Art::new(memory, placement).map_err(|error| error.to_string())
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        Art::insert(self, key, value).is_ok()
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        Art::get(self, key)
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        matches!(Art::update(self, key, value), Ok(Some(_)))
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        let mut scanned = Scanned::default();
        self.scan_bytes(from, limit, |_, value| {
            scanned.take(value, limit);
            ControlFlow::Continue(())
        });
        scanned
    }

    fn committed(&self) -> u64 {
        committed(self.memory())
    }
}
