//! Lookups with one more step: they prefetch the value's block before they read it.

use std::task::Poll;

use timberline_tier::Memory;

use super::block::ValueBlock;
use crate::traverse::Traversal;

/// A lookup of a word, and then of the block that it refers to.
pub(crate) struct Fetched<'t, M, T> {
    memory: &'t M,
    lookup: T,
    /// The word found, once its block was prefetched.
    found: Option<u64>,
}

impl<'t, M: Memory, T: Traversal<Output = Option<u64>>> Fetched<'t, M, T> {
    pub fn new(memory: &'t M, lookup: T) -> Self {
        let found = None;
        Fetched {
            memory,
            lookup,
            found,
        }
    }
}

impl<M: Memory, T: Traversal<Output = Option<u64>>> Traversal for Fetched<'_, M, T> {
    type Output = Option<u64>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<u64>> {
        if self.found.is_some() {
            return Poll::Ready(self.found);
        }
        let Poll::Ready(found) = self.lookup.step() else {
            return Poll::Pending;
        };
        let Some(block) = found.and_then(ValueBlock::of) else {
            return Poll::Ready(found);
        };
        block.prefetch(self.memory);
        self.found = found;
        Poll::Pending
    }
}
