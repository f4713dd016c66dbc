//! An iterator over a range of the map.

use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use timberline_tier::Memory;

use super::node::Reach;
use super::tree::Tree;
use crate::range::Records;
use crate::{ByteKey, Value};

/// An iterator over the records of a range, from both ends. See [`Art::range`](super::Art::range).
pub struct Range<K: ?Sized, V: Value, M: Memory, R: Reach>(Records<K, V, Tree<M, R>>);

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> Range<K, V, M, R> {
    pub(super) fn new(tree: Arc<Tree<M, R>>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Range(Records::new(tree, low, high))
    }

    /// Skips records from the front, up to the first with a key that is not less than `key`.
    pub fn seek(&mut self, key: &K) {
        self.0.seek(key);
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> Iterator for Range<K, V, M, R> {
    type Item = (K::Owned, V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> DoubleEndedIterator for Range<K, V, M, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> FusedIterator for Range<K, V, M, R> {}
