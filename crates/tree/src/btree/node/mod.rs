//! A node of the B+tree: a header and sorted entries of two words.
//!
//! Layout in bytes, for `WORDS` body words (`docs/design/btree.md` has the picture):
//!
//! ```text
//!  0  version word        8  count u8 · height u8 · heat u16 · layer u32
//! 16  lower fence        24  upper fence (both inclusive)
//! 32  keys[WORDS / 2], ascending      32 + 4·WORDS  payloads[WORDS / 2]
//! ```
//!
//! `layer` identifies a node's tree where there are many: 0 is the only one, or the topmost. Where
//! records have copies there is only one, and the word has the marks of stale records.
//!
//! A leaf's entries are records. An inner node's entries are (lower fence, address) of its
//! children, the first key being its own lower fence, so one search and one set of shifts serve
//! both.
//!
//! Invariants, while unlocked: keys ascend strictly and lie within the fences; after the last one,
//! up to the capacity, lies the greatest number; an inner node has at least one child, and its
//! children's fences tile its own. Everything is an atomic word, so reading a node while it changes
//! is a race of values, not of memory; [`Versioned`] discards what was read then. Every index here
//! is clamped to the capacity, because a torn count may be anything.
#![allow(unsafe_code)]

mod block;
mod fresh;
mod guess;
mod lead;
mod link;
pub mod page;
mod parent;
mod search;
#[cfg(test)]
mod tests;
mod value;
mod write;

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Exclusive, Versioned};

pub use block::{Block, Name};
pub use fresh::{Fresh, Unlinked};
pub use guess::{Lines, Share};
pub use lead::{Below, Lead, LeafEntry, MORE, Record, Skip, has_more};
pub use link::{LeafView, Link, Root, View};
pub use parent::LockedParent;
use search::{GROUP, leading_lanes};
pub use search::{Lanes, Search, WINDOW, Work};
pub use write::Write;

/// Bytes of the header.
pub const HEADER: usize = 32;

/// The key of an empty entry, so that a search need not know the number of entries.
const EMPTY: u64 = u64::MAX;

/// In debug builds, the payload of an empty entry: it looks like the root of a layer in fast
/// memory, at an address without a node.
const POISON: u64 = 0x0bad_0bad_0bad;

/// A node behind its optimistic lock; `32 + 8 × WORDS` bytes, a power of two.
pub type Node<const WORDS: usize> = Versioned<Body<WORDS>>;

/// The part that the lock guards.
#[repr(C)]
#[derive(Debug)]
pub struct Body<const WORDS: usize> {
    count: AtomicU8,
    height: AtomicU8,
    heat: AtomicU16,
    layer: AtomicU32,
    lower: AtomicU64,
    upper: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The index of an entry of the node that was searched, which has more entries than that unless the
/// read fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit<'b>(usize, PhantomData<&'b ()>);

impl Hit<'_> {
    /// The index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0
    }
}

/// The only writer of a node.
pub type LockedNode<'g, const WORDS: usize> = Exclusive<'g, Body<WORDS>>;

/// The address of a node.
#[inline(always)]
pub fn address<T>(node: &Versioned<T>) -> usize {
    std::ptr::from_ref(node) as usize
}

impl<const WORDS: usize> Body<WORDS> {
    /// The most entries a node holds.
    pub const CAPACITY: usize = WORDS / 2;
    /// The words that a search reads: the keys, and two more.
    const SLOTS: usize = {
        let slots = Self::CAPACITY + 2;
        assert!(slots.is_power_of_two() && slots >= GROUP && slots <= WORDS);
        slots
    };
    /// The size of a node in bytes.
    pub const BYTES: usize = {
        let bytes = HEADER + 8 * WORDS;
        assert!(bytes == size_of::<Node<WORDS>>());
        assert!(bytes.is_power_of_two() && Self::CAPACITY <= u8::MAX as usize);
        // Ascending input would leave inner nodes of one child if two were the most: a tower.
        assert!(WORDS >= 12, "a node needs at least 128 bytes");
        bytes
    };

