//! A node of the B+tree of byte strings: a page of slots that are sorted by their keys.
//!
//! Layout in bytes, for `WORDS` (`docs/design/btree-strings.md` has the picture):
//!
//! ```text
//!  0  version word      8  heat u16 · height u16 · - u32
//! 16  shape: count u16 · cap u16 · heap u16 · dead u16
//! 24  fences: prefix u16 · lower u16 · upper u16 · skip u16
//! 32  prints u8[cap] · offsets u16[cap] · heads u32[cap] · payloads u64[cap] · gap · heap
//! ```
//!
//! A key has three parts. The *prefix* is what both fences begin with; it is stored in the lower
//! fence alone. The *head* is the next four bytes, as a number, with zeros for those that the key
//! lacks. The rest is in the heap, which grows downwards from the page's end:
//!
//! ```text
//! record  length of the key without the prefix, up to INLINE · the bytes after the head
//! child   length of the key without the prefix, up to INLINE · these bytes, the head's too
//!         LONG · the word of a block that holds the whole key
//! fence   length, up to INLINE · its bytes
//!         LONG · the word of a block
//! ```
//!
//! A *print* is a byte of a hash of the whole key: a lookup compares those 64 at a time, and
//! then most often one key. A search for an order goes by heads, and compares keys where heads are
//! equal.
//!
//! A leaf's entries are records. An inner node's are its children, with their lower fences as keys;
//! so the first one's is the node's own.
//!
//! In an inner node, *skip* is a number of bytes beyond the prefix that all keys but the first
//! begin with, and a head is what follows them. The root and the nodes at the tree's ends have no
//! prefix, as no fence bounds them, and keys such as `user:1234` would all have the same head
//! there. Skip is 0 where one of those keys is in a block.
//!
//! Invariants, while unlocked: keys ascend strictly and lie within the fences, of which the upper
//! one is exclusive (0: there is none); an inner node has at least one child, and its children's
//! fences tile its own. The page is an array of atomic words, and nothing in it is read or written
//! but by words (prints are compared by vectors, `node/racing.rs` tells why): reading a node while
//! it changes is a race of values, not of memory. Every index is clamped, because what a torn read
//! returns may be anything.
#![allow(unsafe_code)]

mod append;
mod blocks;
mod cut;
mod fresh;
mod halves;
mod link;
mod long;
mod records;
mod search;
mod skip;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Exclusive, Versioned};

pub use blocks::Place;
pub use cut::Cut;
pub use fresh::{Fresh, LockedParent, Unlinked};
pub use halves::Shares;
pub use link::{LeafView, Link, Root, View};
use long::Long;
pub use long::LongKeys;
pub use records::Copied;
pub use search::{Aim, Sought};
use text::Text;

/// Bytes before the slots.
pub const HEADER: usize = 32;

/// A page is this many times as long as a node of words with the same `WORDS`.
const FOLD: usize = 2;
/// Words that make up for the headers that it has not.
const EXTRA: usize = (FOLD - 1) * HEADER / 8;

/// Bytes of a slot: print, offset, head and payload.
const SLOT: usize = 1 + 2 + 4 + 8;
/// Slots come and go by so many, as many prints as fit a word.
const GRAIN: usize = 8;
/// Bytes of a head.
const HEAD: usize = 4;
/// The first byte of an entry whose key is in a block.
const LONG: u8 = u8::MAX;
/// Bytes in the heap of a key that is in a block.
const LONG_BYTES: usize = 1 + size_of::<u64>();

/// A node behind its optimistic lock; a power of two of bytes.
pub type Node<const WORDS: usize> = Versioned<Page<WORDS>>;

/// The only writer of a node.
pub type LockedNode<'g, const WORDS: usize> = Exclusive<'g, Page<WORDS>>;

/// The address of a node.
#[inline(always)]
pub fn address<T>(node: &Versioned<T>) -> usize {
    std::ptr::from_ref(node).addr()
}

/// The part that the lock guards.
#[repr(C)]
#[derive(Debug)]
pub struct Page<const WORDS: usize> {
    heat: AtomicU16,
    height: AtomicU16,
    _unused: AtomicU32,
    shape: AtomicU64,
    fences: AtomicU64,
    first: [AtomicU64; EXTRA],
    others: [[AtomicU64; WORDS]; FOLD],
}

/// How much of a page is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    /// Entries.
    count: usize,
    /// Slots, a multiple of [`GRAIN`].
    cap: usize,
    /// The byte where the heap begins.
    heap: usize,
    /// Bytes in the heap that nothing refers to.
    dead: usize,
}

/// Where the fences are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fences {
    /// The number of bytes that both begin with.
    prefix: usize,
    /// Offsets in the heap; 0: the empty string.
    lower: usize,
    /// 0: none.
    upper: usize,
    /// In an inner node, the bytes between the prefix and the heads.
    skip: usize,
}

