//! Values that were read or written and may be wanted again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::location::Location;

/// Values in memory, and when they expire, by the location of their record.
///
/// A location is the place of one record, and never used again for another. The index decides which
/// record a key has, so no value here can be stale, whatever a reader inserts late. The least used
/// goes first (S3-FIFO, in the crate's variant).
pub(crate) struct Values {
    cache: Option<Cache<u64, Cached, Bytes>>,
    /// Whether there was no room when it was last looked at.
    is_full: AtomicBool,
}

#[derive(Clone)]
struct Cached {
    expires: u64,
    value: Arc<[u8]>,
}

/// Bytes of an entry beside the value: its counters, what the allocator adds, and its place in the
/// tables, of which half may be empty.
const ENTRY: u64 = 168;
/// Bytes of a value, about, for the first size of the tables. They grow.
const TYPICAL: u64 = 4096;

/// Multiplied by this, numbers are spread over all of their range (Knuth's golden ratio).
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone)]
struct Bytes;

impl Weighter<u64, Cached> for Bytes {
    fn weight(&self, _: &u64, cached: &Cached) -> u64 {
        cached.value.len() as u64 + ENTRY
    }
}

impl Values {
    /// Values of at most so many bytes, all that it takes to keep them included. 0 keeps none.
    pub fn new(bytes: u64) -> Values {
        let values = (bytes / TYPICAL).clamp(16, 1 << 20) as usize;
        Values {
            cache: (bytes > 0).then(|| Cache::with_weighter(values, bytes, Bytes)),
            is_full: AtomicBool::new(bytes == 0),
        }
    }

    /// Keeps no more than this many bytes from now on, if it keeps any.
    pub fn set_bytes(&self, bytes: u64) {
        let Some(cache) = &self.cache else { return };
        if cache.capacity() <= bytes {
            return cache.set_capacity(bytes);
        }
        // Less than has to be, so that not each of many small steps looks at all values.
        let bytes = bytes - bytes / 16;
        cache.set_capacity(bytes);
        let kept = cache.weight();
        if kept > bytes {
            // The cache evicts only what it would for a new value. Any will do of the others.
            let share = (u128::from(u64::MAX) * u128::from(bytes) / u128::from(kept)) as u64;
            cache.retain(|&location, _| (location ^ kept).wrapping_mul(ODD) <= share);
        }
    }

    /// Whether more values fit without any that goes.
    pub fn has_room(&self) -> bool {
        let has_room = |cache: &Cache<_, _, _>| cache.weight() < cache.capacity() / 16 * 15;
        let has_room = self.cache.as_ref().is_some_and(has_room);
        if has_room == self.is_full() {
            self.is_full.store(!has_room, Relaxed);
        }
        has_room
    }

    /// What `read` makes of a value and when it expires.
    pub fn read<T>(&self, location: Location, read: impl FnOnce(u64, &[u8]) -> T) -> Option<T> {
        let cached = self.cache.as_ref()?.get(&location.to_word())?;
        Some(read(cached.expires, &cached.value))
    }

    /// Whether there was no room when it was last [looked at](Self::has_room).
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Whether it is here. It does not count as a use.
    pub fn contains(&self, location: Location) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|it| it.peek(&location.to_word()).is_some())
    }

    /// Reads a byte of each of these values that is here, so that the next to read it need not wait
    /// for memory. It does not count as a use.
    pub fn touch(&self, locations: &[Location]) {
        let Some(cache) = &self.cache else { return };
        let read = |it: &Location| {
            let cached = cache.peek(&it.to_word())?;
            cached.value.first().copied()
        };
        std::hint::black_box(locations.iter().filter_map(read).fold(0, |a, b| a ^ b));
    }

    pub fn insert(&self, location: Location, expires: u64, value: &[u8]) {
        if let Some(cache) = &self.cache {
            let value = value.into();
            cache.insert(location.to_word(), Cached { expires, value });
        }
    }

    /// Cleaning moved a record. Whether its value is here.
    pub fn relocate(&self, old: Location, new: Location) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        let value = cache.remove(&old.to_word());
        let is_here = value.is_some();
        if let Some((_, value)) = value {
            cache.insert(new.to_word(), value);
        }
        is_here
    }

    /// A record is gone.
    pub fn remove(&self, location: Location) {
        if let Some(cache) = &self.cache {
            cache.remove(&location.to_word());
        }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.cache.as_ref().map_or(0, Cache::weight)
    }
}
