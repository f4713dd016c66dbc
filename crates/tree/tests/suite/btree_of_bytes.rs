//! The B+tree over byte strings as the suite sees it: of any length, and of words that are written
//! as strings.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{BTree, Error, Key, OutOfMemory, Stats};

use crate::suite::TestMap;
use crate::suite::map::{Bounds, full};

/// Words of the smallest node, 256 bytes: some eight entries.
pub const NODE_128: usize = 12;

/// A word as a string of eight bytes, which says nothing of its length, so that it is no word to a
/// map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Text(pub u64);

impl Key for Text {
    type Borrowed = Text;
    type Owned = u64;
    type Bytes<'a> = [u8; 8];

    fn to_bytes(&self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
    fn from_bytes(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
    }
}

pub type Map<const WORDS: usize> = BTree<Text, u64, Native, WORDS>;

/// Bounds of texts.
pub fn texts((low, high): Bounds) -> (Bound<Text>, Bound<Text>) {
    (low.map(Text), high.map(Text))
}

impl<const WORDS: usize> TestMap for Map<WORDS> {
    const NODE_BYTES: usize = Self::NODE_BYTES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        BTree::in_memory(Native(arenas), placement)
    }
    fn arenas(&self) -> &Arenas {
        self.memory().arenas()
    }
    fn domain(&self) -> &Domain {
        self.domain()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.placed()
    }
    fn stats(&self) -> Stats {
        self.stats()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        self.insert(&Text(key), value).map_err(full)
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        self.update(&Text(key), value)
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let set = self.compare_exchange(&Text(key), current, new);
        set.expect("there is room")
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&Text(key))
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&Text(key))
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let keys: Vec<Text> = keys.iter().copied().map(Text).collect();
        self.get_many(&keys, values);
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.range(texts(bounds))
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.scan(&Text(from), limit, visit)
    }
    fn len(&self) -> usize {
        self.len()
    }
    fn pop_first(&self) -> Option<(u64, u64)> {
        self.pop_first()
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        self.pop_last()
    }
    fn clear(&self) {
        self.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        let texts = sorted.into_iter().map(|(key, value)| (Text(key), value));
        self.bulk_load(texts)
    }
}
