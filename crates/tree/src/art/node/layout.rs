//! The layouts of inner nodes, and what their kinds imply.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_tier::slot_size;

use super::link::{Kind, StoredLink};
use super::reach::Reach;
use super::search;

// All kinds begin with the version word and the head; for these, `_top` only keeps their place.
// Prefixes are words, whose lowest byte is the first: one load each, and compared without a loop.

#[repr(C)]
pub struct Node3<R> {
    _top: [AtomicU16; 6],
    pub prefix: AtomicU32,
    pub keys: [AtomicU8; 3],
    /// What the prefix has behind its first four bytes.
    pub fifth: AtomicU8,
    pub links: [R; 3],
    _align: [AtomicU64; 0],
}

#[repr(C)]
pub struct Node16<R> {
    _top: [AtomicU16; 6],
    pub prefix: AtomicU32,
    pub keys: [AtomicU8; 16],
    pub links: [R; 16],
    _align: [AtomicU64; 0],
}

#[repr(C)]
pub struct Node48<R> {
    _top: [AtomicU16; 6],
    pub end: R,
    pub prefix: [AtomicU64; 2],
    /// For each byte, one more than the index of its link; 0: none.
    pub index: [AtomicU8; 256],
    pub links: [R; 48],
    _align: [AtomicU64; 0],
}

#[repr(C)]
pub struct Node256<R> {
    _top: [AtomicU16; 6],
    pub end: R,
    pub prefix: [AtomicU64; 2],
    pub links: [R; 256],
    _align: [AtomicU64; 0],
}

/// A node as what it is.
pub enum View<'a, R> {
    PackedRecords(&'a [AtomicU8], &'a [R]),
    Indexed(&'a Node48<R>),
    Full(&'a Node256<R>),
}

impl<R: Reach> View<'_, R> {
    /// The child for a byte, of the kinds that have a place for each.
    #[inline(always)]
    pub fn wide(&self, byte: usize) -> StoredLink {
        match self {
            View::PackedRecords(..) => StoredLink::NONE,
            View::Indexed(node) => match usize::from(node.index[byte].load(Relaxed)) {
                0 => StoredLink::NONE,
                slot => node.links[(slot - 1).min(47)].load(),
            },
            View::Full(node) => node.links[byte].load(),
        }
    }

    /// Which of sixteen bytes from `16 * group` on have a child, of these kinds.
    #[inline(always)]
    pub fn occupied(&self, group: usize) -> u32 {
        match self {
            View::PackedRecords(..) => 0,
            View::Indexed(node) => !search::lanes_of(&node.index.as_chunks().0[group], 0) & 0xffff,
            View::Full(node) => R::occupied(&node.links.as_chunks().0[group]),
        }
    }

    /// The entry at the end, of these kinds.
    #[inline(always)]
    pub fn end(&self) -> StoredLink {
        match self {
            View::PackedRecords(..) => StoredLink::NONE,
            View::Indexed(node) => node.end.load(),
            View::Full(node) => node.end.load(),
        }
    }
}

/// Bytes of a node with this layout; its slot is aligned as links want it.
const fn inner_bytes<T>(kind: Kind) -> usize {
    let bytes = size_of::<T>().next_multiple_of(kind.align());
    assert!(slot_size(bytes).is_multiple_of(kind.align()));
    bytes
}

impl Kind {
    /// The most entries. (Of `N48` and `N256`, without the one at the end, which has a place of its
    /// own.)
    pub const fn capacity(self) -> usize {
        match self {
            Kind::N3 => 3,
            Kind::N16 => 16,
            Kind::N48 => 48,
            Kind::N256 => 256,
        }
    }

    /// The least kind with room for this many entries.
    pub fn of(entries: usize) -> Kind {
        match entries {
            0..=3 => Kind::N3,
            4..=16 => Kind::N16,
            17..=48 => Kind::N48,
            _ => Kind::N256,
        }
    }

    /// What a node of this kind becomes when only `entries` are left; some fewer than the smaller
    /// kind holds, so that nodes do not change back and forth.
    pub fn shrunk(self, entries: usize) -> Option<Kind> {
        let (smaller, limit) = match self {
            Kind::N3 => return None,
            Kind::N16 => (Kind::N3, 2),
            Kind::N48 => (Kind::N16, 12),
            Kind::N256 => (Kind::N48, 37),
        };
        (entries <= limit).then_some(smaller)
    }

    /// Bytes of a node.
    #[inline(always)]
    pub const fn bytes<R: Reach>(self) -> usize {
        match self {
            Kind::N3 => const { inner_bytes::<Node3<R>>(Kind::N3) },
            Kind::N16 => const { inner_bytes::<Node16<R>>(Kind::N16) },
            Kind::N48 => const { inner_bytes::<Node48<R>>(Kind::N48) },
            Kind::N256 => const { inner_bytes::<Node256<R>>(Kind::N256) },
        }
    }

    /// How many bytes of its prefix a node knows.
    #[inline(always)]
    pub const fn known_prefix(self) -> usize {
        match self {
            Kind::N3 => 5,
            Kind::N16 => 4,
            Kind::N48 | Kind::N256 => 16,
        }
    }

    /// The bytes that a search reads at a node's start, and where else it reads for `byte`.
    #[inline(always)]
    pub const fn reads<R: Reach>(self, byte: u8) -> (usize, Option<usize>) {
        let byte = byte as usize;
        match self {
            Kind::N3 | Kind::N16 => (self.bytes::<R>(), None),
            Kind::N48 => (
                std::mem::offset_of!(Node48<R>, index),
                Some(std::mem::offset_of!(Node48<R>, index) + byte),
            ),
            Kind::N256 => (
                std::mem::offset_of!(Node256<R>, links),
                Some(self.entry::<R>(byte as u8)),
            ),
        }
    }

    /// The offset of the entry for a byte, in a node of 256.
    #[inline(always)]
    pub const fn entry<R: Reach>(self, byte: u8) -> usize {
        std::mem::offset_of!(Node256<R>, links) + size_of::<R>() * byte as usize
    }
}
