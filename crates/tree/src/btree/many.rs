//! Many lookups that overlap, so that the memory's latencies do not add up: in a ring of a given depth, or as
//! futures that an executor interleaves. Both run the lookup of [`descent`](super::descent).

use timberline_sync::epoch;
use timberline_tier::Memory;

use super::descent::{LATER, Lookup};
use super::tree::Tree;
use crate::traverse::{Yielding, interleave};

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// Gives `found` each key's position and value, `depth` lookups at a time.
    pub fn get_each(
        &self,
        keys: impl Iterator<Item = u64>,
        depth: usize,
        found: impl FnMut(usize, Option<u64>),
    ) {
        let guard = epoch::pin();
        let lookups = keys.map(|key| Lookup::<_, _, LATER>::new(self, key, &guard));
        interleave(depth, lookups, found);
    }

    /// The value of a key, yielding at each node.
    pub async fn get_async(&self, key: u64) -> Option<u64> {
        let guard = epoch::pin();
        Yielding(Lookup::<_, _, LATER>::new(self, key, &guard)).await
    }
}
