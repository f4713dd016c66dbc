//! What the core of the B+tree needs to know about border nodes.

use std::marker::PhantomData;

use timberline_sync::epoch::Pinned;
use timberline_tier::Arenas;

use super::slice::{Lead, SLICE, has_more, path};
use crate::btree::node::{Block, Body, Link};
use crate::btree::payload::Payload;
use crate::value::Represent;

/// Payloads as [`slice`](super::slice) describes them, of values that are stored as `H` says.
pub struct Slices<H>(PhantomData<H>);

/// What an entry leads to, if that is more than a value.
#[inline(always)]
fn lead(key: u64, payload: u64) -> Option<Lead> {
    has_more(key).then(|| Lead::of(payload))
}

impl<H: Represent> Payload for Slices<H> {
    const LINKS: bool = true;
    const CACHED: bool = false;
    const VALUES: bool = H::IN_BLOCKS;

    fn layer(key: u64, payload: u64) -> Option<Link> {
        match lead(key, payload)? {
            Lead::Record(_) => None,
            Lead::Layer(root) => Some(root),
            Lead::Skip(skip) => Some(Link::from_word(skip.word())),
        }
    }

    fn enter(key: u64, payload: u64, on: &[u8], pinned: Pinned<'_>) -> Option<(Link, usize)> {
        match lead(key, payload)? {
            Lead::Record(_) => None,
            Lead::Layer(root) => Some((root, 0)),
            Lead::Skip(skip) => {
                let skipped = path(skip.bytes(pinned));
                on.starts_with(&skipped)
                    .then(|| (Link::from_word(skip.word()), skipped.len()))
            }
        }
    }

    fn lead(key: u64, payload: u64, to: &mut Vec<u8>, pinned: Pinned<'_>) {
        to.extend_from_slice(&key.to_be_bytes());
        if let Some(Lead::Skip(skip)) = lead(key, payload) {
            to.extend(path(skip.bytes(pinned)));
        }
    }

    fn with_root(payload: u64, root: Link) -> u64 {
        match Lead::of(payload) {
            Lead::Skip(skip) => {
                skip.set_word(root.to_word());
                payload
            }
            _ => Lead::Layer(root).payload(),
        }
    }

    fn block(key: u64, payload: u64) -> Option<Block> {
        match lead(key, payload)? {
            Lead::Record(block) | Lead::Skip(block) => Some(block),
            Lead::Layer(_) => None,
        }
    }

    fn with_block(payload: u64, block: Block) -> u64 {
        match Lead::of(payload) {
            Lead::Skip(_) => Lead::Skip(block).payload(),
            _ => Lead::Record(block).payload(),
        }
    }

    fn value(key: u64, payload: u64) -> Option<u64> {
        match lead(key, payload) {
            None => Some(payload),
            Some(Lead::Record(record)) => Some(record.word()),
            Some(Lead::Layer(_) | Lead::Skip(_)) => None,
        }
    }

    fn with_value(key: u64, payload: u64, value: u64) -> u64 {
        match lead(key, payload) {
            Some(Lead::Record(record)) => {
                record.set_word(value);
                payload
            }
            _ => value,
        }
    }

    fn path<'g, const WORDS: usize>(arenas: &Arenas, node: &'g Body<WORDS>) -> &'g [u8] {
        Block::path_of(arenas, node)
    }

    fn guess_path(arenas: &Arenas, layer: u32) -> Option<Vec<u8>> {
        match Block::named(arenas, layer) {
            None => Some(Vec::new()),
            Some(name) => Block::guess(name.address(), arenas.look(name.address()).end)
                .filter(|path| path.len().is_multiple_of(SLICE + 1)),
        }
    }

    fn name(arenas: &Arenas, layer: u32) -> Option<Block> {
        Block::named(arenas, layer)
    }
}