/// Four numbers of 16 bits in a word.
#[inline(always)]
fn quarters(word: u64) -> [usize; 4] {
    let quarter = |shift: u32| (word >> shift) as usize & 0xffff;
    [quarter(0), quarter(16), quarter(32), quarter(48)]
}

#[inline(always)]
fn of_quarters(quarters: [usize; 4]) -> u64 {
    debug_assert!(quarters.iter().all(|&it| it <= 0xffff));
    let [a, b, c, d] = quarters;
    (a | b << 16 | c << 32 | d << 48) as u64
}

/// Bytes of all slots for so many entries.
#[inline(always)]
const fn slots(count: usize) -> usize {
    count.next_multiple_of(GRAIN) * SLOT
}

impl<const WORDS: usize> Page<WORDS> {
    /// Words of slots and heap.
    const LEN: usize = EXTRA + FOLD * WORDS;
    /// Bytes of them.
    const AREA: usize = 8 * Self::LEN;
    /// The most slots.
    pub const MOST: usize = Self::AREA / SLOT / GRAIN * GRAIN;
    /// The size of a node in bytes.
    pub const BYTES: usize = {
        let bytes = HEADER + Self::AREA;
        assert!(bytes == size_of::<Node<WORDS>>() && bytes.is_power_of_two());
        assert!(bytes >= 256 && bytes <= 1 << 15);
        bytes
    };
    /// The longest key in a page, without the prefix, and the longest fence. So that a page holds
    /// five records or four children at least, whatever their lengths.
    pub const INLINE: usize = if Self::BYTES / 16 < 250 {
        Self::BYTES / 16
    } else {
        250
    };

