//! The tree's side of copies of hot records, which are stored apart from their leaves: see
//! [`RecordCache`].

use std::ops::Range;

use timberline_placement::{Access, Placement};
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Arenas, Memory, TierId};

use super::find::NodeName;
use super::node::{Body, Hit, Link, Share, Write};
use super::payload::{Payload, Values};
use super::tree::{LockedNode, Tree, address};
use crate::cache::{BUCKET_BYTES, Bucket, Dirty, RecordCache, Rewritten};
use crate::store::Caller;
use crate::value::{Change, Loan, Represent};

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
    let most = placement.record_pages(reach / node);
    let pages = pages_of(arenas, node, placement);
    let cache = RecordCache::new(arenas, pages, most, node)?;
    cache.leave(arenas, pages);
    Some(cache)
}

/// The most pages that the placement wants while fast memory has this limit.
fn pages_of(arenas: &Arenas, node: usize, placement: &dyn Placement) -> usize {
    // The limit may exceed all memory.
    let reach = arenas.range_of(TierId::FAST).len();
    placement.record_pages(arenas.usable(TierId::FAST).min(reach) / node)
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
    ) -> Result<Option<Loan<'g>>, Restart> {
        self.memory().charge_access(address(bucket), BUCKET_BYTES);
        let Some((value, found)) = RecordCache::find(bucket, key)? else {
            return Ok(None);
        };
        if self.store.counts_use(COUNTED) {
            found.count_use();
        }
        caller.with_guard(&self.store, |guard| self.note_copy(key, guard));
        Ok(Some(value))
    }

    /// Reports an access that a copy served, if it is this thread's turn.
    #[inline(always)]
    fn note_copy(&self, key: u64, guard: &Guard) {
        if let Some(cache) = self.copies()
            && self.store.report_is_due(guard)
        {
            self.store.report_copy(cache.page_of(key), guard);
        }
    }

    /// Reports that a record was read from its slow leaf, as its bucket had no copy.
    #[inline(always)]
    pub(super) fn missed_copy(
        &self,
        bucket: &Bucket,
        key: u64,
        value: Loan<'_>,
        leaf: Snapshot<'_, Body<WORDS>>,
        caller: impl Caller,
    ) {
        if self.store.counts_use(COUNTED)
            && let Some(blocking) = offer(bucket, key, value, leaf)
        {
            caller.with_guard(&self.store, |guard| self.unblock(blocking, guard));
        }
    }

    /// A record's copy, if it is dirty, locked for a change.
    pub(super) fn dirty_copy<'g>(&self, key: u64, guard: &'g Guard<'_>) -> Option<Dirty<'g>> {
        let bucket = self.bucket_of(key, guard)?;
        self.memory().charge_access(address(bucket), BUCKET_BYTES);
        Dirty::lock(bucket, key)
    }

    /// Changes a record in its dirty copy. Returns what `out` makes of the value before.
    pub(super) fn put_in_copy<R>(
        &self,
        key: u64,
        copy: Dirty<'_>,
        change: &mut impl Change,
        out: &mut impl FnMut(Loan<'_>) -> R,
        guard: &Guard,
    ) -> R {
        let before = copy.value();
        let counted = self.store.counts_use(COUNTED);
        match change.change(Some(before)) {
            Some(after) => {
                if counted {
                    copy.count_use();
                }
                self.reclaim_value(copy.replace(after), guard);
            }
            None => copy.unchanged(),
        }
        self.note_copy(key, guard);
        out(before)
    }

    /// Rewrites the copy of the record at an index of this locked leaf, whose value changed, or
    /// asks for one. Returns the key of a record whose dirty copy is in the way.
    #[inline(always)]
    pub(super) fn rewrite_copy(
        &self,
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> Option<u64> {
        let cache = self.copies_of(leaf)?;
        self.rewrite(cache, leaf, index, guard)
    }

    /// Out of line, for updates of fast leaves.
    #[cold]
    #[inline(never)]
    fn rewrite(
        &self,
        cache: &RecordCache,
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> Option<u64> {
        let (key, value) = (leaf.key(index), Body::value(leaf, index));
        if (leaf.lower(), leaf.upper()) == (0, u64::MAX) {
            // The only leaf is the root, or becomes it, where lookups do not look for copies.
            cache.forget(key, guard);
            return None;
        }
        let counted = self.store.counts_use(COUNTED);
        match cache.rewrite(key, value, counted, guard)? {
            Rewritten::Dirty => leaf.set_stale(leaf.stale() | RecordCache::mark_of(key)),
            Rewritten::Blocked(key) => return Some(key),
        }
        None
    }

    /// Writes back a dirty copy whose place another record wants, unless another thread is at its
    /// leaf: the next access that wants the place will do. The thread holds no lock.
    #[cold]
    #[inline(never)]
    pub(super) fn unblock(&self, key: u64, guard: &Guard) {
        let _ = self.write_back(key, guard);
    }

    /// Has the leaf of a record take over the value of its dirty copy, if it has one.
    fn write_back(&self, key: u64, guard: &Guard) -> Result<(), Restart> {
        let location = self.find(NodeName::leaf(key), guard)?;
        let leaf = location.expect("every tree has leaves").node.upgrade()?;
        self.charge_node(&leaf);
        let found = leaf.find(self.search, key).map(Hit::index);
        let is_newer = found.is_ok_and(|index| self.take_over(&leaf, index, guard));
        if !is_newer {
            leaf.unchanged();
        }
        Ok(())
    }

    /// Has a locked leaf take over the value of a record from its dirty copy. Returns whether it
    /// has one.
    #[inline(always)]
    pub(super) fn take_over(
        &self,
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        guard: &Guard,
    ) -> bool {
        P::CACHED && leaf.stale() != 0 && self.take_over_marked(leaf, index, guard)
    }

    #[cold]
    #[inline(never)]
    fn take_over_marked(&self, leaf: &LockedNode<'_, WORDS>, index: usize, guard: &Guard) -> bool {
        let key = leaf.key(index);
        if leaf.stale() & RecordCache::mark_of(key) == 0 {
            return false;
        }
        let value = self.dirty_copy(key, guard).map(Dirty::clean);
        value
            .map(|value| Body::take_over(leaf, index, value))
            .is_some()
    }

    /// Has a locked node take over the values of all its records from their dirty copies, if it is
    /// a leaf. Then it has the newest values.
    #[inline(always)]
    pub(super) fn take_over_all(&self, node: &LockedNode<'_, WORDS>, guard: &Guard) {
        if P::CACHED && node.stale() != 0 {
            for index in 0..node.count() {
                self.take_over_marked(node, index, guard);
            }
            node.set_stale(0);
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
            let guard = &self.store.pin();
            let write_back = |key| self.retry(|| self.write_back(key, guard));
            cache.refit(pages, &self.store, guard, write_back);
            cache.leave(arenas, pages);
        }
    }

    /// Frees a page, if there is one.
    pub(super) fn drop_page_of_copies(&self) -> bool {
        let guard = &self.store.pin();
        let write_back = |key| self.retry(|| self.write_back(key, guard));
        let remove = |cache: &RecordCache| cache.remove(&self.store, guard, write_back);
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
        if let Some(bucket) = bucket
            && let Some(copy) = self.find_copy(bucket, key, guard)?
        {
            return Ok(Some(copy));
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
            self.missed_copy(bucket, key, value, *leaf, guard);
        }
        self.note(*leaf, Access::Reuse, guard);
        Ok(found)
    }
}

/// Out of line, as lookups rarely get here.
#[cold]
#[inline(never)]
fn offer<T>(bucket: &Bucket, key: u64, value: Loan<'_>, leaf: Snapshot<'_, T>) -> Option<u64> {
    RecordCache::offer(bucket, key, value, leaf)
}
