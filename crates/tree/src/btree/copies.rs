//! The tree's side of copies of hot records, which are stored apart from their leaves: see
//! [`RecordCache`].

use std::ops::Range;

use timberline_placement::{Access, Placement};
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Arenas, Memory, TierId};

use super::node::{Body, Link, Share};
use super::payload::{Payload, Values};
use super::tree::{LockedNode, Tree, address};
use crate::cache::{BUCKET_BYTES, Bucket, RecordCache};
use crate::store::Caller;
use crate::value::{Loan, Represent};

/// One in this many lookups of a slow leaf's records counts the cache's hits and misses. A greater
/// number costs lookups less and finds as much in the end, but later (`docs/design/cache.md`).
const COUNTED: u32 = 2;

/// The cache of a new tree, if it gets one.
pub(super) fn cache(
    arenas: &Arenas,
    node: usize,
    placement: &dyn Placement,
) -> Option<RecordCache> {
    if arenas.tiers() < 2 {
        return None;
    }
    let reach = arenas.range_of(TierId::FAST).len();
    let most = placement.most_record_pages(reach / node);
    let cache = RecordCache::new(arenas, pages_of(arenas, node, placement), most, node)?;
    cache.leave(arenas, most_pages_of(arenas, node, placement));
    Some(cache)
}

/// The most pages that the placement wants now.
fn pages_of(arenas: &Arenas, node: usize, placement: &dyn Placement) -> usize {
    placement.record_pages(nodes_in(arenas, node))
}

/// The most that it may want while fast memory has this limit.
fn most_pages_of(arenas: &Arenas, node: usize, placement: &dyn Placement) -> usize {
    placement.most_record_pages(nodes_in(arenas, node))
}

