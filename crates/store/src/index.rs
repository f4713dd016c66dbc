//! The index: a map from keys to words that say where their records lie, in memory of any kind.
//!
//! The store is not generic over the memory, so that all of it is compiled once. A call through the
//! trait costs some nanoseconds; what a lookup reads costs hundreds.

use std::fmt;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;

use timberline_tier::Memory;
use timberline_tree::Art;
use timberline_tree::art::{Held, Spot};

use crate::Error;

/// A lookup that yields wherever it would wait for memory.
type Lookup<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

/// Keys with their words, in order.
pub(crate) type Entries = Box<dyn DoubleEndedIterator<Item = (Vec<u8>, u64)> + Send>;

/// A key's word, and where in the index it is, if it has a place of its own; or that there is none.
pub(crate) type Found<'h> = Option<(u64, Option<Spot<'h>>)>;

/// The index's map, in whatever memory it is.
pub(crate) trait Index: Send + Sync {
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// The same. Where memory is slow, other operations go on meanwhile.
    fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a>;

    /// The words of many keys. Their paths are read at the same time.
    fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]);

    /// Keeps what [`find_many`](Self::find_many) finds.
    fn hold(&self) -> Held<'_>;

    /// As [`get_many`](Self::get_many), with the places in the index, as far as keys have some of
    /// their own.
    fn find_many<'h>(&'h self, held: &'h Held<'_>, keys: &[&[u8]], found: &mut [Found<'h>]);

    /// The word of a key that was found there; `None` if it is not there any more.
    fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64>;

    /// Replaces the word of a key that was found there. The previous one; `None` if it is not there
    /// any more.
    fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64>;

    /// Inserts or replaces. The previous word; fails only if there was none.
    fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error>;

    /// Replaces the word of a key that has one. The previous one.
    fn update(&self, key: &[u8], word: u64) -> Option<u64>;

    fn remove(&self, key: &[u8]) -> Option<u64>;

    /// Removes a key if it has this word.
    fn remove_if(&self, key: &[u8], word: u64);

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries;

    /// Those that begin so.
    fn prefix(&self, prefix: &[u8]) -> Entries;

    fn len(&self) -> usize;

    /// Bytes of memory, of all tiers.
    fn bytes(&self) -> u64;

    /// Whether a part of it may be in memory so slow that a lookup is to let others go on.
    fn is_tiered(&self) -> bool;
}

impl dyn Index {
    pub fn iter(&self) -> Entries {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }
}

impl<M: Memory> Index for Art<[u8], u64, M> {
    fn get(&self, key: &[u8]) -> Option<u64> {
        Art::get(self, key)
    }

    fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a> {
        Box::pin(Art::get_async(self, key))
    }

    fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]) {
        Art::get_many(self, keys, words);
    }

    fn hold(&self) -> Held<'_> {
        Art::hold(self)
    }

    fn find_many<'h>(&'h self, held: &'h Held<'_>, keys: &[&[u8]], found: &mut [Found<'h>]) {
        Art::find_many(self, held, keys, found);
    }

    fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64> {
        Art::get_at(self, spot, key)
    }

    fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64> {
        Art::update_at(self, spot, key, word)
    }

    fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error> {
        Art::insert(self, key, word).map_err(|error| Error::map("the index", error))
    }

    fn update(&self, key: &[u8], word: u64) -> Option<u64> {
        Art::update(self, key, word)
    }

    fn remove(&self, key: &[u8]) -> Option<u64> {
        Art::remove(self, key)
    }

    fn remove_if(&self, key: &[u8], word: u64) {
        Art::remove_if(self, key, |present| present == word);
    }

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries {
        Box::new(Art::range(self, (low, high)))
    }

    fn prefix(&self, prefix: &[u8]) -> Entries {
        Box::new(Art::prefix(self, prefix))
    }

    fn len(&self) -> usize {
        Art::len(self)
    }

    fn bytes(&self) -> u64 {
        let (fast, slow) = self.committed();
        (fast + slow) as u64
    }

    fn is_tiered(&self) -> bool {
        Art::is_tiered(self)
    }
}

/// The memory of a store's index: plain unless an [`of`](Self::of) says otherwise.
///
/// In tiers, the index's hot paths are in fast memory, by the map's own placement; and while a get
/// waits for slow memory, the executor goes on with other operations. So memory of some
/// microseconds costs little where many are in flight (Bando et al., SIGMOD 2025).
///
/// ```
/// use timberline_store::{IndexMemory, Options};
/// use timberline_tree::Art;
///
/// // The index's hot paths in 64 MiB of DRAM, the others on NUMA node 2: a CXL expander.
/// let index = IndexMemory::of(|| {
///     let builder = Art::builder().fast_memory(64 << 20).fast_nodes([0]);
///     builder.slow_memory(4 << 30).slow_nodes([2]).build()
/// });
/// let options = Options { index, ..Options::default() };
/// ```
#[derive(Clone)]
pub struct IndexMemory(Arc<Make>);

type Make = dyn Fn() -> Result<Box<dyn Index>, Error> + Send + Sync;

impl IndexMemory {
    /// That of a map that `make` makes, empty, whenever the store needs another one. It is called
    /// when the store is opened, once more for each checkpoint that can't be used.
    pub fn of<M: Memory>(
        make: impl Fn() -> Result<Art<[u8], u64, M>, timberline_tree::Error> + Send + Sync + 'static,
    ) -> IndexMemory {
        IndexMemory(Arc::new(move || {
            let map = make().map_err(|error| Error::map("the index's memory", error))?;
            Ok(Box::new(map))
        }))
    }

    /// An empty index.
    pub(crate) fn make(&self) -> Result<Box<dyn Index>, Error> {
        (self.0)()
    }
}

impl Default for IndexMemory {
    /// Plain memory.
    fn default() -> IndexMemory {
        IndexMemory::of(|| Art::builder().build())
    }
}

impl fmt::Debug for IndexMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexMemory")
    }
}

impl Error {
    /// Why the map of this could not do something.
    pub(crate) fn map(of: &str, error: timberline_tree::Error) -> Error {
        match error {
            timberline_tree::Error::Configuration(reason) => {
                Error::Configuration(format!("{of}: {reason}"))
            }
            _ => Error::OutOfMemory,
        }
    }
}
