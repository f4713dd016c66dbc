//! Values that were read or written and may be wanted again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::location::Location;

/// Values in memory, by the location of their record.
///
/// A location is the place of one record, and never used again for another. The index decides which
/// record a key has, so no value here can be stale, whatever a reader inserts late. The least used
/// goes first (S3-FIFO, in the crate's variant).
pub(crate) struct Values(Option<Cache<u64, Arc<[u8]>, Bytes>>);

/// Bytes of an entry beside the value: its place in the tables, two counters, the allocator's.
const ENTRY: u64 = 96;
/// Bytes of an entry, about, for the first size of the tables.
const TYPICAL: u64 = 512;

#[derive(Clone)]
struct Bytes;

impl Weighter<u64, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &u64, value: &Arc<[u8]>) -> u64 {
        value.len() as u64 + ENTRY
    }
}

impl Values {
    /// Values of at most so many bytes, all that it takes to keep them included. 0 keeps none.
    pub fn new(bytes: u64) -> Values {
        let values = (bytes / TYPICAL).clamp(16, 1 << 20) as usize;
        Values((bytes > 0).then(|| Cache::with_weighter(values, bytes, Bytes)))
    }

    /// Keeps values of at most so many bytes from now on, if it keeps any.
    pub fn set_bytes(&self, bytes: u64) {
        if let Some(cache) = &self.0 {
            cache.set_capacity(bytes);
        }
    }

    pub fn get(&self, location: Location) -> Option<Vec<u8>> {
        let value = self.0.as_ref()?.get(&location.to_word())?;
        Some(value.to_vec())
    }

    pub fn insert(&self, location: Location, value: &[u8]) {
        if let Some(cache) = &self.0 {
            cache.insert(location.to_word(), value.into());
        }
    }

    /// Cleaning moved a record.
    pub fn relocate(&self, old: Location, new: Location) {
        if let Some(cache) = &self.0
            && let Some((_, value)) = cache.remove(&old.to_word())
        {
            cache.insert(new.to_word(), value);
        }
    }

    /// A record is gone.
    pub fn remove(&self, location: Location) {
        if let Some(cache) = &self.0 {
            cache.remove(&location.to_word());
        }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, Cache::weight)
    }
}
