//! Many lookups that overlap, so that the memory's latencies do not add up: in a ring of a given
//! depth, or as futures that an executor interleaves. Both run the lookup of
//! [`descent`](super::descent).

use timberline_tier::Memory;

use super::descent::Lookup;
use super::node::{Lanes, Work};
use super::payload::Values;
use super::tree::Tree;
use crate::traverse::{Yielding, interleave};
use crate::value::{Fetched, Keep};

/// Looks up many keys.
struct Each<'t, M: Memory, const WORDS: usize, H: Keep, K, F> {
    tree: &'t Tree<M, WORDS, Values<H>>,
    keys: K,
    depth: usize,
    found: F,
}

impl<M, const WORDS: usize, H, K, F> Work for Each<'_, M, WORDS, H, K, F>
where
    M: Memory,
    H: Keep,
    K: Iterator<Item = u64>,
    F: FnMut(usize, Option<u64>),
{
    type Output = ();

    #[inline(always)]
    fn run(self, lanes: impl Lanes) {
        let guard = self.tree.store.pin();
        let look_up = |key| Lookup::new(self.tree, key, &guard, lanes);
        if H::IN_BLOCKS {
            let memory = self.tree.memory();
            let look_up = |key| Fetched::new(memory, look_up(key));
            return interleave(self.depth, self.keys.map(look_up), self.found);
        }
        interleave(self.depth, self.keys.map(look_up), self.found);
    }
}

impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, Values<H>> {
    /// Gives `found` each key's position and value, `depth` lookups at a time. It is called with
    /// the thread pinned.
    pub fn get_each(
        &self,
        keys: impl Iterator<Item = u64>,
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
    pub async fn get_async<R>(&self, key: u64, out: impl FnOnce(u64) -> R) -> Option<R> {
        let guard = self.store.pin();
        let lookup = Lookup::new(self, key, &guard, self.search);
        match H::IN_BLOCKS {
            true => Yielding(Fetched::new(self.memory(), lookup)).await,
            false => Yielding(lookup).await,
        }
        .map(out)
    }
}
