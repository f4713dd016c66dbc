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
//!
//! Whose a block is: of a [`NewBlock`] until its word is put into a leaf, then of that leaf, at
//! last of a [`RetiredValue`](super::RetiredValue). A [`Loan`] reads it.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_tier::{Arenas, Memory, Slot, slot_size};

use super::Loan;
use crate::MAX_VALUE;

/// Bits of a length.
const LENGTH: u32 = 17;
/// Bits of an address that are zero.
const ALIGNED: u32 = 3;
/// The word of the empty string.
const EMPTY: u64 = 0;

const _: () = assert!(MAX_VALUE < 1 << LENGTH);

/// The location of a string. To know it is not to have access: a [`Loan`] has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueBlock {
    address: usize,
    len: usize,
}

impl ValueBlock {
    /// Bytes of the slot for a string of this length, of 1 to [`MAX_VALUE`] bytes.
    pub fn slot_for(len: usize) -> usize {
        slot_size(len)
    }

    /// The block of a value; none for the empty string.
    #[inline(always)]
    pub fn of(value: Loan<'_>) -> Option<ValueBlock> {
        Self::of_word(value.word())
    }

    /// The block of a word, if it is that of one.
    #[inline(always)]
    pub fn of_word(word: u64) -> Option<ValueBlock> {
        let len = (word & ((1 << LENGTH) - 1)) as usize;
        let address = (word >> LENGTH << ALIGNED) as usize;
        (len > 0).then_some(ValueBlock { address, len })
    }

    /// The word that refers to it.
    fn word(self) -> u64 {
        (self.address as u64 >> ALIGNED) << LENGTH | self.len as u64
    }

    pub fn address(self) -> usize {
        self.address
    }

    /// Bytes of the string.
    pub fn len(self) -> usize {
        self.len
    }

    /// Bytes of its slot.
    pub fn slot(self) -> usize {
        Self::slot_for(self.len)
    }

    /// Prefetches the string.
    #[inline(always)]
    pub fn prefetch(self, memory: &impl Memory) {
        memory.prefetch(self.address, self.len);
    }
}

impl<'g> Loan<'g> {
    /// The string that the word refers to.
    #[inline(always)]
    pub fn bytes(self, memory: &impl Memory) -> &'g [u8] {
        let Some(ValueBlock { address, len }) = ValueBlock::of(self) else {
            return &[];
        };
        memory.charge_access(address, len);
        // SAFETY: a loan's word came out of a leaf by a validated read, or from under its lock, in
        // a map of strings; its block is not freed while the guard lives that it was read under.
        // `NewBlock::write` made it this long, and it is never written again.
        unsafe { std::slice::from_raw_parts(address as *const u8, len) }
    }
}

/// A string that no leaf refers to yet. Its block is freed when this is dropped.
pub struct NewBlock<'s> {
    /// None for the empty string.
    slot: Option<Slot<'s>>,
    word: u64,
}

impl<'s> NewBlock<'s> {
    /// The empty string.
    pub const EMPTY: Self = NewBlock {
        slot: None,
        word: EMPTY,
    };

    /// Writes a string of at least a byte into a slot for its length.
    ///
    /// # Panics
    /// The slot is one for another length.
    pub fn write(slot: Slot<'s>, bytes: &[u8], memory: &impl Memory) -> Self {
        let (address, len) = (slot.address(), bytes.len());
        assert_eq!(slot.bytes(), ValueBlock::slot_for(len), "a slot for it");
        memory.charge_access(address, len);
        let store = |index: usize, word: [u8; 8]| {
            // SAFETY: slots are aligned to eight bytes and a multiple of eight long, so the word
            // lies in this one, which only this function stores to; arenas stay mapped.
            let place = unsafe { &*((address + 8 * index) as *const AtomicU64) };
            place.store(u64::from_ne_bytes(word), Relaxed);
        };
        let (words, rest) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            store(index, *word);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            store(words.len(), last);
        }
        let word = ValueBlock { address, len }.word();
        let slot = Some(slot);
        NewBlock { slot, word }
    }

    /// The word that refers to it, for the leaf whose block it is from now on.
    pub fn keep(self) -> u64 {
        self.slot.map(Slot::keep);
        self.word
    }
}

/// Frees the block of a word, if it has one: a [`Dispose`](super::Dispose).
///
/// # Safety
/// As there.
pub unsafe fn free(word: u64, arenas: &Arenas) {
    if let Some(block) = ValueBlock::of_word(word) {
        let slot = NonNull::new(block.address as *mut u8).expect("no block lies at 0");
        // SAFETY: `NewBlock::write` made it in a slot for this length; the rest is the caller's.
        unsafe { arenas.free(slot, block.slot()) };
    }
}
