//! The B+tree over memory servers, as a compute server sees it.
//!
//! | file | noun |
//! |---|---|
//! | `walk.rs` | the way from the root to a node, through the cache |
//! | `fetch.rs`, `replace.rs` | bringing a node into the cache, and making room for it |
//! | `part.rs` | reading no more of a leaf than is needed |
//! | `leaf.rs`, `copied.rs` | operations on one record, in its leaf or in a copy of it |
//! | `scan.rs`, `load.rs` | operations on many |
//! | `structure.rs`, `merge.rs` | splits and merges |
//! | `shared.rs` | inner nodes that several compute servers write |
//! | `direct/` | leaves that stay in the pool, for designs that are compared |
//! | `handover.rs` | keys that come to this compute server, and keys that go |
//! | `together.rs` | many operations under way at a time |
//! | `space.rs` | addresses for new nodes |
//! | `offload.rs` | lookups that a memory server does the rest of |
//!
//! **What is done at once and what is awaited.** Everything on cached nodes is one synchronous
//! attempt under optimistic locks; no lock on a node is held while an operation of the fabric is
//! awaited. An attempt that misses says what it misses; that is fetched, and the attempt starts
//! again from the root.

mod copied;
mod direct;
mod fetch;
mod handover;
mod leaf;
mod load;
mod merge;
mod offload;
mod part;
mod replace;
mod scan;
mod shared;
mod space;
mod structure;
mod together;
mod walk;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use timberline_tree::btree::Search;
use timberline_tree::btree::page::{Image, Page, PageBody};

pub use direct::{Check, Direct, Turns};
pub use load::{Layout, load, load_if_empty};
pub use scan::Scan;

use crate::address::{Address, ServerId};
use crate::balance::{Balancing, Demand};
use crate::cache::{Cache, Flights, LeafAdmission};
use crate::child::Child;
use crate::error::{Error, Result};
use crate::fabric::{Connection, Counts, Fabric};
use crate::image::{self, Sums};
use crate::key_ranges::KeyRanges;
use crate::member::Etcd;
use crate::pool::Superblock;
use direct::LeafTurns;
use fetch::Admission;
use offload::Offloading;
use part::Unevenness;
use space::Space;
use together::together;

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
    /// The keys that belong to this compute server alone. No other must have any of them, and no
    /// leaf keys of two partitions (see [`Layout::boundaries`]). A [`Member`](crate::Member) has
    /// what the pool says instead.
    pub partition: RangeInclusive<u64>,
    /// The part of the cache that is for copies of records, at least 0 and less than 1.
    pub copies: f64,
    /// Which leaves that were fetched stay in the cache.
    pub leaf_admission: LeafAdmission,
    /// Whether memory servers may do the rest of a lookup, or of finding a record to update, when a
    /// node is not in the cache: they do if that takes less time than reading the nodes.
    pub offloading: bool,
    /// Whether every change is in the pool when its operation ends. If not, changes of records are
    /// there when their leaves leave the cache, or after [`RemoteTree::flush`]; a compute server
    /// that dies takes the others with it.
    pub write_through: bool,
    /// Whether a [`Member`](crate::Member) gives keys away by itself where it is asked for more
    /// than others, and how. `None`: it does not. It takes 32 KiB of the cache.
    pub balancing: Option<Balancing>,
    /// The etcd that has the owners of keys and the leases of [`Member`](crate::Member)s. `None`:
    /// the pool has them. All members of a tree have to say the same.
    pub etcd: Option<Etcd>,
    /// Leaves stay in the pool: each operation reads its leaf there, and writes it there at once.
    /// `None`: they are cached. For designs that are compared.
    pub direct: Option<Direct>,
    /// Determines which nodes the cache replaces.
    pub seed: u64,
}

impl Default for Options {
    /// 64 MiB, half of it for copies, all keys, no offloading, no balancing, and leaves that stay
    /// if they were fetched lately, too.
    fn default() -> Options {
        Options {
            cache_bytes: 64 << 20,
            partition: 0..=u64::MAX,
            copies: 0.5,
            leaf_admission: LeafAdmission::Adaptive,
            offloading: false,
            write_through: false,
            balancing: None,
            direct: None,
            etcd: None,
            seed: 1,
        }
    }
}

