//! What the suite asks of a map.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{KeyBytes, NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::Arenas;
use timberline_tree::{Error, OutOfMemory, Stats};

use super::arenas::CHUNK;

/// Inclusive, exclusive or no bounds at either end.
pub type Bounds = (Bound<u64>, Bound<u64>);

/// The only thing that an insert of a short key may be refused for.
pub fn full(error: Error) -> OutOfMemory {
    match error {
        Error::OutOfMemory(full) => full,
        other => panic!("{other}"),
    }
}

/// These records as a map of the standard library.
///
/// `collect` would compile its sort again for each iterator, and so for each test of each map.
pub fn as_model<K: Ord, V>(records: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    fn collected<K: Ord, V>(records: Vec<(K, V)>) -> BTreeMap<K, V> {
        records.into_iter().collect()
    }
    collected(records.into_iter().collect())
}

/// A concurrent ordered map from words to words, whose nodes live in arenas.
pub trait TestMap: Sized + Send + Sync {
    /// Bytes of a node; of a leaf, where they differ.
    const NODE_BYTES: usize;
    /// A power of two that divides all leaves' addresses, for what is kept of leaves by their
    /// address.
    const APART: usize = Self::NODE_BYTES;
    /// Records that make a few hundred leaves or more.
    const MANY: u64 = 25 * Self::NODE_BYTES as u64;
    /// Fast memory for about a quarter of these leaves, and for the many inner nodes that tiny ones
    /// need.
    const QUARTER: usize = {
        let leaves = (120 * Self::NODE_BYTES).next_multiple_of(CHUNK);
        if leaves > 11 * CHUNK {
            leaves
        } else {
            11 * CHUNK
        }
    };
    /// How many sizes nodes have; free memory among those of one is no room for another.
    const SIZES: usize = 1;
    /// Nodes of a map without records.
    const EMPTY_NODES: usize = 1;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error>;
    /// The name of the leaf that covers `key`.
    fn leaf_of(key: u64) -> NodeKey {
        NodeKey::of_word(key, 0)
    }
    /// The least key that a leaf with this fence covers, more or less.
    fn key_of(fence: &[u8]) -> u64 {
        KeyBytes::from(fence).word()
    }
    fn arenas(&self) -> &Arenas;
    fn domain(&self) -> &Domain;
    fn placed(&self) -> Arc<dyn Placed>;
    fn stats(&self) -> Stats;

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory>;
    fn update(&self, key: u64, value: u64) -> Option<u64>;
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>>;
    fn compare_and_set(&self, key: u64, expected: u64, new: u64) -> Result<(), Option<u64>> {
        let set = self.compare_exchange(key, Some(expected), Some(new));
        set.map(|before| assert_eq!(before, Some(expected)))
    }
    fn remove(&self, key: u64) -> Option<u64>;
    fn get(&self, key: u64) -> Option<u64>;
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]);
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)>;
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize;
    fn len(&self) -> usize;
    fn pop_first(&self) -> Option<(u64, u64)>;
    fn pop_last(&self) -> Option<(u64, u64)>;
    fn clear(&self);
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error>;

    /// All records, in order.
    fn all(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }
}
