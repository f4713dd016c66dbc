//! Looking up values: one alone, or as a future. [`many`](super::many) looks up many.

use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Memory;

use super::descent::Descent;
use super::find::Cursor;
use super::node::{Reach, Terminal};
use super::tree::Tree;
use crate::store::{AnyThread, Caller};
use crate::traverse::Traversal;
use crate::value::{Loan, Represent, fetch};

/// Looks for the value of a key.
pub(super) struct Lookup<'t, B, M: Memory, R: Reach, C> {
    descent: Descent<'t, B, M, R>,
    caller: C,
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, C> Lookup<'t, B, M, R, C> {
    #[inline(always)]
    pub fn new(tree: &'t Tree<M, R>, key: B, pinned: impl Into<Pinned<'t>>, caller: C) -> Self {
        let descent = Descent::new(tree, key, pinned);
        Lookup { descent, caller }
    }
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, C: Caller> Traversal for Lookup<'t, B, M, R, C> {
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        let (tree, caller) = (self.descent.tree, self.caller);
        let cursor = self.descent.step();
        cursor.map(|cursor| tree.read(cursor?, caller))
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Applies `out` to the value of a key.
    #[inline(always)]
    pub fn get<T>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> T) -> Option<T> {
        let guard = self.store.pin();
        let pinned = self.store.pinned(&guard);
        let found = self.find::<false, _, _>(
            &key,
            pinned,
            #[inline(always)]
            |found| self.read(found.ok()?, &guard),
        );
        let found = found.unwrap_or_else(|Restart| self.get_patiently(key.as_ref(), &guard));
        found.map(out)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn get_patiently<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard<'g>,
    ) -> Option<Loan<'g>> {
        let pinned = self.store.pinned(guard);
        self.retry(|| self.find::<false, _, _>(key, pinned, |found| self.read(found.ok()?, guard)))
    }

    /// The place of a key's record.
    #[cold]
    #[inline(never)]
    pub(super) fn find_patiently<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard<'_>,
    ) -> Option<Cursor<'g>> {
        let pinned = self.store.pinned(guard);
        self.retry(|| self.find::<false, _, _>(key, pinned, |found| found.ok()))
    }

    /// The value of the record at a cursor, which is reported.
    #[inline(always)]
    pub(super) fn read<'g>(&self, cursor: Cursor<'g>, caller: impl Caller) -> Option<Loan<'g>> {
        let (terminal, value) = match cursor {
            Cursor::Leaf(leaf) => (Terminal::Leaf(leaf), leaf.value()),
            Cursor::InPack(pack, word) => (Terminal::Pack(pack), pack.lend(word)),
            Cursor::InDense(dense, _, word) => (Terminal::DenseLeaf(dense), dense.lend(word)),
        };
        caller.with_guard(&self.store, |guard| {
            self.note(terminal, Access::Reuse, guard)
        });
        Some(value)
    }

    /// Applies `out` to the value of a key, yielding at each node.
    pub async fn get_async<H: Represent, T>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> T,
    ) -> Option<T> {
        let guard = self.store.domain().owned_guard();
        let lookup = Lookup::new(self, key, &guard, AnyThread);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
