//! Copies of hot records whose leaves are slow: the record cache.
//!
//! A leaf is as hot as the few hot records among its many, so where hot keys lie scattered, fast
//! leaves are full of cold records. Here single records have copies in fast memory, apart from
//! their leaves (the idea of Bf-Tree's mini-pages: Hao and Chandramouli, "Bf-Tree", VLDB 2024; and
//! of the row caches of disk-based stores). A lookup that comes to a slow leaf looks for a copy
//! first, one line of fast memory.
//!
//! A copy is found by its key, not by the address of its leaf, so splits, merges and moves need not
//! update it: a hash of the key gives the [page](page) and the [bucket](bucket) in it. Pages have
//! the size of nodes. The placement adds and removes them one by one; to it, a page is much like
//! one more leaf. A record has no copy while its page is absent.
//!
//! # Why a copy is never stale
//!
//! **While there is a copy, its record is in a slow leaf and has this value, or the leaf is locked
//! by the thread that is about to change both.**
//!
//! - A thread that changes or removes a record of a slow leaf does the same to the copy before
//!   unlocking the leaf ([`rewrite`], [`forget`]).
//! - A thread that moves records into a fast leaf takes their copies away before unlocking the leaf
//!   they were in. So records of fast leaves have none, and their writers need not look.
//! - A thread that makes a copy ([`offer`]) locks the bucket, and *then* makes sure that the
//!   leaf is still as it was when the record was read. The writer locks the leaf, and *then* looks
//!   into the bucket. A fence in between on either side makes one of the two see the other: if the
//!   maker does not see the leaf's lock, the writer sees the bucket's, waits, and finds the copy.
//! - A page's place in the directory is such a flag, too: a writer that finds no page there has its
//!   leaf locked already, and a maker that found the page will see it. The buckets of a removed
//!   page are retired, so a late maker finds them unusable.
//!
//! Locks are taken leaf first, then one bucket; a thread that holds a bucket waits for nothing. A
//! reader that finds a bucket locked goes to the leaf.
//!
//! In the B+tree and in Masstree nobody reads a locked leaf, so the order of the two changes under
//! its lock does not matter. In the radix tree readers go by leaves that are locked. There a value
//! is written while its copy's bucket is locked, too, and a copy goes before its record does: who
//! has seen the new state in either place finds it in the other, or the bucket locked.
//!
//! [`rewrite`]: RecordCache::rewrite
//! [`forget`]: RecordCache::forget
//! [`offer`]: RecordCache::offer

mod bucket;
mod copies;
mod key;
mod page;

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::fence;
use timberline_sync::{Exclusive, Restart, Snapshot};
use timberline_tier::{Arenas, Memory, hint};

use crate::seeded::{self, Bug};
use crate::store::Store;
use crate::value::Loan;

pub(crate) use bucket::{BYTES as BUCKET_BYTES, Bucket};
pub(crate) use copies::{Copies, CopySearch};
pub(crate) use key::CopyKey;
use page::Directory;

/// See the [module's text](self).
pub struct RecordCache {
    directory: Directory,
    /// Locked while a page is added or removed.
    resizing: Mutex<()>,
    /// Log2 of the number of buckets in a page.
    in_page: u32,
}

/// A record's copy, found by a lookup.
pub struct Found<'a> {
    bucket: Snapshot<'a, bucket::Body>,
    way: usize,
}

impl Found<'_> {
    /// Counts a lookup that the copy served.
    pub fn count_use(self) {
        let Found { bucket, way } = self;
        if bucket.get(|body| body.is_at_most(way)) == Ok(false)
            && let Ok(held) = bucket.upgrade()
        {
            held.count_use(way);
            held.unchanged();
        }
    }
}

impl RecordCache {
    /// A cache of at most this many pages, none of which is allocated. `None` where there are no
    /// addresses to keep account of them.
    pub fn new(arenas: &Arenas, pages: usize, page_bytes: usize) -> Option<RecordCache> {
        if pages == 0 {
            return None;
        }
        Some(RecordCache {
            directory: Directory::new(arenas, pages, page_bytes)?,
            resizing: Mutex::new(()),
            in_page: (page_bytes / BUCKET_BYTES).ilog2(),
        })
    }

    /// The most pages that there may be.
    pub fn most_pages(&self) -> usize {
        self.directory.len()
    }

