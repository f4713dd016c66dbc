//! Looking up values: one alone, many in a ring of a given depth, or as a future.

use std::task::Poll;

use timberline_placement::Access;
use timberline_sync::epoch::Pinned;
use timberline_tier::Memory;

use super::descent::{AT_ONCE, Cursor, Descent, LATER};
use super::node::{Reach, Tip};
use super::tree::Tree;
use crate::traverse::{Traversal, run};
use crate::value::{Keep, Loan, fetch, fetch_each};

/// Looks for the value of a key.
pub(super) struct Lookup<'t, B, M: Memory, R: Reach, const WHEN: bool>(Descent<'t, B, M, R, WHEN>);

impl<'t, B: AsRef<[u8]>, M: Memory, R: Reach, const WHEN: bool> Lookup<'t, B, M, R, WHEN> {
    #[inline(always)]
    pub fn new(tree: &'t Tree<M, R>, key: B, pinned: impl Into<Pinned<'t>>) -> Self {
        Lookup(Descent::new(tree, key, pinned))
    }
}

impl<B: AsRef<[u8]>, M: Memory, R: Reach, const WHEN: bool> Traversal
    for Lookup<'_, B, M, R, WHEN>
{
    type Output = Option<u64>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<u64>> {
        self.0.step().map(|hit| {
            let (tip, value) = match hit? {
                Cursor::Leaf(leaf) => (Tip::Leaf(leaf), leaf.value()),
                Cursor::InPack(pack, value) => (Tip::Pack(pack), value),
                Cursor::InRow(row, _, value) => (Tip::Row(row), value?),
            };
            self.0.tree.note(tip, Access::Reuse);
            Some(value)
        })
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// What `out` makes of the value of a key.
    #[inline(always)]
    pub fn get<T>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> T) -> Option<T> {
        let guard = self.store.pin();
        let found = run(Lookup::<_, _, _, AT_ONCE>::new(self, key, &guard));
        found.map(|word| out(Loan::new(word, &guard)))
    }

    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
    pub fn get_each<H: Keep, B: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = B>,
        depth: usize,
        mut found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let guard = self.store.pin();
        let lookups = keys.map(|key| Lookup::<_, _, _, LATER>::new(self, key, &guard));
        fetch_each::<H, _>(self.memory(), depth, lookups, |at, word| {
            found(at, word.map(|word| Loan::new(word, &guard)));
        });
    }

    /// What `out` makes of the value of a key, yielding at each node.
    pub async fn get_async<H: Keep, T>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> T,
    ) -> Option<T> {
        let guard = self.store.domain().owned_guard();
        let lookup = Lookup::<_, _, _, LATER>::new(self, key, &guard);
        let found = fetch::<H, _>(self.memory(), lookup).await;
        found.map(|word| out(Loan::new(word, &guard)))
    }
}
