//! Memory for what is cached, other than the process's heap.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_tier::Memory;
use timberline_tree::Art;

use crate::Error;

/// A read that yields wherever it would wait for memory.
type Read<'a> = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>>;

/// Byte strings by number, in whatever memory they are.
pub(super) trait Strings: Send + Sync {
    fn get(&self, number: u64) -> Option<Vec<u8>>;

    fn get_async(&self, number: u64) -> Read<'_>;

    /// Whether there was memory for it.
    fn insert(&self, number: u64, bytes: &[u8]) -> bool;

    fn remove(&self, number: u64);

    /// Whether a part of it may be in memory so slow that a reader is to let others go on.
    fn is_tiered(&self) -> bool;
}

impl<M: Memory> Strings for Art<u64, Vec<u8>, M> {
    fn get(&self, number: u64) -> Option<Vec<u8>> {
        Art::get(self, &number)
    }

    fn get_async(&self, number: u64) -> Read<'_> {
        Box::pin(async move { Art::get_async(self, &number).await })
    }

    fn insert(&self, number: u64, bytes: &[u8]) -> bool {
        Art::insert(self, &number, bytes).is_ok()
    }

    fn remove(&self, number: u64) {
        Art::remove(self, &number);
    }

    fn is_tiered(&self) -> bool {
        Art::is_tiered(self)
    }
}

/// Memory of a cache: that of a map, of whose records the cache decides which stay.
///
/// In tiers, what is read most is in fast memory, by the map's own placement; while a get waits for
/// slow memory, the executor goes on with others.
///
/// ```
/// use timberline_store::{CacheMemory, Caching, Options};
/// use timberline_tree::Art;
///
/// // Blocks of the segments on NUMA node 2, a CXL expander; the hottest of them in 64 MiB of DRAM.
/// let memory = CacheMemory::of(|| {
///     let builder = Art::builder().fast_memory(64 << 20).fast_nodes([0]);
///     builder.slow_memory(4 << 30).slow_nodes([2]).build()
/// });
/// let options = Options { caching: Caching::BlocksIn(memory), ..Options::default() };
/// ```
#[derive(Clone)]
pub struct CacheMemory(Arc<Make>);

type Make = dyn Fn() -> Result<Box<dyn Strings>, Error> + Send + Sync;

impl CacheMemory {
    /// That of a map that `make` makes, empty, when the store is opened. If it is smaller than
    /// [`Options::cache_bytes`](crate::Options::cache_bytes), what does not fit is not cached.
    pub fn of<M: Memory>(
        make: impl Fn() -> Result<Art<u64, Vec<u8>, M>, timberline_tree::Error> + Send + Sync + 'static,
    ) -> CacheMemory {
        CacheMemory(Arc::new(move || {
            let map = make().map_err(|error| Error::map("the cache's memory", error))?;
            Ok(Box::new(map))
        }))
    }

    pub(super) fn make(&self) -> Result<Arc<Room>, Error> {
        let strings = (self.0)()?;
        let next = AtomicU64::new(0);
        Ok(Arc::new(Room { strings, next }))
    }
}

impl Default for CacheMemory {
    /// Plain memory.
    fn default() -> CacheMemory {
        CacheMemory::of(|| Art::builder().build())
    }
}

impl fmt::Debug for CacheMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheMemory")
    }
}

/// Where byte strings are held.
pub(super) struct Room {
    strings: Box<dyn Strings>,
    /// The number of the next one.
    next: AtomicU64,
}

impl Room {
    pub fn is_tiered(&self) -> bool {
        self.strings.is_tiered()
    }

    /// Holds a string, if there is memory.
    pub fn hold(self: &Arc<Room>, bytes: &[u8]) -> Option<Held> {
        let number = self.next.fetch_add(1, Relaxed);
        let held = self.strings.insert(number, bytes);
        held.then(|| Held {
            room: Arc::clone(self),
            number,
            len: bytes.len(),
        })
    }
}

/// A byte string in a room, as long as this is there.
pub(super) struct Held {
    room: Arc<Room>,
    number: u64,
    pub len: usize,
}

impl Held {
    pub fn get(&self) -> Option<Vec<u8>> {
        self.room.strings.get(self.number)
    }

    pub async fn get_async(&self) -> Option<Vec<u8>> {
        self.room.strings.get_async(self.number).await
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.strings.remove(self.number);
    }
}
