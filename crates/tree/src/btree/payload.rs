//! What the payloads of a tree's leaves are: words and nothing else, or links to what lies beside
//! and below the leaves.

use std::marker::PhantomData;

use timberline_sync::epoch::Pinned;
use timberline_tier::Arenas;

use super::node::{Block, Body, Link};
use crate::Word;
use crate::value::Represent;

/// Tells the core of the tree what hangs below its leaves. Everything here is asked for entries
/// that were read under a lock or validated, so that links may be followed.
pub trait Payload: Send + Sync + 'static {
    /// Whether there are layers. Where not, code for them is compiled out.
    const LINKS: bool;

    /// Whether values lie in blocks of their own.
    const VALUES: bool;

    /// Whether single records may have copies in fast memory
    /// ([`RecordCache`](crate::cache::RecordCache)).
    const CACHED: bool;

    /// Whether anything lies beside the leaves.
    const BLOCKS: bool = Self::LINKS || Self::VALUES;

    /// The root of the layer below an entry.
    fn layer(key: u64, payload: u64) -> Option<Link>;

    /// The root of the layer below an entry, if that is on the way that `path` goes on with, and
    /// how many bytes of the path lead there.
    fn enter(key: u64, payload: u64, path: &[u8], pinned: Pinned<'_>) -> Option<(Link, usize)>;

    /// Appends what leads from an entry to the layer below it.
    fn lead(key: u64, payload: u64, path: &mut Vec<u8>, pinned: Pinned<'_>);

    /// The payload when another node has become the layer's root. The leaf is locked.
    fn with_root(payload: u64, root: Link) -> u64;

    /// The block that belongs to an entry: it lies in the leaf's tier, or a slower one.
    fn block(key: u64, payload: u64) -> Option<Block>;

    /// The payload when the block has gone elsewhere.
    fn with_block(payload: u64, block: Block) -> u64;

    /// The value of an entry, if it is a record.
    fn value(key: u64, payload: u64) -> Option<u64>;

    /// The payload when the value has become another word. The leaf is locked.
    fn with_value(key: u64, payload: u64, value: u64) -> u64;

    /// The words that lead to a node's layer. Empty for the topmost one.
    fn path<'g, const WORDS: usize>(arenas: &Arenas, node: &'g Body<WORDS>) -> &'g [u8];

    /// The path of the layer that a node seems to belong to of which nothing is known.
    fn guess_path(arenas: &Arenas, layer: u32) -> Option<Vec<u8>>;

    /// The block that holds a layer's path.
    fn name(arenas: &Arenas, layer: u32) -> Option<Block>;
}

/// Values and nothing else: one tree, without layers.
pub struct Values<H>(PhantomData<H>);

/// Values that are words.
pub(crate) type Words = Values<Word>;

impl<H: Represent> Payload for Values<H> {
    const LINKS: bool = false;
    const VALUES: bool = H::IN_BLOCKS;
    // A copy of a word that leads to a slow block would save half of the way at most.
    const CACHED: bool = !H::IN_BLOCKS;

    #[inline(always)]
    fn layer(_: u64, _: u64) -> Option<Link> {
        None
    }

    #[inline(always)]
    fn enter(_: u64, _: u64, _: &[u8], _: Pinned<'_>) -> Option<(Link, usize)> {
        None
    }

    fn lead(_: u64, _: u64, _: &mut Vec<u8>, _: Pinned<'_>) {}

    #[inline(always)]
    fn with_root(payload: u64, _: Link) -> u64 {
        payload
    }

    #[inline(always)]
    fn block(_: u64, _: u64) -> Option<Block> {
        None
    }

    #[inline(always)]
    fn with_block(payload: u64, _: Block) -> u64 {
        payload
    }

    #[inline(always)]
    fn value(_: u64, payload: u64) -> Option<u64> {
        Some(payload)
    }

    #[inline(always)]
    fn with_value(_: u64, _: u64, value: u64) -> u64 {
        value
    }

    #[inline(always)]
    fn path<'g, const WORDS: usize>(_: &Arenas, _: &'g Body<WORDS>) -> &'g [u8] {
        &[]
    }

    fn guess_path(_: &Arenas, _: u32) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn name(_: &Arenas, _: u32) -> Option<Block> {
        None
    }
}
