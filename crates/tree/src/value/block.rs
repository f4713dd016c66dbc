//! A byte string in an arena slot, and the word that refers to it.
//!
//! ```text
//! 63                                      17 16        0
//! | the slot's address without its low 3 bits | length in bytes: 1 ..= 65,536 |
//! ```
//!
//! The empty string is the word 0 and takes no slot. There is no header: the word has the length.
//! Bytes are written once, as atomic words, because a reader may take the slot for that of a node
//! that was there before (`fence_at`); its descent then corrects it.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_tier::{Arenas, Memory, slot_size};

use crate::MAX_VALUE;

/// Bits of a length.
const LENGTH: u32 = 17;
/// Bits of an address that are zero.
const ALIGNED: u32 = 3;

const _: () = assert!(MAX_VALUE < 1 << LENGTH);

/// The location of a string.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueBlock {
    address: usize,
    len: usize,
}

impl ValueBlock {
    /// The word of the empty string.
    pub const EMPTY: u64 = 0;

    /// Bytes of the slot for a string of this length, of 1 to [`MAX_VALUE`] bytes.
    pub fn slot_for(len: usize) -> usize {
        slot_size(len)
    }

    /// The block that a word refers to; none for the empty string.
    #[inline(always)]
    pub fn of(word: u64) -> Option<ValueBlock> {
        let len = (word & ((1 << LENGTH) - 1)) as usize;
        let address = (word >> LENGTH << ALIGNED) as usize;
        (len > 0).then_some(ValueBlock { address, len })
    }

    /// The word that refers to it.
    pub fn word(self) -> u64 {
        (self.address as u64 >> ALIGNED) << LENGTH | self.len as u64
    }

    /// Writes a string into a slot that was allocated for this length and is not shared yet.
    pub fn write(slot: NonNull<u8>, bytes: &[u8]) -> ValueBlock {
        let block = ValueBlock {
            address: slot.as_ptr() as usize,
            len: bytes.len(),
        };
        debug_assert_eq!(ValueBlock::of(block.word()), Some(block));
        let (words, rest) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            block.store(index, u64::from_ne_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            block.store(words.len(), u64::from_ne_bytes(last));
        }
        block
    }

    fn store(self, index: usize, word: u64) {
        debug_assert!(8 * index < self.len);
        // SAFETY: slots are aligned to eight bytes and a multiple of eight long, so the word lies
        // in this one, which only `write` stores to; arenas stay mapped.
        let place = unsafe { &*((self.address + 8 * index) as *const AtomicU64) };
        place.store(word, Relaxed);
    }

    /// Frees the slot. No thread can reach the block any more.
    pub fn free(self, arenas: &Arenas) {
        let slot = NonNull::new(self.address as *mut u8).expect("no block lies at 0");
        // SAFETY: words of blocks are made by `write`, in a slot for this length; a block is freed
        // once: by the thread that did not link it, or by the one that unlinked it, when the epoch
        // says that all others are gone.
        unsafe { arenas.free(slot, Self::slot_for(self.len)) };
    }

    /// Frees a slot in which no copy of this was made.
    pub fn discard_copy(self, slot: NonNull<u8>, arenas: &Arenas) {
        let address = slot.as_ptr() as usize;
        ValueBlock { address, ..self }.free(arenas);
    }

    pub fn address(self) -> usize {
        self.address
    }

    /// Bytes of its slot.
    pub fn slot(self) -> usize {
        Self::slot_for(self.len)
    }

    /// The string, which stays there as long as the guard lives under which its word was read.
    #[inline(always)]
    pub fn read<'g>(self, memory: &impl Memory, _pinned: Pinned<'g>) -> &'g [u8] {
        memory.charge_access(self.address, self.len);
        // SAFETY: words of blocks come out of leaves by validated reads, or from under their locks;
        // a block is not freed while the guard lives that its word was read under. `write` made it
        // this long, and nobody writes to it again.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) }
    }

    /// Prefetches what [`read`](Self::read) reads.
    #[inline(always)]
    pub fn prefetch(self, memory: &impl Memory) {
        memory.prefetch(self.address, self.len);
    }

    /// Makes a copy in a slot of the same size.
    pub fn copy_to<'g>(
        self,
        slot: NonNull<u8>,
        memory: &impl Memory,
        pinned: impl Into<Pinned<'g>>,
    ) -> ValueBlock {
        memory.charge_access(slot.as_ptr() as usize, self.len);
        ValueBlock::write(slot, self.read(memory, pinned.into()))
    }
}
