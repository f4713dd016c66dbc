//! A tree's side of the record cache, the same for all trees: which leaves' records may have
//! copies, lookups that find one or ask for one, and writers that keep them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use timberline_placement::{Access, Placement};
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::{Arenas, Memory, TierId};

use super::{BUCKET_BYTES, Bucket, CopyKey, RecordCache};
use crate::mode::Mode;
use crate::store::{Caller, Store};
use crate::value::Loan;

/// One in this many lookups of a slow leaf's records counts the cache's hits and misses. A greater
/// number costs lookups less and finds as much in the end, but later (`docs/design/cache.md`).
const COUNTED: u32 = 2;

/// The search for a copy of a record, by a lookup that meets a slow node. The node is not
/// prefetched before this search has ended.
#[derive(Clone, Copy)]
pub enum CopySearch<'t> {
    NotAsked,
    /// The bucket was prefetched.
    Asked(&'t Bucket),
    /// The bucket has no copy.
    Missed(&'t Bucket),
}

impl<'t> CopySearch<'t> {
    /// The search of a lookup that has met a slow node.
    pub(crate) fn of<D: Mode, M: Memory>(
        copies: &'t Copies,
        key: impl CopyKey,
        pinned: Pinned<'t>,
        memory: &M,
    ) -> CopySearch<'t> {
        let Some(bucket) = copies.bucket(key, pinned) else {
            return CopySearch::NotAsked;
        };
        if D::LATER {
            memory.prefetch(address(bucket), BUCKET_BYTES);
        }
        CopySearch::Asked(bucket)
    }

    /// Whether the next step looks for the copy.
    #[inline(always)]
    pub fn is_asked(self) -> bool {
        matches!(self, CopySearch::Asked(_))
    }

    /// Looks for the copy: its value, if there is one.
    #[inline(always)]
    pub(crate) fn take<M: Memory>(
        &mut self,
        copies: &Copies,
        key: impl CopyKey,
        store: &Store<M>,
        caller: impl Caller,
    ) -> Option<Loan<'t>> {
        let CopySearch::Asked(bucket) = *self else {
            return None;
        };
        let found = copies.find(bucket, key, store, caller);
        if found.is_none() {
            *self = CopySearch::Missed(bucket);
        }
        found
    }
}

/// Where a bucket lies.
fn address(bucket: &Bucket) -> usize {
    std::ptr::from_ref(bucket).addr()
}

/// The copies of a tree's records, if it makes any.
pub struct Copies {
    cache: Option<RecordCache>,
    /// The number of pages: here, so that lookups of maps without them test one word.
    pages: AtomicUsize,
    /// Records of leaves from this address on may have copies: of slow leaves, if of any.
    from: usize,
}

impl Copies {
    /// No copies.
    pub const fn none() -> Copies {
        Copies {
            cache: None,
            pages: AtomicUsize::new(0),
            from: usize::MAX,
        }
    }

    /// As many pages of this size as the placement wants, at most.
    pub fn new(arenas: &Arenas, page_bytes: usize, placement: &dyn Placement) -> Copies {
        if arenas.tiers() < 2 {
            return Copies::none();
        }
        let fast = arenas.range_of(TierId::FAST);
        // The limit may exceed all memory.
        let usable = arenas.usable(TierId::FAST).min(fast.len());
        let pages = placement.record_pages(usable / page_bytes);
        match RecordCache::new(arenas, pages, page_bytes) {
            None => Copies::none(),
            cache => Copies {
                cache,
                pages: AtomicUsize::new(0),
                from: fast.end,
            },
        }
    }

    /// The cache, if there may be copies.
    #[inline(always)]
    pub fn cache(&self) -> Option<&RecordCache> {
        self.cache.as_ref()
    }

    /// Whether there is any page. Without pages, no record has a copy and lookups offer none.
    #[inline(always)]
    pub fn are_there(&self) -> bool {
        self.pages.load(Relaxed) > 0
    }

    /// Whether records of a leaf at this address, or below a node there, may have copies: not if it
    /// is fast.
    #[inline(always)]
    pub fn may_be_of(&self, node: usize) -> bool {
        node >= self.from
    }

    /// The cache, if records of this leaf may have copies.
    #[inline(always)]
    pub fn of(&self, leaf: usize) -> Option<&RecordCache> {
        match self.may_be_of(leaf) {
            true => self.cache(),
            false => None,
        }
    }

    /// Has the CPU fetch the place of a record's copy before it is known whether the leaf is slow:
    /// the descent takes as long.
    #[inline(always)]
    pub fn prefetch(&self, key: impl CopyKey) {
        if let Some(cache) = self.cache() {
            cache.prefetch(key, self.pages.load(Relaxed));
        }
    }

