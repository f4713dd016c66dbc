//! A block: a word and a byte string in a slot of its own.
//!
//! ```text
//!  0  length << 32 | RETIRED        8  word        16  bytes
//! ```
//!
//! In a Masstree three things are blocks. A *record* holds a key's bytes behind its last slice, and
//! its value. A *skip* holds the bytes that all keys of a layer share, and the layer's root. A
//! *name* holds the path to a layer, for callers that know only a node's address.
//!
//! Bytes are written once, before the block is linked. The word is guarded by the version of the
//! border node that refers to the block. The first word looks like the version of a retired node,
//! so a reader that takes the slot for a node turns away. Everything is written as atomic words
//! because of such readers.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_tier::{Arenas, MAX_SLOT, slot_size};

use super::Body;

/// The bits set in the version of a retired node.
const RETIRED: u64 = 2;
/// Bytes in front of the string.
const HEADER: usize = 16;
/// Names lie at multiples of this, so that four bytes can refer to them.
const NAME_GRAIN: usize = 64;

/// The location of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block(u64);

impl Block {
    /// The longest string.
    pub const LONGEST: usize = MAX_SLOT - HEADER;

    /// How far from the start of the arenas a name may be: 256 GiB.
    pub const NAMED: usize = NAME_GRAIN << 32;

    /// Bytes of the slot for a string of this length.
    pub fn slot_for(len: usize) -> usize {
        slot_size(HEADER + len)
    }

    /// Bytes of the slot for a name of this length.
    pub fn slot_for_name(len: usize) -> usize {
        slot_size((HEADER + len).next_multiple_of(NAME_GRAIN))
    }

    /// The name with this number; 0 is no name.
    pub fn named(arenas: &Arenas, number: u32) -> Option<Block> {
        let offset = (number as usize).checked_sub(1)? * NAME_GRAIN;
        Some(Block((arenas.range().start + offset) as u64))
    }

    /// The number of a name: `None` for one that is not [`Self::NAMED`].
    pub fn number(slot: NonNull<u8>, arenas: &Arenas) -> Option<u32> {
        let offset = slot.as_ptr() as usize - arenas.range().start;
        debug_assert!(offset.is_multiple_of(NAME_GRAIN));
        u32::try_from(offset / NAME_GRAIN + 1).ok()
    }

    /// The block whose address was stored.
    pub fn at(address: u64) -> Block {
        Block(address)
    }

    /// Makes a block in a slot that was allocated for a string of this length and is not shared
    /// yet.
    pub fn write(slot: NonNull<u8>, word: u64, parts: &[&[u8]]) -> Block {
        let block = Block(slot.as_ptr() as u64);
        let len: usize = parts.iter().map(|part| part.len()).sum();
        block.field(0).store((len as u64) << 32 | RETIRED, Relaxed);
        block.set_word(word);
        let (mut piece, mut filled, mut at) = ([0; 8], 0, HEADER / 8);
        for &byte in parts.iter().copied().flatten() {
            piece[filled] = byte;
            filled += 1;
            if filled == piece.len() {
                block.field(at).store(u64::from_ne_bytes(piece), Relaxed);
                (filled, at) = (0, at + 1);
            }
        }
        if filled > 0 {
            block.field(at).store(u64::from_ne_bytes(piece), Relaxed);
        }
        block
    }

    /// Makes a copy in a slot of the same size.
    pub fn copy_to(self, slot: NonNull<u8>) -> Block {
        Block::write(slot, self.word(), &[self.string()])
    }

    /// Frees the slot. No thread can reach the block any more.
    pub fn free(self, bytes: usize, arenas: &Arenas) {
        let slot = NonNull::new(self.0 as *mut u8).expect("no block lies at 0");
        Self::discard(slot, bytes, arenas);
    }

    /// Frees a slot in which no block was made.
    pub fn discard(slot: NonNull<u8>, bytes: usize, arenas: &Arenas) {
        // SAFETY: blocks are made in slots of this size, and freed once: by the thread that failed
        // to link one, or by the one who unlinked it, when the epoch says that all others are gone.
        unsafe { arenas.free(slot, bytes) };
    }

    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// Bytes of its slot.
    pub fn slot(self) -> usize {
        Self::slot_for(self.len())
    }

    /// Bytes that a reader of all of it touches.
    pub fn used(self) -> usize {
        HEADER + self.len()
    }

    pub fn len(self) -> usize {
        (self.field(0).load(Relaxed) >> 32) as usize
    }

    /// A record's value, a layer's root.
    pub fn word(self) -> u64 {
        self.field(1).load(Relaxed)
    }

    pub fn set_word(self, word: u64) {
        self.field(1).store(word, Relaxed);
    }

    /// The string. Like a node behind a validated link, it stays as long as the guard lives.
    #[inline(always)]
    pub fn bytes<'g>(self, _pinned: impl Into<Pinned<'g>>) -> &'g [u8] {
        self.string()
    }

    /// The path to a node's layer, there as long as the node is; empty for the topmost one.
    pub fn path_of<'g, const WORDS: usize>(arenas: &Arenas, node: &'g Body<WORDS>) -> &'g [u8] {
        Block::named(arenas, node.layer()).map_or(&[], Block::string)
    }

    /// The string, for as long as the caller sees to.
    #[inline(always)]
    fn string<'g>(self) -> &'g [u8] {
        // SAFETY: blocks are known from validated payloads of border nodes, and from nodes that are
        // reached so; they are not reused while a guard lives under which they may have been seen.
        // `write` made them this long, and nobody writes the bytes again.
        unsafe { std::slice::from_raw_parts((self.0 as usize + HEADER) as *const u8, self.len()) }
    }

    /// What `bytes` would be at an address of which nothing is known, if it is not longer than fits
    /// before `end`. It may be anything.
    pub fn guess(address: usize, end: usize) -> Option<Vec<u8>> {
        let len = (address + HEADER <= end).then(|| Block(address as u64).len())?;
        if len > Self::LONGEST || address + HEADER + len.next_multiple_of(8) > end {
            return None;
        }
        let words = (0..len.div_ceil(8)).map(|at| Block(address as u64).field(HEADER / 8 + at));
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .collect();
        bytes.truncate(len);
        Some(bytes)
    }

    fn field<'g>(self, index: usize) -> &'g AtomicU64 {
        // SAFETY: a block lies in a slot, which is aligned to 64 bytes, and the indices above are
        // within it (`guess`: within the arenas, which stay mapped); as a node's words do, these
        // stay there while the thread is pinned.
        unsafe { &*((self.0 as usize + 8 * index) as *const AtomicU64) }
    }
}
