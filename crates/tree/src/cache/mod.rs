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
//! # Why no value is stale
//!
//! A copy is clean, or **dirty**: changes of its record go to the copy alone, so that they need no
//! slow leaf. A leaf is stale while records of it may have dirty copies: these are marked there,
//! each by one of 32 bits.
//!
//! **While there is a copy, its record is in a slow leaf, and the copy has its value. The leaf has
//! it, too, if the copy is clean; if it is dirty, it is marked there. Or the leaf is locked by the
//! thread that is about to change both.**
//!
//! - A thread that changes a record of a slow leaf under the leaf's lock does the same to the copy
//!   before it unlocks the leaf, and makes a copy that was of use dirty ([`rewrite`]). The next
//!   change of this record locks only its bucket ([`Dirty`]).
//! - Before a thread uses a marked value under the leaf's lock, it has the leaf take it over from
//!   the copy, which is clean then ([`Dirty::clean`]). A thread that removes a record drops the
//!   copy before it unlocks the leaf ([`forget`]).
//! - Whoever reads many records of a leaf (scans), or changes where records are (splits, merges,
//!   moves), writes all copies back first and takes the marks away. So a leaf without marks is the
//!   truth for whoever reads it, validated.
//! - A lookup of one record need not care about marks. It saw, validated, that there was no copy
//!   or no page for one, and then reads the leaf. If the leaf's value is outdated by then, a copy
//!   became dirty in between, and the leaf had the record's value at that moment: a moment of the
//!   lookup. So it must not read the leaf without having looked. Lookups do not look where no page
//!   is counted, so a page is counted before it is there. And they do not look when they come to a
//!   leaf that is the root, so records of a leaf that has no others beside it get no dirty copies.
//! - A dirty copy gives way to another record only once it was written back. So does a page: it is
//!   closed, so that no more copies become dirty, then they are written back, then it goes.
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
//! Locks are taken leaf first, then one bucket; a thread that holds a bucket waits for nothing.
//!
//! [`rewrite`]: RecordCache::rewrite
//! [`forget`]: RecordCache::forget
//! [`offer`]: RecordCache::offer

mod bucket;
mod dirty;
mod page;

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::fence;
use timberline_sync::{Exclusive, Restart, Snapshot};
use timberline_tier::{Arenas, Memory, hint};

use crate::seeded::{self, Bug};
use crate::store::Store;
use crate::value::Loan;

use bucket::Offered;
pub(crate) use bucket::{BYTES as BUCKET_BYTES, Bucket};
pub use dirty::Dirty;
use page::Directory;

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