impl Options {
    /// Whether a compute server of a pool of so many memory servers can have these.
    ///
    /// # Errors
    /// The cache is too small; or larger than any.
    pub fn check(&self, memory_servers: ServerId) -> Result<()> {
        let others = self.table_bytes(memory_servers);
        let checked = Cache::check(self.cache_bytes.saturating_sub(others), self.copies);
        checked.map_err(|error| match error {
            Error::CacheTooSmall { least, .. } => Error::CacheTooSmall {
                bytes: self.cache_bytes,
                least: least.saturating_add(others),
            },
            error => error,
        })
    }

    /// What tables beside nodes and copies take of the cache.
    fn table_bytes(&self, memory_servers: ServerId) -> usize {
        let demand = self.balancing.map_or(0, |_| Demand::BYTES);
        demand + Offloading::bytes(self.offloading, memory_servers)
    }
}

/// A lease that does not end.
const FOR_EVER: u64 = u64::MAX;

/// The keys of this compute server. Looked up only beside operations of the fabric.
struct Owned(RwLock<KeyRanges>);

impl Owned {
    fn read(&self) -> RwLockReadGuard<'_, KeyRanges> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KeyRanges> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compute server's end of a tree in the memory pool: an ordered map from `u64` to `u64`.
///
/// All of its methods may be called from any thread, and in any number at a time. Futures of reads
/// may be dropped; those of changes have to be awaited to their end: one that is dropped while it
/// splits a node leaves the tree read-only, with [`Error::Abandoned`].
pub struct RemoteTree {
    connection: Connection,
    cache: Cache,
    search: Search,
    options: Options,
    owned: Owned,
    /// Until when, by the connection's clock, nobody else has this server's keys, in nanoseconds;
    /// [`FOR_EVER`] without a lease.
    lease_ns: AtomicU64,
    space: Space,
    offloading: Offloading,
    demand: Demand,
    /// Of leaves, and of inner nodes.
    merges: [AtomicU64; 2],
    turns: LeafTurns,
    unevenness: Unevenness,
    /// Why nothing can be written any more: a split or a merge is only in the cache.
    broken: OnceLock<Error>,
}

impl RemoteTree {
    /// Opens the tree that [`load`] made.
    ///
    /// # Errors
    /// The pool has no tree, a server does not answer, or the cache is too small.
    pub async fn open(fabric: Arc<dyn Fabric>, options: Options) -> Result<RemoteTree> {
        let keys = options.partition.clone();
        let tree = RemoteTree::open_without_keys(fabric, options).await?;
        if !keys.is_empty() {
            tree.owned.write().insert(&keys);
        }
        Ok(tree)
    }

