//! Changes a record's value, in a leaf, a pack or a dense leaf.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::Cursor;
use super::node::{DenseLeaf, Leaf, Pack, Reach, Shared, Terminal, number};
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
                        Err(_) => Ok(None),
                        Ok(Cursor::Leaf(leaf)) => self.change(leaf, change, &guard).map(Some),
                        Ok(Cursor::InPack(pack, _)) => {
                            let before = self.change_in_pack(pack, key, change, &guard)?;
                            Ok(Some(before))
                        }
                        Ok(Cursor::InDense(dense, at, _)) => {
                            let before = self.change_in_dense(dense, key, at, change, &guard)?;
                            Ok(Some(before))
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
            let write = || held.replace(after);
            let (address, key) = (leaf.address(), leaf.key());
            let (replaced, access) = self.copies.rewrite(address, key, after, guard, write);
            drop(held);
            if C::RETIRES {
                replaced.reclaim(&self.store, guard);
            }
            self.note(Terminal::Leaf(leaf), access, guard);
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
        let (before, access) = self.replace_in(pack, key, place, change, guard);
        held.unlock(access.is_some());
        if let Some(access) = access {
            self.note(Terminal::Pack(pack), access, guard);
        }
        Ok(before)
    }

    /// The same for a record that was just found in a dense leaf.
    #[inline(always)]
    pub fn change_in_dense<'g, C: Change>(
        &self,
        dense: DenseLeaf<'g>,
        key: &[u8],
        at: u8,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let held = dense.lock()?;
        let Some(place) = held.place(at) else {
            held.unlock(false);
            return Err(Restart);
        };
        let (before, access) = self.replace_in(dense, key, place, change, guard);
        held.unlock(access.is_some());
        if let Some(access) = access {
            self.note(Terminal::DenseLeaf(dense), access, guard);
        }
        Ok(before)
    }

    /// Replaces a key's word in a locked node by the result of `change`, if that returns one.
    /// Returns the previous word, and if it was replaced, the kind of access.
    #[inline(always)]
    fn replace_in<'g, T>(
        &self,
        node: Shared<'g, T>,
        key: &[u8],
        place: &AtomicU64,
        change: &mut impl Change,
        guard: &Guard,
    ) -> (Loan<'g>, Option<Access>) {
        let before = node.lend(place.load(Relaxed));
        let access = change.change(Some(before)).map(|after| {
            // What it refers to may be read without a version.
            let write = || place.store(after, Release);
            let ((), access) = self
                .copies
                .rewrite(node.address(), key, after, guard, write);
            access
        });
        (before, access)
    }
}
