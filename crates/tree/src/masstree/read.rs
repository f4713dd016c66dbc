//! Lookups: one alone, many in a ring of a given depth, or as a future. All run the one of
//! [`descent`](super::descent).

use timberline_tier::Memory;

use super::Tree;
use super::descent::{Get, Lookup};
use crate::btree::node::{Lanes, Work};
use crate::traverse::{Yielding, interleave};
use crate::value::{Fetched, Keep};

/// Looks up many keys.
struct Each<'t, M: Memory, const WORDS: usize, H: Keep, I, F> {
    tree: &'t Tree<M, WORDS, H>,
    keys: I,
    depth: usize,
    found: F,
}

impl<'k, M, const WORDS: usize, H, I, F> Work for Each<'_, M, WORDS, H, I, F>
where
    M: Memory,
    H: Keep,
    I: Iterator<Item = &'k [u8]>,
    F: FnMut(usize, Option<u64>),
{
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let guard = self.tree.store.pin();
        let look_up = |key| Lookup::<_, _, _, true, _>::new(self.tree, key, &guard, lanes);
        if H::IN_BLOCKS {
            let memory = self.tree.memory();
            let look_up = |key| Fetched::new(memory, look_up(key));
            return interleave(self.depth, self.keys.map(look_up), self.found);
        }
        interleave(self.depth, self.keys.map(look_up), self.found);
    }
}

impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, H> {
    /// What `out` makes of the value of a key.
    #[inline]
    pub fn get<R>(&self, key: &[u8], out: impl FnOnce(u64) -> R) -> Option<R> {
        let guard = &self.store.pin();
        let found = self.search.run(Get {
            tree: self,
            key,
            guard,
        });
        found.map(out)
    }

    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
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

    /// What `out` makes of the value of a key, yielding at each node.
    pub async fn get_async<R>(&self, key: &[u8], out: impl FnOnce(u64) -> R) -> Option<R> {
        let guard = self.store.pin();
        let lookup = Lookup::<_, _, _, true, _>::new(self, key, &guard, self.search);
        match H::IN_BLOCKS {
            true => Yielding(Fetched::new(self.memory(), lookup)).await,
            false => Yielding(lookup).await,
        }
        .map(out)
    }
}
