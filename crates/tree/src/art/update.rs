//! Changes a record's value, in a leaf, a pack or a dense leaf. In a dense leaf it can also insert
//! a record.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::Cursor;
use super::node::{DenseLeaf, Leaf, LockedDense, Pack, Reach, Shared, Terminal, number};
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::value::{Change, Loan};

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Replaces the value of a present record by the result of `change`, atomically. Returns the
    /// result of `out` for the previous value.
    #[inline(always)]
    pub fn modify<T>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> T,
    ) -> Result<Option<T>, Refused> {
        let asked = &key;
        let key = key.as_ref();
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            attempt(|| {
                let pinned = self.store.pinned(&guard);
                let before = self.find::<true, _, _>(
                    asked,
                    pinned,
                    #[inline(always)]
                    |found| match found {
                        Err(_) | Ok(Cursor::InDense(_, _, None)) => Ok(None),
                        Ok(Cursor::Leaf(leaf)) => self.change(leaf, change, &guard).map(Some),
                        Ok(Cursor::InPack(pack, _)) => {
                            let before = self.change_in_pack(pack, key, change, &guard)?;
                            Ok(Some(before))
                        }
                        Ok(Cursor::InDense(dense, at, _)) => {
                            let before = self.change_in_dense(dense, at, false, change, &guard)?;
                            Ok(before)
                        }
                    },
                )??;
                Ok(before.map(&mut out))
            })
        })
    }

    /// Replaces a leaf's value by the result of `change`. Returns the previous value, which is
    /// readable as long as the thread stays pinned.
    #[inline(always)]
    pub fn change<'g, C: Change>(
        &self,
        leaf: Leaf<'g>,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Loan<'g>, Abort> {
        let seen = leaf.value();
        if C::PREPARES {
            let tier = self.store.arenas().tier_of(leaf.address());
            change.prepare(Some(seen), tier)?;
        }
        let held = leaf.lock()?;
        let before = leaf.value();
        if C::PREPARES && before.word() != seen.word() {
            return Err(Abort::Restart);
        }
        if let Some(after) = change.change(Some(before)) {
            let replaced = held.replace(after);
            drop(held);
            if C::RETIRES {
                replaced.reclaim(&self.store, guard);
            }
            self.note(Terminal::Leaf(leaf), Access::Reuse, guard);
        }
        Ok(before)
    }

    /// The same for a record that was just found in a pack.
    #[inline(always)]
    pub fn change_in_pack<'g, C: Change>(
        &self,
        pack: Pack<'g>,
        key: &[u8],
        change: &mut C,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let held = pack.lock()?;
        let Some(place) = held.place(number(key)) else {
            held.unlock(false);
            return Err(Restart);
        };
        let (before, changed) = replace(pack, place, change);
        held.unlock(changed);
        if changed {
            self.note(Terminal::Pack(pack), Access::Reuse, guard);
        }
        Ok(before)
    }

    /// The same for a position in a dense leaf. An absent record is inserted only if `may_insert`.
    #[inline(always)]
    pub fn change_in_dense<'g, C: Change>(
        &self,
        dense: DenseLeaf<'g>,
        at: u8,
        may_insert: bool,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Option<Loan<'g>>, Restart> {
        let held = dense.lock()?;
        let Some(place) = held.place(at) else {
            return self.insert_in_dense(held, at, may_insert, change, guard);
        };
        let (before, changed) = replace(dense, place, change);
        held.unlock(changed);
        if changed {
            self.note(Terminal::DenseLeaf(dense), Access::Reuse, guard);
        }
        Ok(Some(before))
    }

    /// Inserts a record into a locked dense leaf, if `change` returns a value and there is room.
    fn insert_in_dense<'g, C: Change>(
        &self,
        held: LockedDense<'g>,
        at: u8,
        may_insert: bool,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Option<Loan<'g>>, Restart> {
        let dense = held.node();
        if may_insert && held.is_full() {
            held.unlock(false);
            return Err(Restart);
        }
        match may_insert.then(|| change.change(None)).flatten() {
            None => held.unlock(false),
            Some(value) => {
                held.set(at, value);
                let has_all = held.has_all();
                drop(held);
                self.store.count(1);
                self.note(Terminal::DenseLeaf(dense), Access::Insert, guard);
                if has_all {
                    self.tell_full(dense, guard);
                }
            }
        }
        Ok(None)
    }

    /// Lets the link to a dense leaf tell that it has all its records, if it does.
    #[cold]
    fn tell_full(&self, dense: DenseLeaf<'_>, guard: &Guard) {
        self.retry(|| {
            let Some((parent, found)) = self.parent_of(dense.least(), guard)? else {
                return Ok(());
            };
            if found.address() != dense.address() {
                return Ok(());
            }
            let held = parent.upgrade()?;
            let dense = dense.lock()?;
            if dense.has_all() {
                held.tell_full(&dense, self.base, true);
            }
            dense.unlock(false);
            Ok(())
        });
    }
}

/// Replaces a word of a locked node by the result of `change`, if that returns one. Returns the
/// previous word, and whether it was replaced.
#[inline(always)]
fn replace<'g, T>(
    node: Shared<'g, T>,
    place: &AtomicU64,
    change: &mut impl Change,
) -> (Loan<'g>, bool) {
    let before = node.lend(place.load(Relaxed));
    let after = change.change(Some(before));
    if let Some(after) = after {
        // What it refers to may be read without a version.
        place.store(after, Release);
    }
    (before, after.is_some())
}
