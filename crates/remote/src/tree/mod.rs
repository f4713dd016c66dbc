//! The B+tree over memory servers, as a compute server sees it.
//!
//! | file | noun |
//! |---|---|
//! | `walk.rs` | the way from the root to a node, through the cache |
//! | `fetch.rs`, `replace.rs` | bringing a node into the cache, and making room for it |
//! | `leaf.rs` | operations on one record |
//! | `scan.rs`, `load.rs` | operations on many |
//! | `structure.rs` | splits |
//! | `shared.rs` | inner nodes that several compute servers write |
//! | `space.rs` | addresses for new nodes |
//! | `image.rs` | a node in the pool |
//!
//! **What is done at once and what is awaited.** Everything on cached nodes is one synchronous
//! attempt under optimistic locks; no lock on a node is held while an operation of the fabric is
//! awaited. An attempt that misses says what it misses; that is fetched, and the attempt starts
//! again from the root.

mod fetch;
mod image;
mod leaf;
mod load;
mod replace;
mod scan;
mod shared;
mod space;
mod structure;
mod walk;

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use timberline_tree::btree::Search;
use timberline_tree::btree::page::{Image, Page, PageBody};

pub use load::{Layout, load};
pub use scan::Scan;

use crate::cache::{Cache, Child};
use crate::error::{Error, Result};
use crate::fabric::{Connection, Counts, Fabric};
use crate::pool::Superblock;
use space::Space;

/// Bytes of a node.
pub const NODE_BYTES: usize = Page::BYTES;

/// The most entries of a node.
pub const NODE_ENTRIES: usize = Page::CAPACITY;

/// Of all entries, the part to which loading fills a node. Random inserts fill it so, too.
pub const LOAD_FILL: f64 = 0.7;

/// What a compute server is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of its cache, all of its tables included; at least about 70 KiB beside copies.
    pub cache_bytes: usize,
    /// The keys that belong to this compute server alone. No other must have any of them.
    pub partition: RangeInclusive<u64>,
    /// The part of the cache that is for copies of records, 0 to 1.
    pub copies: f64,
    /// The chance that a leaf which was fetched stays in the cache, 0 to 1.
    pub leaf_admission: f64,
    /// A number that no other compute server has: it says who holds a lock.
    pub id: u16,
    /// Determines which nodes the cache replaces.
    pub seed: u64,
}

impl Default for Options {
    /// 64 MiB, half of it for copies, all keys, and the published chance of 0.1 (Lu et al.: "DEX",
    /// VLDB 2024).
    fn default() -> Options {
        Options {
            cache_bytes: 64 << 20,
            partition: 0..=u64::MAX,
            copies: 0.5,
            leaf_admission: 0.1,
            id: 0,
            seed: 1,
        }
    }
}

/// A compute server's end of a tree in the memory pool: an ordered map from `u64` to `u64`.
///
/// All of its methods may be called from any thread, and in any number at a time.
pub struct RemoteTree {
    connection: Connection,
    cache: Cache,
    search: Search,
    options: Options,
    space: Space,
    /// Why the structure cannot be changed any more.
    broken: OnceLock<Error>,
}

impl RemoteTree {
    /// Opens the tree that [`load`] made.
    ///
    /// # Errors
    /// The pool has no tree, a server does not answer, or the cache is too small.
    pub async fn open(fabric: Arc<dyn Fabric>, options: Options) -> Result<RemoteTree> {
        let connection = Connection::new(fabric);
        let superblock = Superblock::read(&connection).await?;
        let cache = Cache::new(options.cache_bytes, options.copies, options.seed)?;
        let space = Space::new(connection.servers());
        let tree = RemoteTree {
            connection,
            cache,
            search: Search::detect(),
            options,
            space,
            broken: OnceLock::new(),
        };
        let root = tree.fetch_root(superblock.root).await?;
        tree.cache.set_root(root);
        Ok(tree)
    }

    /// The operations on the pool so far.
    pub fn counts(&self) -> Counts {
        self.connection.counts()
    }

    /// The keys that belong to this compute server.
    pub fn partition(&self) -> RangeInclusive<u64> {
        self.options.partition.clone()
    }

    /// Writes to the pool what only the cache has.
    ///
    /// # Errors
    /// A memory server does not answer. What was not written is still in the cache.
    pub async fn flush(&self) -> Result<()> {
        for set in 0..self.cache.copies.sets() {
            for key in self.cache.copies.dirty_keys(set) {
                self.settle(key).await?;
            }
        }
        for id in self.cache.ids() {
            self.write_back(id).await?;
        }
        Ok(())
    }

    /// The image of a cached page, with addresses in place of frames.
    fn image_of(&self, body: &PageBody) -> Image {
        image::image_of(body, |word| match Child::of_word(word) {
            Child::Cached(id) => self.cache.frame(id).address().word(),
            Child::Remote(address) => address.word(),
        })
    }

    fn check_owned(&self, key: u64) -> Result<()> {
        if self.options.partition.contains(&key) {
            Ok(())
        } else {
            Err(Error::NotOwned(key))
        }
    }

    /// Whether a node of these fences may be written by other compute servers.
    fn is_shared(&self, lower: u64, upper: u64) -> bool {
        let partition = &self.options.partition;
        !(partition.contains(&lower) && partition.contains(&upper))
    }
}