    /// Entries in use.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (self.count.load(Relaxed) as usize).min(Self::CAPACITY)
    }

    /// The number of entries, unless it is torn. Callers clamp the index that they compute from it:
    /// clamping once is cheaper than here.
    #[inline(always)]
    fn raw_count(&self) -> usize {
        self.count.load(Relaxed).into()
    }

    /// The height above the leaves.
    #[inline(always)]
    pub fn height(&self) -> u8 {
        self.height.load(Relaxed)
    }

    /// The tree of this node. It never changes while the node lives.
    #[inline(always)]
    pub fn layer(&self) -> u32 {
        self.layer.load(Relaxed)
    }

    /// The marks of this leaf's records that may have newer values in dirty copies; in a tree with
    /// a [record cache](crate::cache).
    #[inline(always)]
    pub fn stale(&self) -> u32 {
        self.layer()
    }

    /// The least key that may be below this node.
    #[inline(always)]
    pub fn lower(&self) -> u64 {
        self.lower.load(Relaxed)
    }

    /// The greatest key that may be below this node.
    #[inline(always)]
    pub fn upper(&self) -> u64 {
        self.upper.load(Relaxed)
    }

    /// Whether `key` lies within the fences.
    pub fn covers(&self, key: u64) -> bool {
        (self.lower()..=self.upper()).contains(&key)
    }

    /// Two bytes for a placement's heat; not version-guarded.
    pub fn heat(&self) -> &AtomicU16 {
        &self.heat
    }

    /// The key of an entry.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        self.words[index.min(Self::CAPACITY - 1)].load(Relaxed)
    }

    /// For a split for this key: the number of entries that stay in the left half of a full node,
    /// and the first key of the right one. A run of ascending keys at the tree's end leaves full
    /// nodes. (Without a lock the node may be in any state, also empty.)
    pub fn split_point(&self, key: u64) -> (usize, u64) {
        let count = self.count();
        let last = count.saturating_sub(1);
        let ascending = self.upper() == u64::MAX && key > self.key(last);
        match (ascending, self.height()) {
            (true, 0) => (count, key),
            (true, _) => (last, self.key(last)),
            (false, _) => (count / 2, self.key(count / 2)),
        }
    }

    /// The payload of an entry: a record's value, or a child's link.
    #[inline(always)]
    fn payload(&self, index: usize) -> u64 {
        self.words[Self::CAPACITY + index.min(Self::CAPACITY - 1)].load(Relaxed)
    }

    /// The entries in a range of indices, up to the last.
    #[inline(always)]
    fn entries(&self, range: Range<usize>) -> impl Iterator<Item = (u64, u64)> {
        let end = range.end.min(self.count());
        let start = range.start.min(end);
        let (keys, payloads) = self.words.split_at(Self::CAPACITY);
        let entries = keys[start..end].iter().zip(&payloads[start..end]);
        entries.map(|(key, payload)| (key.load(Relaxed), payload.load(Relaxed)))
    }

    /// The byte offset of a payload from the node's start.
    #[inline(always)]
    pub fn payload_offset(index: usize) -> usize {
        HEADER + 8 * (Self::CAPACITY + index)
    }

    /// The address of the child at `index`.
    #[inline(always)]
    pub fn child_address(&self, index: usize) -> usize {
        self.payload(index) as usize
    }

    /// The number of keys that are not greater than `key`.
    #[inline(always)]
    fn count_to(&self, search: impl Lanes, key: u64) -> usize {
        // A search reads two payloads if all keys count, and the keys of empty entries if `key` is
        // the greatest number.
        let to = search.count_to(&self.words, Self::SLOTS, key);
        to.min(self.raw_count()).min(Self::CAPACITY)
    }

    /// The number of keys that are less than `key`.
    #[inline(always)]
    pub fn rank(&self, search: impl Lanes, key: u64) -> usize {
        match key.checked_sub(1) {
            Some(before) => self.count_to(search, before),
            None => 0,
        }
    }

    /// The record's index, or the index at which it would be inserted.
    #[inline(always)]
    pub fn find(&self, search: impl Lanes, key: u64) -> Result<Hit<'_>, usize> {
        self.entry_at(self.rank(search, key), key)
    }

    /// The first key of the window in which a guess expects the key.
    #[inline(always)]
    pub fn window_of(&self, share: Share) -> usize {
        Self::window(share.slot(self.raw_count())).min(WORDS.saturating_sub(WINDOW))
    }

    /// The record's index, searching only the window of at most `CAPACITY` keys from `first` on.
    #[inline(always)]
    pub fn find_near(&self, search: impl Lanes, key: u64, first: usize) -> Option<Hit<'_>> {
        let equal = search.equal(self.window_at(first), key);
        let index = first + equal.trailing_zeros() as usize;
        (equal != 0 && index < self.raw_count()).then_some(Hit(index, PhantomData))
    }

    /// As [`rank`](Self::rank), searching only the window of at most `CAPACITY` keys from `first`
    /// on.
    ///
    /// # Errors
    /// The index is below the window (`Less`), or above it (`Greater`).
    #[inline(always)]
    pub fn rank_near(&self, search: impl Lanes, key: u64, first: usize) -> Result<usize, Ordering> {
        let count = self.count();
        let less = match key.checked_sub(1) {
            Some(before) => leading_lanes(!search.greater(self.window_at(first), before), WINDOW),
            None => 0,
        };
        let index = first + less;
        if less == 0 && first > 0 {
            Err(Ordering::Less)
        } else if less == WINDOW && index < count {
            Err(Ordering::Greater)
        } else {
            Ok(index.min(count))
        }
    }

    /// The keys from `first` on. Payloads follow them.
    #[inline(always)]
    fn window_at(&self, first: usize) -> &[AtomicU64; WINDOW] {
        let words = &self.words[first.min(WORDS.saturating_sub(WINDOW))..];
        words.first_chunk().expect("it ends in the node")
    }

    /// Whether the entry at `index`, the first whose key is not less, has this key.
    #[inline(always)]
    pub fn entry_at(&self, index: usize, key: u64) -> Result<Hit<'_>, usize> {
        if index < self.count() && self.key(index) == key {
            Ok(Hit(index, PhantomData))
        } else {
            Err(index)
        }
    }

    /// The lowest and the greatest key that may be below the child at `index`.
    #[inline(always)]
    pub fn range_of(&self, index: usize) -> (u64, u64) {
        let above = index + 1;
        let upper = if above < self.raw_count() {
            self.key(above).wrapping_sub(1)
        } else {
            self.upper()
        };
        (self.key(index), upper)
    }

    /// The index of the child that covers `key`.
    #[inline(always)]
    pub fn child_for(&self, search: impl Lanes, key: u64) -> usize {
        self.count_to(search, key).saturating_sub(1)
    }
}
