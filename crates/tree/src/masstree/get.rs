//! Lookups: one alone, many in a ring of a given depth, or as a future.

use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Memory;

use super::Tree;
use super::descent::{Descent, End};
use super::slice::SLICE;
use crate::btree::node::{Lanes, Record, View, Work};
use crate::store::{AnyThread, Caller};
use crate::traverse::{Traversal, run};
use crate::value::{Loan, Represent, fetch, fetch_each};

/// The lookup of one key, as a [`Traversal`].
pub(super) struct Lookup<
    't,
    'k,
    M: Memory,
    const WORDS: usize,
    H: Represent,
    const LATER: bool,
    L: Lanes,
    C,
> {
    caller: C,
    descent: Descent<'t, 'k, M, WORDS, H, LATER, L>,
    /// The record to compare next.
    record: Option<(View<'t, WORDS>, Record<'t>, usize)>,
}

impl<'t, 'k, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes, C: Caller>
    Lookup<'t, 'k, M, WORDS, H, LATER, L, C>
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
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes, C: Caller>
    Traversal for Lookup<'t, '_, M, WORDS, H, LATER, L, C>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        let (leaf, found) = match self.record.take() {
            Some((leaf, record, depth)) => (leaf, self.compare(leaf, record, depth)),
            None => {
                let Poll::Ready(cursor) = self.descent.step() else {
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
                let tree = self.descent.tree;
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
pub(super) struct Get<'t, 'k, M: Memory, const WORDS: usize, H: Represent> {
    pub tree: &'t Tree<M, WORDS, H>,
    pub key: &'k [u8],
    pub guard: &'t Guard<'t>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent> Work for Get<'t, '_, M, WORDS, H> {
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Option<Loan<'t>> {
        let Get { tree, key, guard } = self;
        run(Lookup::<_, _, _, false, _, _>::new(
            tree,
            key,
            tree.store.pinned(guard),
            guard,
            lanes,
        ))
    }
}

/// Lookups of many keys in a ring.
struct Each<'t, M: Memory, const WORDS: usize, H: Represent, I, F> {
    tree: &'t Tree<M, WORDS, H>,
    keys: I,
    depth: usize,
    found: F,
}

impl<'k, M, const WORDS: usize, H, I, F> Work for Each<'_, M, WORDS, H, I, F>
where
    M: Memory,
    H: Represent,
    I: Iterator<Item = &'k [u8]>,
    F: FnMut(usize, Option<Loan<'_>>),
{
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let guard = self.tree.store.pin();
        let look_up =
            |key| Lookup::<_, _, _, true, _, _>::new(self.tree, key, &guard, &guard, lanes);
        let lookups = self.keys.map(look_up);
        fetch_each::<H, _>(self.tree.memory(), self.depth, lookups, self.found);
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Looks up a key and applies `out` to its value.
    #[inline]
    pub fn get<R>(&self, key: &[u8], out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = &self.store.pin();
        let found = self.search.run(Get {
            tree: self,
            key,
            guard,
        });
        found.map(out)
    }

    /// Looks up the keys, `depth` at a time, and passes each one's position and value to `found`,
    /// with the thread pinned.
    pub fn get_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        self.search.run(Each {
            tree: self,
            keys,
            depth,
            found,
        });
    }

    /// Looks up a key and applies `out` to its value. Yields at each node.
    pub async fn get_async<R>(&self, key: &[u8], out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = self.store.domain().owned_guard();
        let lookup = Lookup::<_, _, _, true, _, _>::new(self, key, &guard, AnyThread, self.search);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
