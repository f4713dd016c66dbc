//! The radix tree's side of copies of hot records, which are stored apart from their leaves: see
//! [`RecordCache`](crate::cache::RecordCache).
//!
//! A leaf is a record, and moves by itself. Copies gain nevertheless: a fast leaf needs its inner
//! nodes beside it, which take as much memory as dozens of leaves; and packs and dense leaves move
//! as a whole.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::find::Cursor;
use super::node::{LockedTerminal, Reach, Terminal, number};
use super::tree::Tree;
use crate::cache::Bucket;
use crate::value::Loan;

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Drops the copies of the records of a locked node that go to others, if one of those is in
    /// the fast tier. Called before the first of them is linked.
    #[inline(always)]
    pub(super) fn forget_copies(&self, old: &LockedTerminal<'_>, fastest: TierId, guard: &Guard) {
        if self.copies.may_be_of(old.terminal().address()) && fastest.is_fast() {
            self.forget_all(old, guard);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_all(&self, old: &LockedTerminal<'_>, guard: &Guard) {
        if let Some(cache) = self.copies.cache() {
            old.each_key(|key| cache.forget(key, guard));
        }
    }

    /// Drops the copy of the last record of a locked node. Called before that is unlinked.
    #[inline(always)]
    pub(super) fn forget_copy(&self, last: &LockedTerminal<'_>, key: &[u8], guard: &Guard) {
        self.copies.forget(last.terminal().address(), key, guard);
    }

    /// A record was read, as its bucket had no copy: it may get one, if it is slow.
    pub(super) fn missed_copy(&self, bucket: &Bucket, key: &[u8], cursor: Cursor<'_>) {
        let (leaf, value) = (cursor.terminal().address(), cursor.value());
        let validate = || cursor.has_still(key, value.word());
        self.copies
            .missed(bucket, key, value, leaf, &self.store, validate);
    }
}

impl<'t> Cursor<'t> {
    /// The node of the record.
    #[inline(always)]
    pub fn terminal(self) -> Terminal<'t> {
        match self {
            Cursor::Leaf(leaf) => Terminal::Leaf(leaf),
            Cursor::InPack(pack, _) => Terminal::Pack(pack),
            Cursor::InDense(dense, ..) => Terminal::DenseLeaf(dense),
        }
    }

    /// The value.
    #[inline(always)]
    pub fn value(self) -> Loan<'t> {
        match self {
            Cursor::Leaf(leaf) => leaf.value(),
            Cursor::InPack(pack, word) => pack.lend(word),
            Cursor::InDense(dense, _, word) => dense.lend(word),
        }
    }

    /// Fails if the record's node is locked or unlinked, or the record has not this value any more.
    /// Waits for nothing.
    fn has_still(self, key: &[u8], value: u64) -> Result<(), Restart> {
        let has_it = match self {
            Cursor::Leaf(leaf) => leaf.is_unlocked() && leaf.value().word() == value,
            Cursor::InPack(pack, _) => {
                let held = |word| word == Some(value);
                held(pack.try_read()?.get(|records| records.get(number(key)))?)
            }
            Cursor::InDense(dense, at, _) => {
                let held = |word| word == Some(value);
                held(dense.try_read()?.get(|records| records.get(at))?)
            }
        };
        has_it.then_some(()).ok_or(Restart)
    }
}
