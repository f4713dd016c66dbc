//! Lookups: one alone, many in a ring of a given depth, or as a future.

use std::marker::PhantomData;
use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Memory;

use super::Tree;
use super::descent::{Descent, End};
use super::slice::SLICE;
use crate::btree::node::{Lanes, Record, View, Work, address};
use crate::cache::CopySearch;
use crate::mode::{LeafAtOnce, LeafLater, Mode, ValueAtOnce, ValueLater};
use crate::store::{AnyThread, Caller};
use crate::traverse::{Traversal, run};
use crate::value::{Loan, Represent, fetch, fetch_each};

/// The lookup of one key, as a [`Traversal`].
pub(super) struct Lookup<'t, 'k, M: Memory, const WORDS: usize, H: Represent, D, L: Lanes, C> {
    caller: C,
    descent: Descent<'t, 'k, M, WORDS, H, D, L>,
    copy: CopySearch<'t>,
    /// The record to compare next.
    record: Option<(View<'t, WORDS>, Record<'t>, usize)>,
}

impl<'t, 'k, M: Memory, const WORDS: usize, H: Represent, D: Mode, L: Lanes, C: Caller>
    Lookup<'t, 'k, M, WORDS, H, D, L, C>
{
    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, H>,
        key: &'k [u8],
        pinned: impl Into<Pinned<'t>>,
        caller: C,
        lanes: L,
    ) -> Self {
        Lookup {
            caller,
            descent: Descent::new(tree, key, pinned, lanes),
            copy: CopySearch::NotAsked,
            record: None,
        }
    }

    #[inline(always)]
    fn compare(
        &self,
        leaf: View<'t, WORDS>,
        record: Record<'t>,
        depth: usize,
    ) -> Result<Option<Loan<'t>>, Restart> {
        let Descent { tree, key, .. } = self.descent;
        tree.memory().charge_access(record.address(), record.used());
        let is_it = record.bytes() == &key[depth..];
        let value = record.value();
        leaf.validate()?;
        Ok(is_it.then_some(value))
    }

    /// The value of the record's copy, if this has begun to search one.
    #[inline(always)]
    fn take_copy(&mut self) -> Option<Loan<'t>> {
        let Descent { tree, key, .. } = self.descent;
        let found = self.copy.take(&tree.copies, key, &tree.store, self.caller);
        if found.is_none() {
            self.descent.pass_boundary();
        }
        found
    }

    /// The next node is slow: begins to search a copy, if there may be one.
    #[inline(always)]
    fn ask_for_copy(&mut self) {
        let Descent {
            tree, key, pinned, ..
        } = self.descent;
        self.copy = CopySearch::of::<D, _>(&tree.copies, key, pinned, tree.memory());
        if !self.copy.is_asked() {
            self.descent.pass_boundary();
        }
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode, L: Lanes, C: Caller> Traversal
    for Lookup<'t, '_, M, WORDS, H, D, L, C>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        if D::OR_COPY && self.copy.is_asked() {
            return match self.take_copy() {
                None => Poll::Pending,
                found => Poll::Ready(found),
            };
        }
        let (leaf, found) = match self.record.take() {
            Some((leaf, record, depth)) => (leaf, self.compare(leaf, record, depth)),
            None => {
                let Poll::Ready(cursor) = self.descent.step() else {
                    if self.descent.is_at_boundary() {
                        self.ask_for_copy();
                    }
                    return Poll::Pending;
                };
                match cursor.end {
                    End::Value { value, .. } => (cursor.leaf, Ok(Some(value))),
                    End::Absent { .. } | End::Beside { .. } => (cursor.leaf, Ok(None)),
                    End::Record { record, .. } => {
                        self.descent.prefetch_block(*record);
                        self.record = Some((cursor.leaf, record, cursor.depth + SLICE));
                        return Poll::Pending;
                    }
                }
            }
        };
        match found {
            Ok(value) => {
                let Descent { tree, key, .. } = self.descent;
                if D::OR_COPY
                    && let (CopySearch::Missed(bucket), Some(value)) = (self.copy, value)
                {
                    let (address, validate) = (address(leaf.of()), || leaf.validate());
                    tree.copies
                        .missed(bucket, key, value, address, &tree.store, validate);
                }
                let note = |guard: &Guard| tree.note(*leaf, Access::Reuse, guard);
                self.caller.with_guard(&tree.store, note);
                Poll::Ready(value)
            }
            Err(Restart) => {
                self.descent.start_over();
                Poll::Pending
            }
        }
    }
}

