//! Lookups with one more step: they prefetch the value's block before they read it. Words have no
//! block, and their lookups run as they are.

use std::task::Poll;

use timberline_tier::Memory;

use super::Loan;
use super::block::ValueBlock;
use super::representation::inner::Represent;
use crate::traverse::{Traversal, Yielding, interleave};

/// Runs lookups of words of values that are stored as `H` says, `depth` at a time, with their
/// blocks: see [`interleave`].
#[inline(always)]
pub(crate) fn fetch_each<'g, H: Represent, T: Traversal<Output = Option<Loan<'g>>>>(
    memory: &impl Memory,
    depth: usize,
    lookups: impl Iterator<Item = T>,
    found: impl FnMut(usize, Option<Loan<'g>>),
) {
    match H::IN_BLOCKS {
        true => interleave(depth, lookups.map(|it| Fetched::new(memory, it)), found),
        false => interleave(depth, lookups, found),
    }
}

/// Runs a lookup of a word of a value that is stored as `H` says, with its block, as a future.
pub(crate) async fn fetch<'g, H: Represent, T: Traversal<Output = Option<Loan<'g>>> + Unpin>(
    memory: &impl Memory,
    lookup: T,
) -> Option<Loan<'g>> {
    match H::IN_BLOCKS {
        true => Yielding(Fetched::new(memory, lookup)).await,
        false => Yielding(lookup).await,
    }
}

/// A lookup of a word, and then of the block that it refers to.
struct Fetched<'t, 'g, M, T> {
    memory: &'t M,
    lookup: T,
    /// The word found, once its block was prefetched.
    found: Option<Loan<'g>>,
}

impl<'t, M: Memory, T> Fetched<'t, '_, M, T> {
    fn new(memory: &'t M, lookup: T) -> Self {
        let found = None;
        Fetched {
            memory,
            lookup,
            found,
        }
    }
}

impl<'g, M: Memory, T: Traversal<Output = Option<Loan<'g>>>> Traversal for Fetched<'_, 'g, M, T> {
    type Output = Option<Loan<'g>>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Option<Loan<'g>>> {
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