    /// All slots, and the heap.
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        let first = std::ptr::from_ref(self).cast::<AtomicU64>();
        // SAFETY: a page is `repr(C)` and made of words and of three numbers that make one, so that
        // its arrays follow each other; the pointer is one to the whole page.
        unsafe { std::slice::from_raw_parts(first.add(HEADER / 8 - 1), Self::LEN) }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words()[index.min(Self::LEN - 1)].load(Relaxed)
    }

    /// Eight bytes from any byte on, the first one lowest.
    #[inline(always)]
    fn eight(&self, at: usize) -> u64 {
        let (index, shift) = (at / 8, at as u32 % 8 * 8);
        self.word(index) >> shift | self.word(index + 1) << 1 << (63 - shift)
    }

    #[inline(always)]
    fn shape(&self) -> Shape {
        let [count, cap, heap, dead] = quarters(self.shape.load(Relaxed));
        let cap = cap.min(Self::MOST);
        Shape {
            count: count.min(cap),
            cap,
            heap,
            dead,
        }
    }

    #[inline(always)]
    fn fences(&self) -> Fences {
        let [prefix, lower, upper, skip] = quarters(self.fences.load(Relaxed));
        Fences {
            prefix,
            lower,
            upper,
            skip,
        }
    }

    /// Entries in use.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.shape().count
    }

    /// The height above the leaves.
    #[inline(always)]
    pub fn height(&self) -> u8 {
        self.height.load(Relaxed) as u8
    }

    /// Two bytes for a placement's heat; not version-guarded.
    pub fn heat(&self) -> &AtomicU16 {
        &self.heat
    }

    /// Whether keys have no bound above.
    pub fn is_last(&self) -> bool {
        self.fences().upper == 0
    }

    #[inline(always)]
    fn print(&self, index: usize) -> u8 {
        (self.word(index / 8) >> (index % 8 * 8)) as u8
    }

    #[inline(always)]
    fn offset(&self, cap: usize, index: usize) -> usize {
        (self.word(cap / 8 + index / 4) >> (index % 4 * 16)) as usize & 0xffff
    }

    #[inline(always)]
    fn head(&self, cap: usize, index: usize) -> u32 {
        (self.word(cap / 8 * 3 + index / 2) >> (index % 2 * 32)) as u32
    }

    #[inline(always)]
    fn payload(&self, index: usize) -> u64 {
        self.payload_of(self.shape().cap, index)
    }

    #[inline(always)]
    fn payload_of(&self, cap: usize, index: usize) -> u64 {
        self.word(cap / 8 * 7 + index)
    }

    /// The address of the child at `index`.
    pub fn child_address(&self, index: usize) -> usize {
        self.payload(index) as usize
    }

    /// The byte of the node at which the heads begin, that at which the payloads do, and that at
    /// which a key's entry in the heap does.
    #[inline(always)]
    pub fn places(&self, index: usize) -> (usize, usize, usize) {
        let cap = self.shape().cap;
        let entry = HEADER + self.offset(cap, index).min(Self::AREA - 1);
        (HEADER + 3 * cap, HEADER + 7 * cap, entry)
    }

    /// The first bytes of a key beyond the prefix that are in its head alone, and not in the heap:
    /// of an inner node, whose heads may be elsewhere later, there are none.
    #[inline(always)]
    fn in_head(&self) -> usize {
        match self.height() {
            0 => HEAD,
            _ => 0,
        }
    }

    /// Bytes of the heap that an entry takes whose key has so many bytes beyond the prefix.
    #[inline(always)]
    fn heap_for(&self, rest: usize) -> usize {
        Self::heap_without(self.in_head(), rest)
    }

    /// The same of a record.
    fn heap_for_record(rest: usize) -> usize {
        Self::heap_without(HEAD, rest)
    }

    #[inline(always)]
    fn heap_without(in_head: usize, rest: usize) -> usize {
        match rest <= Self::INLINE {
            true => 1 + rest.saturating_sub(in_head),
            false => LONG_BYTES,
        }
    }

    /// Whether a key with so many bytes beyond the prefix is in a block. One that has a block stays
    /// there as long as that takes fewer bytes, so that no page grows when its prefix does.
    #[inline(always)]
    fn is_long(&self, rest: usize, has_block: bool) -> bool {
        rest > Self::INLINE || has_block && rest > LONG_BYTES - 1 + self.in_head()
    }

    /// Bytes of the heap that its entry takes.
    #[inline(always)]
    fn heap_for_key(&self, rest: usize, has_block: bool) -> usize {
        match self.is_long(rest, has_block) {
            true => LONG_BYTES,
            false => self.heap_for(rest),
        }
    }

    /// Bytes of the heap that an entry takes.
    fn entry_bytes(&self, index: usize) -> usize {
        self.entry_bytes_at(self.offset(self.shape().cap, index))
    }

    /// The same of one that begins there.
    #[inline(always)]
    fn entry_bytes_at(&self, at: usize) -> usize {
        match self.tag(at) {
            LONG => LONG_BYTES,
            len => self.heap_for(len.into()),
        }
    }

    /// Bytes of the heap that a fence takes.
    fn heap_for_fence(len: usize) -> usize {
        match len {
            0 => 0,
            _ if len <= Self::INLINE => 1 + len,
            _ => LONG_BYTES,
        }
    }

    /// The most bytes that one of up to so many bytes takes: a shorter one may take more than one
    /// in a block.
    fn most_for_fence(len: usize) -> usize {
        1 + len.min(Self::INLINE)
    }

    /// Bytes of the page that are in use: those of entries and fences.
    #[inline(always)]
    fn live(&self) -> usize {
        self.count() * SLOT + self.heap_in_use()
    }

    /// Those of the heap.
    #[inline(always)]
    fn heap_in_use(&self) -> usize {
        let Shape { heap, dead, .. } = self.shape();
        Self::AREA.saturating_sub(heap).saturating_sub(dead)
    }

    /// The byte of an inner node at which those begin that a search compares before heads, and how
    /// many they are.
    pub fn skipped(&self) -> (usize, usize) {
        let text = self.text_of(1).min(Self::AREA - 1);
        (HEADER + text, self.fences().skip)
    }

    /// Whether there is room for one more entry, whose key has so many bytes beyond the prefix.
    #[inline(always)]
    pub fn has_room(&self, rest: usize) -> bool {
        slots(self.count() + 1) + self.heap_in_use() + self.heap_for(rest) <= Self::AREA
    }

    /// Whether there is room for this key.
    #[inline(always)]
    pub fn has_room_for(&self, key: &[u8]) -> bool {
        self.has_room(key.len().saturating_sub(self.fences().prefix))
    }

    /// Whether this key is too long for the page's heap: it needs a block.
    #[inline(always)]
    pub fn needs_block(&self, key: &[u8]) -> bool {
        key.len().saturating_sub(self.fences().prefix) > Self::INLINE
    }

    /// Bytes of both fences.
    fn fence_bytes(&self) -> usize {
        let Fences { lower, upper, .. } = self.fences();
        self.fence_bytes_at(lower) + self.fence_bytes_at(upper)
    }

    /// Bytes of the fence that begins there.
    fn fence_bytes_at(&self, at: usize) -> usize {
        match (at, self.tag(at)) {
            (0, _) => 0,
            (_, LONG) => LONG_BYTES,
            (_, len) => 1 + usize::from(len),
        }
    }

    /// Bytes of all entries.
    fn entries_bytes(&self) -> usize {
        self.live().saturating_sub(self.fence_bytes())
    }

    /// Whether less than a quarter of what fences leave of the page is in use.
    pub fn is_underfull(&self) -> bool {
        let fences = self.fence_bytes();
        self.count() <= 1 || self.entries_bytes() * 4 < Self::AREA.saturating_sub(fences)
    }

    /// Whether an eighth of the page is free, and more: worth sharing with.
    pub fn is_worth_sharing(&self) -> bool {
        self.live() + Self::AREA / 8 <= Self::AREA
    }
}