/// One lookup in a loop.
struct Get<'t, 'k, M: Memory, const WORDS: usize, H: Represent, D> {
    tree: &'t Tree<M, WORDS, H>,
    key: &'k [u8],
    guard: &'t Guard<'t>,
    mode: PhantomData<D>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode> Work
    for Get<'t, '_, M, WORDS, H, D>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<Loan<'t>> {
        let Get {
            tree, key, guard, ..
        } = self;
        if D::OR_COPY {
            tree.copies.prefetch(key);
        }
        run(Lookup::<_, _, _, D, _, _>::new(
            tree,
            key,
            tree.store.pinned(guard),
            guard,
            lanes,
        ))
    }
}

/// Lookups of many keys in a ring.
struct Each<'t, M: Memory, const WORDS: usize, H: Represent, D, I, F> {
    tree: &'t Tree<M, WORDS, H>,
    keys: I,
    depth: usize,
    found: F,
    mode: PhantomData<D>,
}

impl<'k, M, const WORDS: usize, H, D, I, F> Work for Each<'_, M, WORDS, H, D, I, F>
where
    M: Memory,
    H: Represent,
    D: Mode,
    I: Iterator<Item = &'k [u8]>,
    F: FnMut(usize, Option<Loan<'_>>),
{
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let guard = self.tree.store.pin();
        let look_up = |key| Lookup::<_, _, _, D, _, _>::new(self.tree, key, &guard, &guard, lanes);
        let lookups = self.keys.map(look_up);
        fetch_each::<H, _>(self.tree.memory(), self.depth, lookups, self.found);
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Looks up a key and applies `out` to its value.
    #[inline]
    pub fn get<R>(&self, key: &[u8], out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = &self.store.pin();
        // Decided once: most maps have no copies, and their lookups skip them.
        let found = match self.has_copies() {
            false => self.get_as::<LeafAtOnce>(key, guard),
            true => self.get_or_copy(key, guard),
        };
        found.map(out)
    }

    #[inline(always)]
    fn get_as<'g, D: Mode>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> Option<Loan<'g>> {
        let mode = PhantomData::<D>;
        self.search.run(Get {
            tree: self,
            key,
            guard,
            mode,
        })
    }

    /// The value of a key, or of its copy.
    #[inline(never)]
    fn get_or_copy<'g>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> Option<Loan<'g>> {
        self.get_as::<ValueAtOnce>(key, guard)
    }

    /// Looks up the keys, `depth` at a time, and passes each one's position and value to `found`,
    /// with the thread pinned.
    pub fn get_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        match self.has_copies() {
            false => self.get_each_as::<LeafLater>(keys, depth, found),
            true => self.get_each_as::<ValueLater>(keys, depth, found),
        }
    }

    fn get_each_as<'k, D: Mode>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let mode = PhantomData::<D>;
        self.search.run(Each {
            tree: self,
            keys,
            depth,
            found,
            mode,
        });
    }

    /// Looks up a key and applies `out` to its value. Yields at each node.
    pub async fn get_async<R>(&self, key: &[u8], out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = self.store.domain().owned_guard();
        let lookup =
            Lookup::<_, _, _, ValueLater, _, _>::new(self, key, &guard, AnyThread, self.search);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