    /// The same with no keys yet.
    pub(crate) async fn open_without_keys(
        fabric: Arc<dyn Fabric>,
        options: Options,
    ) -> Result<RemoteTree> {
        let connection = Connection::new(fabric);
        let servers = connection.servers();
        options.check(servers)?;
        let superblock = Superblock::read(&connection).await?;
        let shares = options.direct.is_some_and(Direct::is_shared);
        match (superblock.shared_leaves, shares) {
            (true, false) => return Err(Error::SharedLeaves(true)),
            (false, true) => return Err(Error::SharedLeaves(false)),
            _ => {}
        }
        let offloading = Offloading::new(options.offloading, servers);
        let bytes = options.cache_bytes - options.table_bytes(servers);
        let cache = Cache::new(bytes, options.copies, options.seed)?;
        let space = Space::new(servers);
        let tree = RemoteTree {
            connection,
            cache,
            search: Search::detect(),
            owned: Owned(RwLock::default()),
            lease_ns: AtomicU64::new(FOR_EVER),
            demand: Demand::new(options.balancing.map(|it| it.sampled)),
            options,
            space,
            offloading,
            merges: Default::default(),
            turns: LeafTurns::default(),
            unevenness: Unevenness::default(),
            broken: OnceLock::new(),
        };
        tree.fetch_root(superblock.root).await?;
        Ok(tree)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// What this compute server is asked for.
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The operations that are under way.
    pub(crate) fn flights(&self) -> &Flights {
        &self.cache.flights
    }

    /// The operations on the pool so far.
    pub fn counts(&self) -> Counts {
        self.connection.counts()
    }

    /// The keys that belong to this compute server: disjoint ranges in ascending order.
    pub fn partitions(&self) -> Vec<RangeInclusive<u64>> {
        self.owned.read().iter().collect()
    }

    /// Writes to the pool what only the cache has.
    ///
    /// # Errors
    /// A memory server does not answer. What was not written is still in the cache.
    pub async fn flush(&self) -> Result<()> {
        self.settle_all(&(0..=u64::MAX), Admission::ByOptions)
            .await?;
        self.write_all(|_| true).await
    }

    /// Writes the cached nodes that were changed, of those that are meant.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    async fn write_all(&self, is_meant: impl Fn(&PageBody) -> bool) -> Result<()> {
        let changed = self.cache.ids().filter(|&id| {
            let is_dirty = self.cache.frame(id).is_dirty();
            is_dirty && self.read_page(id, &is_meant)
        });
        together(changed, |id| self.write_back(id)).await
    }

    /// Gives memory back that was for new nodes. What cannot be given back is lost to the pool.
    pub(crate) async fn give_space_back(&self) {
        let all = self.space.take_all().into_iter();
        let _ = together(all, |node| self.connection.give_back(node)).await;
    }

    /// The image of a cached page, with addresses in place of frames.
    fn image_of(&self, body: &PageBody) -> Image {
        image::image_of(body, self.sums(), |word| match Child::of_word(word) {
            Child::Cached(id) => self.cache.frame(id).address().word(),
            Child::Remote(_) => word,
        })
    }

    /// A node as it is in the pool, whatever its parent knows of leaves' entries.
    fn without_hints(&self, body: &PageBody) -> Image {
        body.image(|word| match Child::of_word(word) {
            Child::Cached(id) => self.cache.frame(id).address().word(),
            Child::Remote(address) => address.word(),
        })
    }

    /// Which nodes have checksums.
    fn sums(&self) -> Sums {
        match self.shares_leaves() {
            true => Sums::All,
            false => Sums::Inner,
        }
    }

    /// Whether other compute servers write the same leaves.
    fn shares_leaves(&self) -> bool {
        self.options.direct.is_some_and(Direct::is_shared)
    }

    fn check_owned(&self, key: u64) -> Result<()> {
        match self.owned.read().contains(key) {
            true => Ok(()),
            false => Err(Error::NotOwned(key)),
        }
    }

    /// Whether a node of these fences may be written by other compute servers.
    fn is_shared(&self, lower: u64, upper: u64) -> bool {
        self.shares_leaves() || !self.owned.read().covers(&(lower..=upper))
    }

    /// Writes words of a node that was changed, but not split.
    ///
    /// # Errors
    /// The memory server does not answer, or did not when a split was written.
    async fn write_words(&self, at: Address, words: Vec<u64>) -> Result<()> {
        self.check_whole()?;
        let _noted = self.offloading.note(at);
        self.connection.write(at, words).await
    }

    /// Whether the pool has all splits and merges that the cache has, but for one under way.
    pub(crate) fn check_whole(&self) -> Result<()> {
        self.broken.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Makes sure that nobody else has had this server's keys so far. What was read of the cache
    /// before this was the latest then.
    #[inline(always)]
    pub(crate) fn check_lease(&self) -> Result<()> {
        match self.lease_ns.load(Relaxed) {
            FOR_EVER => Ok(()),
            until_ns => self.check_time(until_ns),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_time(&self, until_ns: u64) -> Result<()> {
        match self.connection.now() < Duration::from_nanos(until_ns) {
            true => Ok(()),
            false => Err(Error::LeaseExpired),
        }
    }
}
