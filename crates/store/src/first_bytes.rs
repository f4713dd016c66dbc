//! How many keys begin with each byte.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts of keys by their first byte. The empty key has none.
///
/// They change with the index, under the log's lock, so no two threads write to them at a time.
pub(crate) struct FirstBytes(Box<[AtomicUsize]>);

impl Default for FirstBytes {
    fn default() -> FirstBytes {
        FirstBytes((0..=u8::MAX).map(|_| AtomicUsize::new(0)).collect())
    }
}

impl FirstBytes {
    /// A key came into the index.
    pub fn add(&self, key: &[u8]) {
        if let Some(&first) = key.first() {
            self.0[usize::from(first)].fetch_add(1, Relaxed);
        }
    }

    /// A key left the index.
    pub fn remove(&self, key: &[u8]) {
        if let Some(&first) = key.first() {
            self.0[usize::from(first)].fetch_sub(1, Relaxed);
        }
    }

    pub fn get(&self, first: u8) -> usize {
        self.0[usize::from(first)].load(Relaxed)
    }
}
