//! What the core of the B+tree needs to know about border nodes.

use std::marker::PhantomData;

use super::slice::path;
use crate::btree::node::{Entry, Lead};
use crate::btree::payload::Payload;
use crate::value::Represent;

/// Keys that are [slices](super::slice), and values that are stored as `H` says.
pub struct Slices<H>(PhantomData<H>);

impl<H: Represent> Payload for Slices<H> {
    const LINKS: bool = true;
    const CACHED: bool = false;
    const VALUES: bool = H::IN_BLOCKS;

    #[inline(always)]
    fn lead<const WORDS: usize>(entry: Entry<'_, WORDS>) -> Option<Lead<'_, WORDS>> {
        entry.lead()
    }

    fn path(bytes: &[u8]) -> Vec<u8> {
        path(bytes)
    }
}