    /// The bucket that a record's copy would be in, if its page is allocated and its key is not too
    /// long.
    #[inline(always)]
    pub fn bucket<'g>(
        &self,
        key: impl CopyKey,
        pinned: impl Into<Pinned<'g>>,
    ) -> Option<&'g Bucket> {
        let (number, index) = self.place_of(key)?;
        Some(&self.directory.buckets(number, pinned)?[index])
    }

    /// Prefetches the bucket that a record's copy would be in, if that is in one of the first
    /// `pages` pages, which are all that there are.
    #[inline(always)]
    pub fn prefetch(&self, key: impl CopyKey, pages: usize) {
        if pages == 0 {
            return;
        }
        let Some((number, index)) = self.place_of(key) else {
            return;
        };
        // With few pages, most lookups also save the access to the directory.
        if number < pages
            && let Some(page) = self.directory.address_of(number)
        {
            hint::prefetch_lines(page + index * BUCKET_BYTES, 1);
        }
    }

    /// The number of the page that the copy of a record with this key would be in, and the index of
    /// its bucket there; `None`: the key is too long.
    #[inline(always)]
    fn place_of(&self, key: impl CopyKey) -> Option<(usize, usize)> {
        key.places()?;
        let buckets = (self.directory.len() as u64) << self.in_page;
        let bucket = ((u128::from(key.hash()) * u128::from(buckets)) >> u64::BITS) as usize;
        Some((bucket >> self.in_page, bucket & ((1 << self.in_page) - 1)))
    }

    /// The record's value, and where its copy is, if there is one. The bucket is its own.
    #[inline(always)]
    fn find(bucket: &Bucket, key: impl CopyKey) -> Option<(Loan<'_>, Found<'_>)> {
        let seen = bucket.try_read().ok()?;
        let (way, value) = bucket::Body::lend(&seen, key)?;
        Some((value, Found { bucket: seen, way }))
    }

    /// A record that was read from a slow leaf, and has no copy, asks for one. The bucket is its
    /// own. `validate` fails if its leaf is locked, or has changed since the record was read.
    fn offer(
        bucket: &Bucket,
        key: impl CopyKey,
        value: Loan<'_>,
        validate: impl Fn() -> Result<(), Restart>,
    ) {
        let early = seeded::has(Bug::CopiedUnlocked).then(&validate);
        // If another thread holds the lock, a later lookup will offer the record again.
        let Ok(held) = bucket.try_read().and_then(Snapshot::upgrade) else {
            return;
        };
        fence(SeqCst);
        let is_same = early.unwrap_or_else(validate).is_ok();
        let is_new = is_same && held.find(key).is_none();
        if !(is_new && held.offer(key, value.word())) {
            // Only the use counts changed, which are read under the lock alone.
            held.unchanged();
        }
    }

    /// A record of a slow leaf, which is locked, gets another value: `write` writes it there.
    /// Returns whether it has a copy.
    fn rewrite<T>(
        &self,
        key: impl CopyKey,
        value: u64,
        pinned: &Guard,
        write: impl FnOnce() -> T,
    ) -> (T, bool) {
        if seeded::has(Bug::CopyWrittenLate) {
            let written = write();
            std::thread::yield_now();
            let copy = self.lock_copy(key, pinned);
            let copy = copy.map(|(held, way)| held.set(way, value));
            return (written, copy.is_some());
        }
        let copy = self.lock_copy(key, pinned);
        let written = write();
        let copy = copy.map(|(held, way)| held.set(way, value));
        (written, copy.is_some())
    }

    /// A record leaves its slow leaf, which is locked.
    pub fn forget(&self, key: impl CopyKey, pinned: &Guard) {
        if let Some((held, way)) = self.lock_copy(key, pinned) {
            held.clear(way);
        }
    }

    /// Locks a record's copy, if there is one. While its leaf stays locked, no other thread makes
    /// one.
    fn lock_copy<'g>(
        &self,
        key: impl CopyKey,
        pinned: &'g Guard,
    ) -> Option<(Exclusive<'g, bucket::Body>, usize)> {
        if seeded::has(Bug::CopyLeftBehind) {
            return None;
        }
        fence(SeqCst);
        let bucket = self.bucket(key, pinned)?;
        // It is retired if its page goes: with the copy.
        while let Ok(seen) = bucket.read() {
            let Ok(found) = seen.get(|body| body.find(key)) else {
                continue;
            };
            let way = found?;
            if let Ok(held) = seen.upgrade() {
                return Some((held, way));
            }
        }
        None
    }

    /// Makes one more page in a free slot of fast memory. `false` if there is no room, or if there
    /// are as many pages as there may be. `count` is the number of pages, which have the lowest
    /// numbers; only this and [`remove`](Self::remove) write it.
    pub fn add(&self, count: &AtomicUsize, store: &Store<impl Memory>, pinned: &Guard) -> bool {
        if count.load(Relaxed) == self.directory.len() {
            return false;
        }
        let Some(page) = self.directory.allocate(store, pinned) else {
            return false;
        };
        let _alone = self.lock();
        let pages = count.load(Relaxed);
        let has_place = pages < self.directory.len();
        if !has_place || self.directory.resize(store.arenas(), pages + 1).is_err() {
            // Another thread added it first, or the directory has no memory for it.
            page.reclaim(store, pinned);
            return false;
        }
        self.directory.put(pages, page);
        count.store(pages + 1, Relaxed);
        true
    }

    /// Removes the last page, and frees it once no thread can reach it any more. `false` if there
    /// is none.
    pub fn remove(&self, count: &AtomicUsize, store: &Store<impl Memory>, guard: &Guard) -> bool {
        let alone = self.lock();
        let Some(last) = count.load(Relaxed).checked_sub(1) else {
            return false;
        };
        let Some(page) = self.directory.take(last) else {
            return false;
        };
        count.store(last, Relaxed);
        let _ = self.directory.resize(store.arenas(), last);
        drop(alone);
        page.reclaim(store, guard);
        true
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.resizing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
