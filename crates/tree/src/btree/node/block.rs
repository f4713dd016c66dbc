//! A block: a word and a byte string in a slot of its own.
//!
//! ```text
//!  0  length << 32 | RETIRED        8  word        16  bytes
//! ```
//!
//! In a Masstree three things are blocks. A *record* holds a key's bytes after its last slice, and
//! its value. A *skip* holds the bytes that all keys of a layer share, and the layer's root. A
//! *name* holds the path to a layer, for callers that know only a node's address.
//!
//! Bytes are written once, before the block is linked. The word is guarded by the version of the
//! border node that refers to the block. The first word looks like the version of a retired node,
//! so a reader that takes the slot for a node turns away. Everything is written as atomic words
//! because of such readers.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Guard;
use timberline_tier::{Arenas, MAX_SLOT, Memory, Slot, slot_size};

use super::Body;
use crate::node::retired::Retired;
use crate::store::Store;

/// The bits set in the version of a retired node.
const RETIRED: u64 = 2;
/// Bytes in front of the string.
const HEADER: usize = 16;
/// Names lie at multiples of this, so that four bytes can refer to them.
const NAME_GRAIN: usize = 64;

/// A block that was reached while the thread was pinned, and stays there as long.
#[derive(Clone, Copy, Debug)]
pub struct Block<'g> {
    address: usize,
    pinned: PhantomData<&'g AtomicU64>,
}

impl<'g> Block<'g> {
    /// The longest string.
    pub const LONGEST: usize = MAX_SLOT - HEADER;

    /// Bytes of the slot for a string of this length.
    pub fn slot_for(len: usize) -> usize {
        slot_size(HEADER + len)
    }

    /// # Safety
    /// A block was there when the thread was pinned as long as `'g`, or came later.
    #[inline(always)]
    pub(super) unsafe fn at(address: u64) -> Self {
        Block {
            address: address as usize,
            pinned: PhantomData,
        }
    }

    /// Makes a block of a slot for a string of this length, for the caller to link.
    #[inline]
    pub(super) fn write(slot: Slot<'_>, word: u64, string: &[u8]) -> Self {
        assert!(slot.bytes() >= HEADER + string.len(), "a slot for a block");
        let address = slot.keep().as_ptr() as usize;
        let block = Block {
            address,
            pinned: PhantomData,
        };
        block
            .field(0)
            .store((string.len() as u64) << 32 | RETIRED, Relaxed);
        block.word().store(word, Relaxed);
        let (words, rest) = string.as_chunks::<8>();
        let mut at = HEADER / 8;
        for &word in words {
            block.field(at).store(u64::from_ne_bytes(word), Relaxed);
            at += 1;
        }
        if !rest.is_empty() {
            let push = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
            let last = rest.iter().rev().fold(0, push);
            block.field(at).store(last.to_le(), Relaxed);
        }
        block
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.address
    }

    /// Bytes of its slot.
    pub fn slot(self) -> usize {
        Self::slot_for(self.len())
    }

    /// Bytes that a reader of all of it touches.
    pub fn used(self) -> usize {
        HEADER + self.len()
    }

    fn len(self) -> usize {
        (self.field(0).load(Relaxed) >> 32) as usize
    }

    #[inline(always)]
    pub(super) fn word(self) -> &'g AtomicU64 {
        self.field(1)
    }

    /// The string.
    #[inline(always)]
    pub fn bytes(self) -> &'g [u8] {
        // SAFETY: the block is not freed during `'g`. `write` made its string this long, and it is
        // never written again.
        unsafe { std::slice::from_raw_parts((self.address + HEADER) as *const u8, self.len()) }
    }

    fn field(self, index: usize) -> &'g AtomicU64 {
        // SAFETY: a block lies in a slot, which is aligned to 64 bytes, and the indices above are
        // within it (`guess`: within the arenas, which stay mapped); as a node's words do, these
        // stay there while the thread is pinned.
        unsafe { &*((self.address + 8 * index) as *const AtomicU64) }
    }

    /// What `bytes` would be at an address of which nothing is known, if it is not longer than fits
    /// before `end`. It may be anything.
    fn guess(self, end: usize) -> Option<Vec<u8>> {
        let len = (self.address + HEADER <= end).then(|| self.len())?;
        if len > Self::LONGEST || self.address + HEADER + len.next_multiple_of(8) > end {
            return None;
        }
        let words = (0..len.div_ceil(8)).map(|at| self.field(HEADER / 8 + at));
        let mut bytes: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .collect();
        bytes.truncate(len);
        Some(bytes)
    }
}

