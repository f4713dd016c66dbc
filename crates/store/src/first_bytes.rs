//! How many keys begin with each byte.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts of keys by their first byte. The empty key has none.
///
/// They change under the log's lock, so no two threads write to them at a time, and a moment before
/// the index.
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

    /// Counts keys that come in order, so that few share a first byte with none before.
    pub fn run(&self) -> Run<'_> {
        Run {
            all: self,
            first: 0,
            keys: 0,
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

/// Keys that came one after the other and begin with the same byte. They are counted at once when
/// another byte comes, or at the end: threads would wait for each other at each key otherwise.
pub(crate) struct Run<'a> {
    all: &'a FirstBytes,
    first: u8,
    keys: usize,
}

impl Run<'_> {
    /// As [`FirstBytes::add`].
    pub fn add(&mut self, key: &[u8]) {
        if let Some(&first) = key.first() {
            if first != self.first {
                self.count();
                self.first = first;
            }
            self.keys += 1;
        }
    }

    fn count(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.all.0[usize::from(self.first)].fetch_add(keys, Relaxed);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.count();
    }
}
