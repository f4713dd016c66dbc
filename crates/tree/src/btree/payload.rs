//! What the payloads of a tree's leaves are: words and nothing else, or links to what lies beside
//! and below the leaves.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::node::{Lead, LeafEntry, Node};
use super::tree::Tree;
use crate::Word;
use crate::cache::RecordCache;
use crate::value::{Loan, Represent};

/// Tells the core of the tree what hangs below its leaves.
pub trait Payload: Send + Sync + 'static {
    /// Whether there are layers. Where not, code for them is compiled out.
    const LINKS: bool;

    /// How values are stored.
    type Values: Represent;

    /// Whether values lie in blocks of their own.
    const VALUES: bool = Self::Values::IN_BLOCKS;

    /// Whether values' words own anything: they are retired.
    const RETIRES: bool = Self::Values::DISPOSE.is_some();

    /// Whether single records may have copies in fast memory
    /// ([`RecordCache`](crate::cache::RecordCache)).
    const CACHED: bool;

    /// Whether anything lies beside the leaves.
    const BLOCKS: bool = Self::LINKS || Self::VALUES;

    /// What an entry leads to, if that is more than a value.
    fn lead<const WORDS: usize>(entry: LeafEntry<'_, WORDS>) -> Option<Lead<'_, WORDS>>;

    /// The words of a path that these bytes of a key are.
    fn path(bytes: &[u8]) -> Vec<u8>;

    /// The value of an entry, if it is a record.
    #[inline(always)]
    fn value<const WORDS: usize>(entry: LeafEntry<'_, WORDS>) -> Option<Loan<'_>> {
        match Self::lead(entry) {
            None => Some(entry.value()),
            Some(Lead::Record(record)) => Some(record.value()),
            Some(Lead::Layer(_) | Lead::Skip(_)) => None,
        }
    }

    /// Drops the copy of the record at an entry, if it is one, in a layer that `path` leads to.
    fn forget<const WORDS: usize>(
        cache: &RecordCache,
        path: &[u8],
        entry: LeafEntry<'_, WORDS>,
        guard: &Guard,
    );

    /// Calls `show` with the values of a tree that ends.
    fn each_value<M: Memory, const WORDS: usize>(
        tree: &Tree<M, WORDS, Self>,
        show: &mut dyn FnMut(Loan<'_>),
    ) where
        Self: Sized;

    /// The root of the layer below an entry.
    fn layer<const WORDS: usize>(entry: LeafEntry<'_, WORDS>) -> Option<&Node<WORDS>> {
        Self::lead(entry)?.root()
    }

    /// The root of the layer below an entry, if `path` continues into that layer, and the number of
    /// bytes of the path up to it.
    #[inline(always)]
    fn enter<'g, const WORDS: usize>(
        entry: LeafEntry<'g, WORDS>,
        path: &[u8],
    ) -> Option<(&'g Node<WORDS>, usize)> {
        match Self::lead(entry)? {
            Lead::Record(_) => None,
            Lead::Layer(root) => Some((root, 0)),
            Lead::Skip(skip) => {
                let skipped = Self::path(skip.bytes());
                path.starts_with(&skipped)
                    .then(|| (skip.root(), skipped.len()))
            }
        }
    }

    /// Appends the path from an entry to the layer below it.
    fn push_path<const WORDS: usize>(entry: LeafEntry<'_, WORDS>, path: &mut Vec<u8>) {
        path.extend_from_slice(&entry.key.to_be_bytes());
        if let Some(Lead::Skip(skip)) = Self::lead(entry) {
            path.extend(Self::path(skip.bytes()));
        }
    }
}

/// Values and nothing else: one tree, without layers.
pub struct Values<H>(PhantomData<H>);

/// Values that are words.
pub(crate) type Words = Values<Word>;

impl<H: Represent> Payload for Values<H> {
    type Values = H;

    const LINKS: bool = false;
    // A copy of a word that leads to a slow block would save half of the way at most.
    const CACHED: bool = !H::IN_BLOCKS;

    fn forget<const WORDS: usize>(
        cache: &RecordCache,
        _: &[u8],
        entry: LeafEntry<'_, WORDS>,
        guard: &Guard,
    ) {
        cache.forget(entry.key, guard);
    }

    fn each_value<M: Memory, const WORDS: usize>(
        tree: &Tree<M, WORDS, Self>,
        show: &mut dyn FnMut(Loan<'_>),
    ) {
        tree.scan(0, usize::MAX, |_, value| {
            show(value);
            ControlFlow::Continue(())
        });
    }

    #[inline(always)]
    fn lead<const WORDS: usize>(_: LeafEntry<'_, WORDS>) -> Option<Lead<'_, WORDS>> {
        None
    }

    fn path(_: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}
