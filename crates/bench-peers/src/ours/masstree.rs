//! `masstree`: our trie of B+trees, over byte strings.

use std::ops::ControlFlow;

use timberline_tier::Plain;
use timberline_tree::Masstree;

use super::{committed, plain_memory};
use crate::index::{Index, Scanned, Setting};

impl Index<[u8]> for Masstree<[u8], u64, Plain> {
    fn new(setting: &Setting) -> Result<Self, String> {
        let (memory, placement) = plain_memory(setting)?;
        Masstree::new(memory, placement).map_err(|error| error.to_string())
    }

    #[inline]
    fn insert(&self, key: &[u8], value: u64) -> bool {
        Masstree::insert(self, key, value).is_ok()
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        Masstree::get(self, key)
    }

    #[inline]
    fn update(&self, key: &[u8], value: u64) -> bool {
        matches!(Masstree::update(self, key, value), Ok(Some(_)))
    }

    #[inline]
    fn scan(&self, from: &[u8], limit: usize) -> Scanned {
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
