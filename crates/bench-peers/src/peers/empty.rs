//! `empty`: does nothing. Its figures are the benchmark's own cost.

use std::hint::black_box;

use crate::index::{Index, Scanned, Setting};

/// No map.
#[derive(Clone)]
pub struct Empty;

impl<K: ?Sized> Index<K> for Empty {
    const STORES: bool = false;

    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Empty)
    }

    #[inline]
    fn insert(&self, key: &K, value: u64) -> bool {
        black_box((key, value));
        true
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u64> {
        black_box(key);
        Some(0)
    }

    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        black_box((key, value));
        true
    }

    #[inline]
    fn scan(&self, from: &K, limit: usize) -> Scanned {
        black_box(from);
        Scanned {
            count: limit,
            ..Scanned::default()
        }
    }
}
