//! An iterator over a range of the map.

use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use timberline_tier::Memory;

use super::Tree;
use crate::range::Records;
use crate::{ByteKey, Value};

/// An iterator over the records of a range, from both ends. See [`Masstree::range`](super::Masstree::range).
pub struct Range<K: ?Sized, V: Value, M: Memory, const WORDS: usize>(
    Records<K, V, Tree<M, WORDS, V::Kept>>,
);

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> Range<K, V, M, WORDS> {
    pub(super) fn new(
        tree: Arc<Tree<M, WORDS, V::Kept>>,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
    ) -> Self {
        Range(Records::new(tree, low, high))
    }

    /// Skips records from the front, up to the first with a key that is not less than `key`.
    pub fn seek(&mut self, key: &K) {
        self.0.seek(key);
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> Iterator
    for Range<K, V, M, WORDS>
{
    type Item = (K::Owned, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> DoubleEndedIterator
    for Range<K, V, M, WORDS>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> FusedIterator
    for Range<K, V, M, WORDS>
{
}
