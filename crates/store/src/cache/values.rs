//! Byte strings that may be wanted again: the least used goes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use triomphe::ThinArc;

use super::doorkeeper::{Doorkeeper, ODD};
use super::memory::{Held, Room};

/// Byte strings, each with the time at which it expires, by a word that never names another.
///
/// The least used goes first (S3-FIFO, in the crate's variant).
pub(super) struct Values {
    cache: Option<Cache<u64, Cached, Weight>>,
    /// Where they are held, if not in the heap.
    room: Option<Arc<Room>>,
    /// Whether there was no room when it was last looked at.
    is_full: AtomicBool,
    doorkeeper: Doorkeeper,
}

#[derive(Clone)]
struct Cached {
    expires: u64,
    bytes: Bytes,
}

#[derive(Clone)]
enum Bytes {
    Heap(ThinArc<Use, u8>),
    Held(Arc<(Use, Held)>),
}

/// Whether a string has been read, in any copy of its entry.
struct Use(AtomicBool);

impl Use {
    fn new(was_read: bool) -> Use {
        Use(AtomicBool::new(was_read))
    }

    fn note(&self) {
        // Most are noted already: no line is written for nothing.
        if !self.0.load(Relaxed) {
            self.0.store(true, Relaxed);
        }
    }
}

impl Bytes {
    fn usage(&self) -> &Use {
        match self {
            Bytes::Heap(bytes) => &bytes.header.header,
            Bytes::Held(held) => &held.0,
        }
    }
}

/// Bytes of an entry beside the value: its counters, what the allocator adds, and its place in the
/// tables, of which half may be empty.
const ENTRY: u64 = 168;
/// The same of one in a room: its number's place in the map, too.
const HELD: u64 = ENTRY + 64;
/// Bytes of a value, about, for the first size of the tables. They grow.
const TYPICAL: u64 = 4096;
/// The part for those that were used again. What the doorkeeper lets in deserves more than a short
/// trial: with the crate's 0.97 most leave before they are used once more.
const HOT: f64 = 0.8;
/// Bytes of the cache for each word that the doorkeeper remembers.
const WORD: u64 = 1024;

#[derive(Clone)]
struct Weight;

impl Weighter<u64, Cached> for Weight {
    fn weight(&self, _: &u64, cached: &Cached) -> u64 {
        match &cached.bytes {
            Bytes::Heap(bytes) => bytes.slice.len() as u64 + ENTRY,
            // An eighth at most is wasted by the slot's size.
            Bytes::Held(held) => held.1.len as u64 / 8 * 9 + HELD,
        }
    }
}

fn cache_of(bytes: u64) -> Cache<u64, Cached, Weight> {
    let values = (bytes / TYPICAL).clamp(16, 1 << 20) as usize;
    let mut options = OptionsBuilder::new();
    options
        .estimated_items_capacity(values)
        .weight_capacity(bytes)
        .hot_allocation(HOT);
    let options = options.build().expect("all that it needs is set");
    Cache::with_options(options, Weight, Default::default(), Default::default())
}

impl Values {
    /// Strings of at most so many bytes, all that it takes to keep them included, in the heap or in
    /// a room. 0 keeps none.
    pub fn new(bytes: u64, room: Option<Arc<Room>>) -> Values {
        Values {
            cache: (bytes > 0).then(|| cache_of(bytes)),
            room,
            is_full: AtomicBool::new(bytes == 0),
            doorkeeper: Doorkeeper::new(bytes / WORD),
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
            cache.retain(|&word, _| (word ^ kept).wrapping_mul(ODD) <= share);
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

    /// Whether to read one may take so long that others are to go on meanwhile.
    pub fn is_tiered(&self) -> bool {
        self.room.as_ref().is_some_and(|it| it.is_tiered())
    }

    /// What `read` makes of a string and when it expires.
    pub fn read<T>(&self, word: u64, read: impl FnOnce(u64, &[u8]) -> T) -> Option<T> {
        let Cached { expires, bytes } = self.cache.as_ref()?.get(&word)?;
        bytes.usage().note();
        match bytes {
            Bytes::Heap(bytes) => Some(read(expires, &bytes.slice)),
            Bytes::Held(held) => Some(read(expires, &held.1.get()?)),
        }
    }

    /// A string that is held in a room, and when it expires. Yields wherever it would wait for
    /// memory.
    pub async fn held(&self, word: u64) -> Option<(u64, Vec<u8>)> {
        self.room.as_ref()?;
        let Cached { expires, bytes } = self.cache.as_ref()?.get(&word)?;
        let Bytes::Held(held) = bytes else {
            return None;
        };
        held.0.note();
        Some((expires, held.1.get_async().await?))
    }

    /// Whether there was no room when it was last [looked at](Self::has_room).
    pub fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Whether it is here. It does not count as a use.
    pub fn contains(&self, word: u64) -> bool {
        let cache = self.cache.as_ref();
        cache.is_some_and(|it| it.contains_key(&word))
    }

    /// Whether it is here and was read, since it was [renamed](Self::rename) if it was.
    pub fn was_read(&self, word: u64) -> bool {
        let cached = self.cache.as_ref().and_then(|it| it.peek(&word));
        cached.is_some_and(|it| it.bytes.usage().0.load(Relaxed))
    }

    /// Whether it is here. If it is in the heap, a byte of it is read, so that the next to read it
    /// need not wait for memory. It does not count as a use.
    pub fn touch(&self, word: u64) -> bool {
        let cached = self.cache.as_ref().and_then(|it| it.peek(&word));
        if let Some(Cached { bytes, .. }) = &cached
            && let Bytes::Heap(bytes) = bytes
        {
            std::hint::black_box(bytes.slice.first().copied());
        }
        cached.is_some()
    }

    /// Whether to keep a string that was read: while there is room, or from the second time on.
    pub fn admits(&self, word: u64) -> bool {
        !self.is_full() || self.doorkeeper.has_seen(word)
    }

    /// Keeps a string, if there is memory for it; `was_read` says whether somebody read it.
    pub fn insert(&self, word: u64, expires: u64, bytes: &[u8], was_read: bool) {
        let Some(cache) = &self.cache else { return };
        let usage = Use::new(was_read);
        let bytes = match &self.room {
            None => Some(Bytes::Heap(ThinArc::from_header_and_slice(usage, bytes))),
            Some(room) => room
                .hold(bytes)
                .map(|it| Bytes::Held(Arc::new((usage, it)))),
        };
        if let Some(bytes) = bytes {
            cache.insert(word, Cached { expires, bytes });
        }
    }

    /// Another word names a string from now on, as if it had not been read. Whether it is here.
    pub fn rename(&self, old: u64, new: u64) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        let cached = cache.remove(&old);
        let is_here = cached.is_some();
        if let Some((_, cached)) = cached {
            cached.bytes.usage().0.store(false, Relaxed);
            cache.insert(new, cached);
        }
        is_here
    }

    /// Nobody will want it.
    pub fn remove(&self, word: u64) {
        if let Some(cache) = &self.cache {
            cache.remove(&word);
        }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.cache.as_ref().map_or(0, Cache::weight)
    }
}
