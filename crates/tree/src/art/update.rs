//! Changes a record's value, in a leaf, a pack or a dense leaf.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::Cursor;
use super::node::{
    DenseLeaf, Leaf, LockedLeaf, LockedShared, Pack, Reach, Shared, Terminal, number,
};
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
        self.store.reclaiming(
            &mut change,
            // Both inlined, or what they know would be passed in memory.
            #[inline(always)]
            |change| {
                let guard = self.store.pin();
                attempt(
                    #[inline(always)]
                    || {
                        let pinned = self.store.pinned(&guard);
                        let before = self.find::<true, _, _>(
                            asked,
                            pinned,
                            #[inline(always)]
                            |found| match found {
                                Err(_) => Ok(None),
                                Ok(Cursor::Leaf(leaf)) => {
                                    self.change(leaf, change, &guard).map(Some)
                                }
                                Ok(Cursor::InPack(pack, _)) => {
                                    let before = self.change_in_pack(pack, key, change, &guard)?;
                                    Ok(Some(before))
                                }
                                Ok(Cursor::InDense(dense, at, _)) => {
                                    let before =
                                        self.change_in_dense(dense, key, at, change, &guard)?;
                                    Ok(Some(before))
                                }
                            },
                        )??;
                        Ok(before.map(&mut out))
                    },
                )
            },
        )
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
            if self.copies.may_be_of(leaf.address()) {
                self.set_with_copy(held, after, C::RETIRES, guard);
                return Ok(before);
            }
            let replaced = held.replace(after);
            drop(held);
            if C::RETIRES {
                replaced.reclaim(&self.store, guard);
            }
            self.note(Terminal::Leaf(leaf), Access::Reuse, guard);
        }
        Ok(before)
    }

    /// Replaces the value of a slow leaf, and of its record's copy, if there is one.
    // Out of line, for updates of fast leaves.
    #[cold]
    #[inline(never)]
    fn set_with_copy(&self, held: LockedLeaf<'_>, after: u64, retires: bool, guard: &Guard) {
        let leaf = held.leaf();
        let write = || held.replace(after);
        let (replaced, access) = self.copies.rewrite(leaf.key(), after, guard, write);
        drop(held);
        if retires {
            replaced.reclaim(&self.store, guard);
        }
        self.note(Terminal::Leaf(leaf), access, guard);
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
        let terminal = Terminal::Pack(pack);
        self.change_in(
            pack,
            terminal,
            key,
            #[inline(always)]
            |held| held.place(number(key)),
            change,
            guard,
        )
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
        let terminal = Terminal::DenseLeaf(dense);
        self.change_in(
            dense,
            terminal,
            key,
            #[inline(always)]
            |held| held.place(at),
            change,
            guard,
        )
    }

    /// The same for the record at a place of a node, if there is one.
    #[inline(always)]
    fn change_in<'g, T, C: Change>(
        &self,
        node: Shared<'g, T>,
        terminal: Terminal<'g>,
        key: &[u8],
        place: impl for<'a> Fn(&'a LockedShared<'g, T>) -> Option<&'a AtomicU64>,
        change: &mut C,
        guard: &Guard,
    ) -> Result<Loan<'g>, Restart> {
        let held = node.lock()?;
        let Some(word) = place(&held) else {
            held.unlock(false);
            return Err(Restart);
        };
        let before = node.lend(word.load(Relaxed));
        let Some(after) = change.change(Some(before)) else {
            held.unlock(false);
            return Ok(before);
        };
        if self.copies.may_be_of(node.address()) {
            self.set_in_with_copy(held, terminal, key, place, after, guard);
            return Ok(before);
        }
        // What it refers to may be read without a version.
        word.store(after, Release);
        held.unlock(true);
        self.note(terminal, Access::Reuse, guard);
        Ok(before)
    }

    /// Replaces a word of a slow node, and of its record's copy, if there is one.
    #[cold]
    #[inline(never)]
    fn set_in_with_copy<'g, T>(
        &self,
        held: LockedShared<'g, T>,
        terminal: Terminal<'_>,
        key: &[u8],
        place: impl for<'a> Fn(&'a LockedShared<'g, T>) -> Option<&'a AtomicU64>,
        after: u64,
        guard: &Guard,
    ) {
        let write = || {
            if let Some(word) = place(&held) {
                word.store(after, Release);
            }
        };
        let ((), access) = self.copies.rewrite(key, after, guard, write);
        held.unlock(true);
        self.note(terminal, access, guard);
    }
}