/// A block that nothing leads to any more. Threads that came to it before may still read it.
#[must_use = "it is to be reclaimed"]
pub struct UnlinkedBlock {
    address: usize,
    bytes: usize,
}

impl UnlinkedBlock {
    /// # Safety
    /// The caller has removed the only thing that led to the block, and its slot is this long.
    pub(super) unsafe fn new(block: Block<'_>, bytes: usize) -> Self {
        let address = block.address;
        UnlinkedBlock { address, bytes }
    }

    /// Frees it once no thread can read it any more. The guard and the store are its tree's.
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        // SAFETY: `write` made the block in a slot of this size. Nothing leads to it, and there is
        // one `UnlinkedBlock` of a block.
        unsafe { Retired::new(self.address, self.bytes, false) }.reclaim(store, guard);
    }
}

/// A slot for the name of a new layer, and its number.
pub struct Name<'t> {
    slot: Slot<'t>,
    number: u32,
}

impl<'t> Name<'t> {
    /// How far from the start of the arenas a name may be: 256 GiB.
    pub const FARTHEST: usize = NAME_GRAIN << 32;

    /// Bytes of the slot for a path of this length.
    pub fn slot_for(len: usize) -> usize {
        slot_size((HEADER + len).next_multiple_of(NAME_GRAIN))
    }

    /// In this slot, if it is near enough to have a number.
    pub fn new(slot: Slot<'t>, arenas: &Arenas) -> Option<Self> {
        let offset = slot.address() - arenas.range().start;
        debug_assert!(offset.is_multiple_of(NAME_GRAIN));
        let number = u32::try_from(offset / NAME_GRAIN + 1).ok()?;
        Some(Name { slot, number })
    }

    /// Writes the name. Returns its number, for the nodes of the layer to have.
    pub(super) fn write(self, path: &[u8]) -> u32 {
        assert!(self.slot.bytes() >= Self::slot_for(path.len()));
        Block::write(self.slot, 0, path);
        self.number
    }

    /// Where the name with this number lies; 0 is none.
    fn address(arenas: &Arenas, number: u32) -> Option<u64> {
        let offset = (number as usize).checked_sub(1)? * NAME_GRAIN;
        Some((arenas.range().start + offset) as u64)
    }

    /// The path to a node's layer, there as long as the node is; empty for the topmost one. The
    /// arenas are its tree's.
    pub fn path_of<'g, const WORDS: usize>(arenas: &Arenas, node: &'g Body<WORDS>) -> &'g [u8] {
        Self::of(arenas, node).map_or(&[], Block::bytes)
    }

    /// The block that a node's layer is named in.
    pub(super) fn of<'g, const WORDS: usize>(
        arenas: &Arenas,
        node: &'g Body<WORDS>,
    ) -> Option<Block<'g>> {
        // SAFETY: nodes get their number from a name, which is freed after the last one of them.
        Self::address(arenas, node.layer()).map(|address| unsafe { Block::at(address) })
    }

    /// The path to the layer that a node seems to belong to of which nothing is known.
    pub(super) fn guess_path(arenas: &Arenas, layer: u32) -> Option<Vec<u8>> {
        let Some(address) = Self::address(arenas, layer) else {
            return Some(Vec::new());
        };
        let block = Block {
            address: address as usize,
            pinned: PhantomData,
        };
        let path = block.guess(arenas.look(block.address).end);
        path.filter(|path| path.len().is_multiple_of(size_of::<u64>()))
    }
}
