//! Lookups: one alone, many in a ring of a given depth, or as a future. All run the one of [`descent`](super::descent).

use timberline_sync::epoch;
use timberline_tier::Memory;

use super::Tree;
use super::descent::{Get, Lookup};
use crate::btree::node::{Lanes, Work};
use crate::traverse::{Yielding, interleave};

/// Looks up many keys.
struct Each<'t, M: Memory, const WORDS: usize, I, F> {
    tree: &'t Tree<M, WORDS>,
    keys: I,
    depth: usize,
    found: F,
}

impl<'k, M, const WORDS: usize, I, F> Work for Each<'_, M, WORDS, I, F>
where
    M: Memory,
    I: Iterator<Item = &'k [u8]>,
    F: FnMut(usize, Option<u64>),
{
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let guard = epoch::pin();
        let look_up = |key| Lookup::<_, _, true, _>::new(self.tree, key, &guard, lanes);
        interleave(self.depth, self.keys.map(look_up), self.found);
    }
}

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let guard = &epoch::pin();
        self.search.run(Get {
            tree: self,
            key,
            guard,
        })
    }

    /// Gives `found` each key's position and value, `depth` lookups at a time.
    pub fn get_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        depth: usize,
        found: impl FnMut(usize, Option<u64>),
    ) {
        self.search.run(Each {
            tree: self,
            keys,
            depth,
            found,
        });
    }

    /// The value of a key, yielding at each node.
    pub async fn get_async(&self, key: &[u8]) -> Option<u64> {
        let guard = epoch::pin();
        Yielding(Lookup::<_, _, true, _>::new(self, key, &guard, self.search)).await
    }
}
