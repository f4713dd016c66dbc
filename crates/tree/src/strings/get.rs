//! Looking up a value: one alone, many in a ring, or as a future.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::{Memory, hint};

use super::descent::Descent;
use super::node::{Aim, LeafView, Sought};
use super::tree::Tree;
use crate::store::{AnyThread, Caller};
use crate::traverse::{DEPTH, Traversal};
use crate::value::{Loan, Represent, fetch, fetch_each};

/// Hands keys on, a group at a time, with the position of its first: they may lie on the stack, and
/// have to stay where they are as long as lookups are under way.
pub(super) fn in_groups<B>(keys: impl Iterator<Item = B>, mut each: impl FnMut(usize, &[B])) {
    const GROUP: usize = 256;
    let (mut keys, mut first) = (keys, 0);
    loop {
        let group: SmallVec<[B; DEPTH]> = keys.by_ref().take(GROUP).collect();
        if group.is_empty() {
            return;
        }
        each(first, &group);
        first += group.len();
    }
}

/// A record that was found.
#[derive(Clone, Copy)]
pub(super) struct Found<'t, const WORDS: usize> {
    pub leaf: LeafView<'t, WORDS>,
    /// Its place in the leaf.
    pub index: usize,
    pub value: Loan<'t>,
}

/// Searches the record of a key, where other work runs between two steps.
pub(super) struct Search<'t, 'k, M: Memory, const WORDS: usize, H: Represent, C> {
    caller: C,
    key: Sought<'k>,
    descent: Descent<'t, 'k, M, WORDS, H, true>,
    /// The leaf, and where in it the key's print is, once the record there was prefetched.
    leaf: Option<(LeafView<'t, WORDS>, Option<usize>)>,
}

impl<'t, 'k, M: Memory, const WORDS: usize, H: Represent, C: Caller>
    Search<'t, 'k, M, WORDS, H, C>
{
    #[inline(always)]
    pub(super) fn new(
        tree: &'t Tree<M, WORDS, H>,
        key: &'k [u8],
        pinned: impl Into<Pinned<'t>>,
        caller: C,
    ) -> Self {
        Search {
            caller,
            key: Sought::new(key),
            descent: Descent::new(tree, Aim::At(key), pinned),
            leaf: None,
        }
    }

    /// The record, unless what it is in is still in flight.
    #[inline(always)]
    fn advance(&mut self) -> Result<Poll<Option<Found<'t, WORDS>>>, Restart> {
        let tree = self.descent.tree;
        let Some((leaf, likely)) = self.leaf else {
            if let Some(leaf) = self.descent.advance()? {
                tree.charge_leaf(&leaf);
                self.prefetch_record(leaf)?;
            }
            return Ok(Poll::Pending);
        };
        let found = match likely {
            // No record has the print.
            None => None,
            Some(index) => match leaf.lend_at(index, self.key, tree.memory())? {
                Some(value) => Some((index, value)),
                None => leaf.lend(self.key, tree.memory())?,
            },
        };
        let note = |guard: &Guard| tree.note(leaf, Access::Reuse, guard);
        self.caller.with_guard(&tree.store, note);
        Ok(Poll::Ready(found.map(|(index, value)| Found {
            leaf,
            index,
            value,
        })))
    }

    #[inline(always)]
    fn prefetch_record(&mut self, leaf: LeafView<'t, WORDS>) -> Result<(), Restart> {
        let place = leaf.get(|page| {
            let index = page.seems_at(self.key);
            index.map(|index| (index, page.places(index)))
        })?;
        if let Some((index, (_, payloads, entry))) = place {
            let (memory, node) = (self.descent.tree.memory(), leaf.address());
            memory.prefetch(node + entry, hint::LINE);
            memory.prefetch(node + payloads + 8 * index, 8);
        }
        self.leaf = Some((leaf, place.map(|(index, _)| index)));
        Ok(())
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, C: Caller> Traversal
    for Search<'t, '_, M, WORDS, H, C>
{
    type Output = Option<Found<'t, WORDS>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Found<'t, WORDS>>> {
        self.advance().unwrap_or_else(|Restart| {
            self.leaf = None;
            self.descent.start_over();
            Poll::Pending
        })
    }
}

/// The same for the record's value.
struct Lookup<'t, 'k, M: Memory, const WORDS: usize, H: Represent, C>(
    Search<'t, 'k, M, WORDS, H, C>,
);

impl<'t, M: Memory, const WORDS: usize, H: Represent, C: Caller> Traversal
    for Lookup<'t, '_, M, WORDS, H, C>
{
    type Output = Option<Loan<'t>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'t>>> {
        self.0.step().map(|found| Some(found?.value))
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Applies `out` to the value of a key.
    #[inline(always)]
    pub(super) fn look_up<R>(&self, key: &[u8], out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        let guard = &self.store.pin();
        let key = Sought::new(key);
        let found = self.retry(|| {
            let leaf = self.leaf(key.bytes, guard);
            self.charge_leaf(&leaf);
            let found = leaf.lend(key, self.memory())?;
            self.note(leaf, Access::Reuse, guard);
            Ok(found)
        });
        found.map(|(_, value)| out(value))
    }

    /// Passes the position and value of each key to `found`, `depth` lookups at a time, with the
    /// thread pinned.
    pub(super) fn look_up_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let guard = self.store.pin();
        let lookups = keys.map(|key| Lookup(Search::new(self, key, &guard, &guard)));
        fetch_each::<H, _>(self.memory(), depth, lookups, found);
    }

    /// Applies `out` to the value of a key, yielding where it would wait for a node.
    pub(super) async fn look_up_async<R>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        let guard = self.store.domain().owned_guard();
        let lookup = Lookup(Search::new(self, key, &guard, AnyThread));
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(out)
    }
}
