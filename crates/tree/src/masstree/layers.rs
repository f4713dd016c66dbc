//! The payload of border nodes, for the core of the B+tree.

use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::slice::{key_before, path, push_bytes};
use crate::btree::node::{Lead, LeafEntry};
use crate::btree::payload::Payload;
use crate::btree::tree::Tree;
use crate::cache::RecordCache;
use crate::range::{Ordered, Way};
use crate::value::{Loan, Represent};

/// Keys are [slices](super::slice), and `H` represents the values.
pub struct Slices<H>(PhantomData<H>);

impl<H: Represent> Payload for Slices<H> {
    type Values = H;

    const LINKS: bool = true;
    // As in the B+tree.
    const CACHED: bool = !H::IN_BLOCKS;

    fn forget<const WORDS: usize>(
        cache: &RecordCache,
        path: &[u8],
        entry: LeafEntry<'_, WORDS>,
        guard: &Guard,
    ) {
        let lead = entry.lead();
        if lead.and_then(Lead::root).is_some() {
            return;
        }
        let mut key = key_before(path);
        push_bytes(entry.key, &mut key);
        if let Some(Lead::Record(record)) = lead {
            key.extend_from_slice(record.bytes());
        }
        cache.forget(&key[..], guard);
    }

    fn each_value<M: Memory, const WORDS: usize>(
        tree: &Tree<M, WORDS, Self>,
        show: &mut dyn FnMut(Loan<'_>),
    ) {
        tree.walk(Way::Forward, Bound::Unbounded, usize::MAX, |_, value| {
            show(value);
            ControlFlow::Continue(())
        });
    }

    #[inline(always)]
    fn lead<const WORDS: usize>(entry: LeafEntry<'_, WORDS>) -> Option<Lead<'_, WORDS>> {
        entry.lead()
    }

    fn path(bytes: &[u8]) -> Vec<u8> {
        path(bytes)
    }
}
