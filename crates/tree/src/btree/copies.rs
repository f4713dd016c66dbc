//! The tree's side of copies of hot records, which are stored apart from their leaves: see
//! [`RecordCache`](crate::cache::RecordCache).

use std::ops::Range;

use timberline_placement::{Access, RecordCache};
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, TierId};

use super::node::{Body, Link, Share};
use super::payload::{Payload, Values};
use super::tree::{LockedNode, Tree, address};
use crate::cache::{Bucket, CopyKey};
use crate::value::{Loan, Represent};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Whether any record has a copy.
    #[inline(always)]
    pub fn has_copies(&self) -> bool {
        P::CACHED && self.copies.are_there()
    }

    /// Whether records of this leaf, or below this node, may have copies: not if it is fast.
    #[inline(always)]
    pub fn may_have_copies(&self, node: usize) -> bool {
        P::CACHED && self.copies.may_be_of(node)
    }

    /// The range of keys below the child that covers a key.
    #[inline(always)]
    pub(super) fn range_below(&self, parent: &Body<WORDS>, key: u64) -> (u64, u64) {
        parent.range_of(parent.child_for(self.search, key))
    }

    /// Gives the copy of a record of this locked leaf, if it has one, the value that the record was
    /// given. Returns the kind of access.
    #[inline(always)]
    pub fn rewrite_copy(
        &self,
        leaf: &LockedNode<'_, WORDS>,
        key: impl CopyKey,
        value: u64,
        guard: &Guard,
    ) -> Access {
        match P::CACHED {
            true => self.copies.follow(address(leaf.of()), key, value, guard),
            false => Access::Reuse,
        }
    }

    /// Drops the copy of a record that leaves this locked leaf.
    #[inline(always)]
    pub fn forget_copy(&self, leaf: &LockedNode<'_, WORDS>, key: impl CopyKey, guard: &Guard) {
        if P::CACHED {
            self.copies.forget(address(leaf.of()), key, guard);
        }
    }

    /// Drops the copies of the records at these entries of this locked leaf, if they go to a node
    /// in the fast tier `to`. `path` leads to the leaf's layer.
    pub fn forget_copies(
        &self,
        node: &LockedNode<'_, WORDS>,
        path: &[u8],
        entries: Range<usize>,
        to: TierId,
        guard: &Guard,
    ) {
        if P::CACHED
            && to.is_fast()
            && node.height() == 0
            && let Some(cache) = self.copies.of(address(node.of()))
        {
            for index in entries {
                P::forget(cache, path, Body::entry_of(node, index), guard);
            }
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Reports that a record was read from its slow leaf, as its bucket had no copy.
    #[inline(always)]
    pub(super) fn missed_copy(
        &self,
        bucket: &Bucket,
        key: u64,
        value: Loan<'_>,
        leaf: Snapshot<'_, Body<WORDS>>,
    ) {
        let (address, validate) = (address(leaf.of()), || leaf.validate());
        self.copies
            .missed(bucket, key, value, address, &self.store, validate);
    }

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
        let bucket = self.copies.bucket(key, guard);
        let copy = bucket.and_then(|bucket| self.copies.find(bucket, key, &self.store, guard));
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

impl<M: Memory, const WORDS: usize, P: Payload> RecordCache for Tree<M, WORDS, P> {
    fn record_pages(&self) -> (usize, usize) {
        self.copies.pages()
    }

    fn record_page_bytes(&self) -> usize {
        Self::BYTES
    }

    fn add_record_page(&self) -> bool {
        self.copies.add_page(&self.store)
    }

    fn drop_record_page(&self) -> bool {
        self.copies.drop_page(&self.store)
    }
}
