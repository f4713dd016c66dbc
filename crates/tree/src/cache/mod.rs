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
//! one more leaf. A record has no copy while its page is absent. Over how many pages the hash
//! spreads the records changes when fast memory gets another limit: then all pages go first.
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
//! - The number of places is such a flag, too: a writer that reads the old one has its leaf locked
//!   already. A thread that read it, and then finds a page there that came later, sees that it has
//!   changed. So no copy is made where others would not look for it.
//!
//! Locks are taken leaf first, then one bucket; a thread that holds a bucket waits for nothing. A
//! reader that finds a bucket locked goes to the leaf.
//!
//! [`rewrite`]: RecordCache::rewrite
//! [`forget`]: RecordCache::forget
//! [`offer`]: RecordCache::offer

mod bucket;
mod page;

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, Release, SeqCst},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use timberline_sync::Snapshot;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::fence;
use timberline_tier::{Arenas, Memory, hint};

use crate::seeded::{self, Bug};
use crate::store::Store;
use crate::value::Loan;

pub(crate) use bucket::{BYTES as BUCKET_BYTES, Bucket};
use page::{Directory, Page};

/// Fewer than one in this many of the pages that there may be are few.
const FEW: usize = 16;

/// See the [module's text](self).
pub struct RecordCache {
    directory: Directory,
    /// The number of pages; they have the lowest numbers. Written by the thread that holds
    /// `resizing`.
    pages: AtomicUsize,
    /// Over how many pages the hash spreads records: the most that there may be now. Written by the
    /// thread that holds `resizing`, while there are none.
    places: AtomicUsize,
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
    /// A cache of at most `pages` pages now, none of which is allocated, and `most` ever. `None`
    /// where there are none, or no addresses to keep account of them.
    pub fn new(
        arenas: &Arenas,
        pages: usize,
        most: usize,
        page_bytes: usize,
    ) -> Option<RecordCache> {
        if most == 0 {
            return None;
        }
        let directory = Directory::new(arenas, most, page_bytes)?;
        Some(RecordCache {
            directory,
            pages: AtomicUsize::new(0),
            places: AtomicUsize::new(pages.min(most)),
            resizing: Mutex::new(()),
            in_page: (page_bytes / BUCKET_BYTES).ilog2(),
        })
    }

    /// Whether there is any page. Without pages, no record has a copy and lookups offer none.
    #[inline(always)]
    pub fn has_pages(&self) -> bool {
        self.pages.load(Relaxed) > 0
    }

    /// The number of pages, and the most that there may be.
    pub fn pages(&self) -> (usize, usize) {
        (self.pages.load(Relaxed), self.places())
    }

    #[inline(always)]
    fn places(&self) -> usize {
        self.places.load(Relaxed)
    }