    /// The place of a record's copy.
    #[inline(always)]
    pub fn bucket<'g>(
        &self,
        key: impl CopyKey,
        pinned: impl Into<Pinned<'g>>,
    ) -> Option<&'g Bucket> {
        self.cache()?.bucket(key, pinned)
    }

    /// The value of a record's copy, if its bucket has one.
    #[inline(always)]
    pub(crate) fn find<'g, M: Memory>(
        &self,
        bucket: &'g Bucket,
        key: impl CopyKey,
        store: &Store<M>,
        caller: impl Caller,
    ) -> Option<Loan<'g>> {
        store.memory.charge_access(address(bucket), BUCKET_BYTES);
        let (value, found) = RecordCache::find(bucket, key)?;
        if store.counts_use(COUNTED) {
            found.count_use();
        }
        caller.with_guard(store, |guard| {
            if let Some(cache) = self.cache()
                && store.report_is_due(guard)
                && let Some((page, _)) = cache.place_of(key)
            {
                store.report_copy(page, guard);
            }
        });
        Some(value)
    }

    /// A record was read from this slow leaf, as its bucket had no copy: it may get one.
    /// `validate` fails if the leaf is locked, or has changed since the record was read.
    #[inline(always)]
    pub fn missed<M: Memory>(
        &self,
        bucket: &Bucket,
        key: impl CopyKey,
        value: Loan<'_>,
        leaf: usize,
        store: &Store<M>,
        validate: impl Fn() -> Result<(), Restart>,
    ) {
        if self.may_be_of(leaf) && store.counts_use(COUNTED) {
            offer(bucket, key, value, validate);
        }
    }

    /// The copy of a record of this locked leaf, if there is one, gets the value that the record
    /// was given. For trees whose lookups don't read locked leaves. Returns the kind of access that
    /// the change was.
    #[inline(always)]
    pub fn follow(&self, leaf: usize, key: impl CopyKey, value: u64, guard: &Guard) -> Access {
        match self.may_be_of(leaf) {
            true => self.rewrite(key, value, guard, || ()).1,
            false => Access::Reuse,
        }
    }

    /// Gives a record of a locked slow leaf another value, and its copy, if it has one: `write`
    /// writes it to the leaf. Also returns the kind of access that this was.
    // Out of line, for updates of fast leaves.
    #[cold]
    #[inline(never)]
    pub fn rewrite<T>(
        &self,
        key: impl CopyKey,
        value: u64,
        guard: &Guard,
        write: impl FnOnce() -> T,
    ) -> (T, Access) {
        let Some(cache) = self.cache() else {
            return (write(), Access::Reuse);
        };
        let (written, has_copy) = cache.rewrite(key, value, guard, write);
        let access = match cache.place_of(key) {
            Some((page, _)) if has_copy => Access::Rewrite { page },
            _ => Access::Reuse,
        };
        (written, access)
    }

    /// Drops the copy of a record that leaves this locked leaf.
    #[inline(always)]
    pub fn forget(&self, leaf: usize, key: impl CopyKey, guard: &Guard) {
        if self.may_be_of(leaf) {
            self.forget_slow(key, guard);
        }
    }

    // Out of line, for fast leaves.
    #[cold]
    #[inline(never)]
    fn forget_slow(&self, key: impl CopyKey, guard: &Guard) {
        if let Some(cache) = self.cache() {
            cache.forget(key, guard);
        }
    }

    /// The number of pages, and their limit.
    pub fn pages(&self) -> (usize, usize) {
        let most = self.cache().map_or(0, RecordCache::most_pages);
        (self.pages.load(Relaxed), most)
    }

    /// Allocates one more page in fast memory, if there is room.
    pub fn add_page(&self, store: &Store<impl Memory>) -> bool {
        let add = |cache: &RecordCache| cache.add(&self.pages, store, &store.pin());
        self.cache().is_some_and(add)
    }

    /// Frees a page, if there is one.
    pub fn drop_page(&self, store: &Store<impl Memory>) -> bool {
        let remove = |cache: &RecordCache| cache.remove(&self.pages, store, &store.pin());
        self.cache().is_some_and(remove)
    }
}

/// Out of line, as lookups rarely get here.
#[cold]
#[inline(never)]
fn offer(
    bucket: &Bucket,
    key: impl CopyKey,
    value: Loan<'_>,
    validate: impl Fn() -> Result<(), Restart>,
) {
    RecordCache::offer(bucket, key, value, validate);
}