/// What a change under the lock of a leaf came to, other than that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewritten {
    /// The record has a dirty copy: the leaf is marked before it is unlocked.
    Dirty,
    /// It would have a copy, but for the dirty one of this key.
    Blocked(u64),
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
        // Whoever finds none finds leaves as they are since the last one was written back.
        self.pages.load(Acquire) > 0
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

    /// The bit that marks a record in its leaf when it is stale there.
    pub fn mark_of(key: u64) -> u32 {
        1 << (mix(key) % u64::from(u32::BITS))
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
    ///
    /// # Errors
    /// The bucket changed, or its page went.
    #[inline(always)]
    pub fn find(bucket: &Bucket, key: u64) -> Result<Option<(Loan<'_>, Found<'_>)>, Restart> {
        let seen = bucket.read()?;
        let found = bucket::Body::lend(&seen, key)?;
        Ok(found.map(|(way, value)| (value, Found { bucket: seen, way })))
    }

    /// A record that was read from a slow leaf, and has no copy, asks for one. The bucket is its
    /// own. Returns the key of a record whose dirty copy is in the way.
    pub fn offer<T>(
        bucket: &Bucket,
        key: u64,
        value: Loan<'_>,
        leaf: Snapshot<'_, T>,
    ) -> Option<u64> {
        let early = seeded::has(Bug::CopiedUnlocked).then(|| leaf.validate());
        // If another thread holds the lock, a later lookup will offer the record again.
        let held = bucket.try_read().and_then(Snapshot::upgrade).ok()?;
        fence(SeqCst);
        let is_same = early.unwrap_or_else(|| leaf.validate()).is_ok();
        let is_new = is_same && held.find(key).is_none();
        if !is_new {
            held.unchanged();
            return None;
        }
        Self::compete(held, key, value)
    }

    /// Offers a record to its locked bucket. Returns the key of a record whose dirty copy is in the
    /// way.
    fn compete(held: Exclusive<'_, bucket::Body>, key: u64, value: Loan<'_>) -> Option<u64> {
        let offered = held.offer(key, value.word());
        if offered != Offered::Copied {
            // Only the use counts changed, which are read under the lock alone.
            held.unchanged();
        }
        offered.blocked()
    }

    /// A record of a slow leaf, which is locked, has another value. Its copy gets it, and is dirty
    /// from now on if it was of use before. If the change is `counted`, it counts as a use of the
    /// copy, or asks for one.
    pub fn rewrite(
        &self,
        key: u64,
        value: Loan<'_>,
        counted: bool,
        pinned: &Guard,
    ) -> Option<Rewritten> {
        let (held, way) = self.lock_copy(key, counted, pinned)?;
        let Some(way) = way else {
            return Self::compete(held, key, value).map(Rewritten::Blocked);
        };
        held.set(way, value.word());
        if counted {
            held.count_use(way);
        }
        held.mark_dirty(way).then_some(Rewritten::Dirty)
    }

    /// A record leaves its slow leaf, which is locked.
    pub fn forget(&self, key: u64, pinned: &Guard) {
        if let Some((held, Some(way))) = self.lock_copy(key, false, pinned) {
            held.clear(way);
        }
    }

    /// Locks the bucket of a record of a locked leaf, if it has a copy there, or `always`. Returns
    /// where that copy is.
    fn lock_copy<'g>(
        &self,
        key: u64,
        always: bool,
        pinned: &'g Guard<'_>,
    ) -> Option<(Exclusive<'g, bucket::Body>, Option<usize>)> {
        if seeded::has(Bug::CopyLeftBehind) {
            return None;
        }
        fence(SeqCst);
        // It is retired if its page goes: with the copy.
        bucket::lock_where(self.bucket(key, pinned)?, |body| {
            let way = body.find(key);
            (way.is_some() || always).then_some(way)
        })
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
        // In this order: whoever finds no page counted may read leaves without looking for copies.
        self.pages.store(pages + 1, Relaxed);
        self.directory.put(pages, page);
        true
    }

    /// Removes the last page, and frees it once no thread can reach it any more. `false` if there
    /// is none. `write_back` has the leaf of a key take over its value.
    pub fn remove(
        &self,
        store: &Store<impl Memory>,
        guard: &Guard,
        write_back: impl FnMut(u64),
    ) -> bool {
        let _alone = self.lock();
        self.remove_last(store, guard, write_back)
    }

    /// The same. The caller has locked `resizing`.
    fn remove_last(
        &self,
        store: &Store<impl Memory>,
        guard: &Guard,
        write_back: impl FnMut(u64),
    ) -> bool {
        let Some(last) = self.pages.load(Relaxed).checked_sub(1) else {
            return false;
        };
        let buckets = self.directory.buckets(last, guard).unwrap_or_default();
        let close = |bucket: &Bucket| bucket.lock().map(|held| held.close());
        let dirty = buckets.iter().flat_map(close).flatten().flatten();
        if !seeded::has(Bug::DroppedDirty) {
            dirty.for_each(write_back);
        }
        let page = self.directory.take(last);
        self.pages.store(last, Release);
        let _ = self.directory.resize(store.arenas(), last);
        if let Some(page) = page {
            page.reclaim(store, guard);
        }
        true
    }

    /// From now on there may be about so many pages. If that are far more or fewer than before, all
    /// pages go, since their records get other places.
    pub fn refit(
        &self,
        pages: usize,
        store: &Store<impl Memory>,
        guard: &Guard,
        mut write_back: impl FnMut(u64),
    ) {
        let pages = pages.min(self.directory.most());
        let _alone = self.lock();
        let places = self.places();
        if pages == places || (places / 4 * 3..=places / 2 * 3).contains(&pages) {
            return;
        }
        while self.remove_last(store, guard, &mut write_back) {}
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