/// How many nodes fast memory can hold.
fn nodes_in(arenas: &Arenas, node: usize) -> usize {
    // The limit may exceed all memory.
    let reach = arenas.range_of(TierId::FAST).len();
    arenas.usable(TierId::FAST).min(reach) / node
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// The cache, if this tree makes copies.
    #[inline(always)]
    pub(super) fn copies(&self) -> Option<&RecordCache> {
        match P::CACHED {
            true => self.cache.as_ref(),
            false => None,
        }
    }

    /// Whether any record has a copy.
    #[inline(always)]
    pub(super) fn has_copies(&self) -> bool {
        self.copies().is_some_and(RecordCache::has_pages)
    }

    /// Whether records of this leaf may have copies: not if it is fast.
    #[inline(always)]
    pub(super) fn may_have_copies(&self, leaf: usize) -> bool {
        P::CACHED && leaf >= self.copied_from
    }

    /// Makes the CPU prefetch the place of a record's copy before it is known whether the leaf is
    /// slow: the descent takes as long.
    #[inline(always)]
    pub(super) fn prefetch_copy(&self, key: u64) {
        if let Some(cache) = self.copies() {
            cache.prefetch(key);
        }
    }

    /// The place of a record's copy.
    #[inline(always)]
    pub(super) fn bucket_of<'g>(
        &self,
        key: u64,
        pinned: impl Into<Pinned<'g>>,
    ) -> Option<&'g Bucket> {
        self.copies()?.bucket(key, pinned)
    }

    /// The range of keys below the child that covers a key.
    #[inline(always)]
    pub(super) fn range_below(&self, parent: &Body<WORDS>, key: u64) -> (u64, u64) {
        parent.range_of(parent.child_for(self.search, key))
    }

    /// The value of a record's copy.
    #[inline(always)]
    pub(super) fn find_copy<'g>(
        &self,
        bucket: &'g Bucket,
        key: u64,
        caller: impl Caller,
    ) -> Option<Loan<'g>> {
        self.memory().charge_access(address(bucket), BUCKET_BYTES);
        let (value, found) = RecordCache::find(bucket, key)?;
        if self.store.counts_use(COUNTED) {
            found.count_use();
        }
        caller.with_guard(&self.store, |guard| {
            if let Some(cache) = self.copies()
                && self.store.report_is_due(guard)
            {
                let (page, copy) = (cache.page_of(key), RecordCache::identify(key));
                self.store.report_copy(page, copy, guard);
            }
        });
        Some(value)
    }

    /// Reports that a record was read from its slow leaf, as its bucket had no copy.
    #[inline(always)]
    pub(super) fn missed_copy(
        &self,
        bucket: &Bucket,
        key: u64,
        value: Loan<'_>,
        leaf: Snapshot<'_, Body<WORDS>>,
    ) {
        if self.store.counts_use(COUNTED) {
            offer(bucket, key, value, leaf);
        }
    }

    /// Rewrites the copy of the record at an index of this locked leaf, whose value changed.
    /// Returns the kind of access.
    #[inline(always)]
    pub(super) fn rewrite_copy(
        &self,
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> Access {
        match self.copies_of(leaf) {
            Some(cache) => self.rewrite(cache, leaf.key(index), Body::value(leaf, index), guard),
            None => Access::Change,
        }
    }

    /// Out of line, for updates of fast leaves.
    #[cold]
    #[inline(never)]
    fn rewrite(&self, cache: &RecordCache, key: u64, value: Loan<'_>, guard: &Guard) -> Access {
        match cache.rewrite(key, value, guard) {
            true => self.store.changed_copy(RecordCache::identify(key), guard),
            false => Access::Change,
        }
    }

    /// Drops the copy of a record that leaves this locked leaf.
    #[inline(always)]
    pub(super) fn forget_copy(&self, leaf: &LockedNode<'_, WORDS>, key: u64, guard: &Guard) {
        if let Some(cache) = self.copies_of(leaf) {
            cache.forget(key, guard);
        }
    }

    /// Drops the copies of these entries of this locked leaf, if they go to a node in the fast tier
    /// `to`.
    pub(super) fn forget_copies(
        &self,
        node: &LockedNode<'_, WORDS>,
        entries: Range<usize>,
        to: TierId,
        guard: &Guard,
    ) {
        if to.is_fast()
            && node.height() == 0
            && let Some(cache) = self.copies_of(node)
        {
            entries.for_each(|index| cache.forget(node.key(index), guard));
        }
    }

    /// The cache, if records of a leaf may have copies.
    #[inline(always)]
    fn copies_of(&self, leaf: &LockedNode<'_, WORDS>) -> Option<&RecordCache> {
        match self.may_have_copies(address(leaf.of())) {
            true => self.copies(),
            false => None,
        }
    }

    /// The number of pages of copies, and their limit.
    pub(super) fn pages_of_copies(&self) -> (usize, usize) {
        self.copies().map_or((0, 0), RecordCache::pages)
    }

    /// Allocates one more page in fast memory, if there is room.
    pub(super) fn add_page_of_copies(&self) -> bool {
        let add = |cache: &RecordCache| cache.add(&self.store, &self.store.pin());
        self.copies().is_some_and(add)
    }

    /// Has the placement tell anew how many pages there may be.
    pub(super) fn refit_copies(&self) {
        if let Some(cache) = self.copies() {
            let (arenas, placement) = (self.store.arenas(), &*self.store.placement);
            let pages = pages_of(arenas, Self::BYTES, placement);
            cache.refit(pages, &self.store, &self.store.pin());
            cache.leave(arenas, most_pages_of(arenas, Self::BYTES, placement));
        }
    }

    /// Frees a page, if there is one.
    pub(super) fn drop_page_of_copies(&self) -> bool {
        let remove = |cache: &RecordCache| cache.remove(&self.store, &self.store.pin());
        self.copies().is_some_and(remove)
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// The value of a key that this slow leaf covers: from its copy, or from the leaf.
    // Out of line, so that lookups of fast leaves keep their state in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn get_slow<'g>(
        &self,
        key: u64,
        parent: Snapshot<'_, Body<WORDS>>,
        leaf: Link<'g, WORDS>,
        guard: &'g Guard<'_>,
    ) -> Result<Option<Loan<'g>>, Restart> {
        let bucket = self.bucket_of(key, guard);
        let copy = bucket.and_then(|bucket| self.find_copy(bucket, key, guard));
        if copy.is_some() {
            return Ok(copy);
        }
        let (lower, upper) = parent.get(|body| self.range_below(body, key))?;
        let share = Share::of(key, lower, upper);
        match Body::<WORDS>::GUESSED {
            true => self.prefetch_near(leaf.address(), Body::<WORDS>::guess(share, lower, upper)),
            false => self.prefetch(leaf.address()),
        }
        let leaf = leaf.read()?.leaf().ok_or(Restart)?;
        parent.validate()?;
        let found = leaf.lend(|body| self.look_up(self.search, body, key, share))?;
        if let (Some(bucket), Some(value)) = (bucket, found) {
            self.missed_copy(bucket, key, value, *leaf);
        }
        self.note(*leaf, Access::Reuse, guard);
        Ok(found)
    }
}

/// Out of line, as lookups rarely get here.
#[cold]
#[inline(never)]
fn offer<T>(bucket: &Bucket, key: u64, value: Loan<'_>, leaf: Snapshot<'_, T>) {
    RecordCache::offer(bucket, key, value, leaf);
}