    /// The bucket that a record's copy would be in, if its page is allocated.
    #[inline(always)]
    pub fn bucket<'g>(&self, key: u64, pinned: impl Into<Pinned<'g>>) -> Option<&'g Bucket> {
        let pinned = pinned.into();
        loop {
            let places = self.places();
            let (number, index) = self.place_of(key, places);
            let page = self.directory.buckets(number, pinned);
            // A page that came after a change of the number was published after it.
            if self.places() == places {
                return Some(&page?[index]);
            }
        }
    }

    /// Prefetches the bucket that a record's copy would be in, if its page is allocated. Not while
    /// there are few pages, so that most lookups would compute the place of one that is not there.
    #[inline(always)]
    pub fn prefetch(&self, key: u64) {
        let pages = self.pages.load(Relaxed);
        let places = self.places();
        if pages * FEW <= places {
            return;
        }
        let (number, index) = self.place_of(key, places);
        // With few pages, most lookups also save the access to the directory.
        if number < pages
            && let Some(page) = self.directory.address_of(number)
        {
            hint::prefetch_lines(page + index * BUCKET_BYTES, 1);
        }
    }

    /// What tells a record's copy from nearly all others; not 0.
    pub fn identify(key: u64) -> u64 {
        mix(key) | 1
    }

    /// The number of the page that a record's copy would be in.
    pub fn page_of(&self, key: u64) -> usize {
        self.place_of(key, self.places()).0
    }

    /// The number of the page of `places` that a record's copy would be in, and the index of its
    /// bucket there.
    #[inline(always)]
    fn place_of(&self, key: u64, places: usize) -> (usize, usize) {
        let buckets = (places as u64) << self.in_page;
        let bucket = ((u128::from(mix(key)) * u128::from(buckets)) >> u64::BITS) as usize;
        (bucket >> self.in_page, bucket & ((1 << self.in_page) - 1))
    }

    /// The record's value, and where its copy is, if there is one. The bucket is its own.
    #[inline(always)]
    pub fn find(bucket: &Bucket, key: u64) -> Option<(Loan<'_>, Found<'_>)> {
        let seen = bucket.try_read().ok()?;
        let (way, value) = bucket::Body::lend(&seen, key)?;
        Some((value, Found { bucket: seen, way }))
    }

    /// A record that was read from a slow leaf, and has no copy, asks for one. The bucket is its
    /// own.
    pub fn offer<T>(bucket: &Bucket, key: u64, value: Loan<'_>, leaf: Snapshot<'_, T>) {
        let early = seeded::has(Bug::CopiedUnlocked).then(|| leaf.validate());
        // If another thread holds the lock, a later lookup will offer the record again.
        let Ok(held) = bucket.try_read().and_then(Snapshot::upgrade) else {
            return;
        };
        fence(SeqCst);
        let is_same = early.unwrap_or_else(|| leaf.validate()).is_ok();
        let is_new = is_same && held.find(key).is_none();
        if !(is_new && held.offer(key, value.word())) {
            // Only the use counts changed, which are read under the lock alone.
            held.unchanged();
        }
    }

    /// A record of a slow leaf, which is locked, has another value. Returns whether it has a copy.
    pub fn rewrite(&self, key: u64, value: Loan<'_>, pinned: &Guard) -> bool {
        self.change(key, pinned, |body, way| body.set(way, value.word()))
    }

    /// A record leaves its slow leaf, which is locked.
    pub fn forget(&self, key: u64, pinned: &Guard) {
        self.change(key, pinned, |body, way| body.clear(way));
    }

    /// Changes a record's copy, if there is one. Returns whether there is.
    fn change(&self, key: u64, pinned: &Guard, change: impl FnOnce(&bucket::Body, usize)) -> bool {
        if seeded::has(Bug::CopyLeftBehind) {
            return false;
        }
        fence(SeqCst);
        let Some(bucket) = self.bucket(key, pinned) else {
            return false;
        };
        // It is retired if its page goes: with the copy.
        while let Ok(seen) = bucket.read() {
            let Ok(found) = seen.get(|body| body.find(key)) else {
                continue;
            };
            let Some(way) = found else { return false };
            if let Ok(held) = seen.upgrade() {
                change(&held, way);
                return true;
            }
        }
        false
    }

    /// Makes one more page in a free slot of fast memory. `false` if there is no room, or if there
    /// are as many pages as there may be.
    pub fn add(&self, store: &Store<impl Memory>, pinned: &Guard) -> bool {
        let (pages, most) = self.pages();
        if pages >= most {
            return false;
        }
        let Some(page) = self.directory.allocate(store, pinned) else {
            return false;
        };
        let _alone = self.lock();
        let pages = self.pages.load(Relaxed);
        let has_place = pages < self.places();
        if !has_place || self.directory.resize(store.arenas(), pages + 1).is_err() {
            // Another thread added it first, or the directory has no memory for it.
            page.reclaim(store, pinned);
            return false;
        }
        self.directory.put(pages, page);
        self.pages.store(pages + 1, Relaxed);
        true
    }

    /// Removes the last page, and frees it once no thread can reach it any more. `false` if there
    /// is none.
    pub fn remove(&self, store: &Store<impl Memory>, guard: &Guard) -> bool {
        let alone = self.lock();
        let last = self.take_last(store.arenas());
        drop(alone);
        let is_there = last.is_some();
        if let Some(page) = last {
            page.reclaim(store, guard);
        }
        is_there
    }

    /// Takes the last page out of the directory. The caller has locked `resizing`.
    fn take_last(&self, arenas: &Arenas) -> Option<Page> {
        let last = self.pages.load(Relaxed).checked_sub(1)?;
        let page = self.directory.take(last)?;
        self.pages.store(last, Relaxed);
        let _ = self.directory.resize(arenas, last);
        Some(page)
    }

    /// From now on there may be about so many pages. If that are far more or fewer than before, all
    /// pages go, since their records get other places.
    pub fn refit(&self, pages: usize, store: &Store<impl Memory>, guard: &Guard) {
        let pages = pages.min(self.directory.most());
        let _alone = self.lock();
        let places = self.places();
        if pages == places || (places / 4 * 3..=places / 2 * 3).contains(&pages) {
            return;
        }
        while let Some(page) = self.take_last(store.arenas()) {
            page.reclaim(store, guard);
        }
        self.places.store(pages, Release);
    }

    /// Has chunks leave it memory for an account of so many pages.
    pub fn leave(&self, arenas: &Arenas, pages: usize) {
        self.directory
            .leave(arenas, pages.min(self.directory.most()));
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.resizing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spreads keys over the pages, consecutive ones too (the finalizer of MurmurHash3, Appleby 2011).
#[inline(always)]
fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ (key >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}
