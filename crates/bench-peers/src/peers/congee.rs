//! `congee`: ART with optimistic lock coupling, for keys of 8 bytes.

use std::sync::Arc;

use congee::Congee;

use crate::index::{Index, LONGEST_SCAN, Scanned, Setting};

/// Words.
pub type Words = Arc<Congee<usize, usize>>;

impl Index<u64> for Words {
    fn new(_: &Setting) -> Result<Self, String> {
        Ok(Arc::default())
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        let guard = self.pin();
        Congee::insert(self, *key as usize, value as usize, &guard).is_ok()
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        let guard = self.pin();
        Congee::get(self, &(*key as usize), &guard).map(|value| value as u64)
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        let guard = self.pin();
        let updated = self.compute_if_present(&(*key as usize), |_| Some(value as usize), &guard);
        updated.is_some()
    }

    /// Its ranges end at a key, not after a number of records. So the range is unbounded, and the
    /// scan stops when the buffer is full.
    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        let guard = self.pin();
        let mut buffer = [(0, 0); LONGEST_SCAN];
        let from = *from as usize;
        let count = self.range(&from, &usize::MAX, &mut buffer[..limit], &guard);
        Scanned::of(buffer[..count].iter().map(|pair| pair.1 as u64), limit)
    }
}
