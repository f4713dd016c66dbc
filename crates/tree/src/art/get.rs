//! Looking up values: one alone, or as a future. [`many`](super::many) looks up many.

use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Memory;

use super::descent::{Descent, Met};
use super::find::Cursor;
use super::node::Reach;
use super::tree::Tree;
use crate::cache::CopySearch;
use crate::mode::{Mode, ValueAtOnce, ValueLater};
use crate::store::{AnyThread, Caller};
use crate::traverse::{Traversal, run};
use crate::value::{Loan, Represent, fetch};

/// Looks for the value of a key.
pub(super) struct Lookup<'t, B, M: Memory, R: Reach, D, C> {
    descent: Descent<'t, B, M, R, D>,
    copy: CopySearch<'t>,
    caller: C,
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, D: Mode, C: Caller> Lookup<'t, B, M, R, D, C> {
    #[inline(always)]
    pub fn new(tree: &'t Tree<M, R>, key: B, pinned: impl Into<Pinned<'t>>, caller: C) -> Self {
        Lookup {
            descent: Descent::new(tree, key, pinned),
            copy: CopySearch::NotAsked,
            caller,
        }
    }

    /// The value of the record's copy, if this has begun to search one.
    #[inline(always)]
    fn take_copy(&mut self) -> Option<Loan<'t>> {
        let (tree, key) = (self.descent.tree, self.descent.key.as_ref());
        let found = self.copy.take(&tree.copies, key, &tree.store, self.caller);
        if found.is_none() {
            self.descent.prefetch_slow();
        }
        found
    }
}

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, D: Mode, C: Caller> Traversal
    for Lookup<'t, B, M, R, D, C>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        let tree = self.descent.tree;
        if D::OR_COPY && self.copy.is_asked() {
            return match self.take_copy() {
                None => Poll::Pending,
                found => Poll::Ready(found),
            };
        }
        match self.descent.advance() {
            Ok(Met::Inner) => {}
            Ok(Met::Slow) => {
                let Descent { key, pinned, .. } = &self.descent;
                self.copy =
                    CopySearch::of::<D, _>(&tree.copies, key.as_ref(), *pinned, tree.memory());
                if !self.copy.is_asked() {
                    self.descent.prefetch_slow();
                }
            }
            Ok(Met::End(None)) => return Poll::Ready(None),
            Ok(Met::End(Some(cursor))) => {
                if D::OR_COPY
                    && let CopySearch::Missed(bucket) = self.copy
                {
                    tree.missed_copy(bucket, self.descent.key.as_ref(), cursor);
                }
                return Poll::Ready(tree.read(cursor, self.caller));
            }
            Err(Restart) => self.descent.start_over(),
        }
        Poll::Pending
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Applies `out` to the value of a key.
    #[inline(always)]
    pub fn get<T>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> T) -> Option<T> {
        let guard = self.store.pin();
        // Decided once: most maps have no copies, and their lookups skip them.
        if self.copies.are_there() {
            return self.get_or_copy(key.as_ref(), &guard).map(out);
        }
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

    /// The value of a key, or of its copy.
    #[cold]
    #[inline(never)]
    fn get_or_copy<'g>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> Option<Loan<'g>> {
        self.copies.prefetch(key);
        let pinned = self.store.pinned(guard);
        run(Lookup::<_, _, _, ValueAtOnce, _>::new(
            self, key, pinned, guard,
        ))
    }

    /// The value of the record at a cursor, which is reported.
    #[inline(always)]
    pub(super) fn read<'g>(&self, cursor: Cursor<'g>, caller: impl Caller) -> Option<Loan<'g>> {
        let (terminal, value) = (cursor.terminal(), cursor.value());
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
        let lookup = Lookup::<_, _, _, ValueLater, _>::new(self, key, &guard, AnyThread);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
