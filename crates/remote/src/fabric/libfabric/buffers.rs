//! Memory on this side that operations read and write, in slots.
//!
//! A slot is a value: who has it may use its words, and hands it over with the operation that uses
//! them next. So the words of an operation that has timed out are nobody's until it is complete.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of the smallest slots: a node.
const LEAST: usize = 128;
/// Sizes of slots, each twice the one before. The largest has a chunk.
const SIZES: usize = 9;
/// Words that are made at a time, or one slot if that is more.
const BLOCK: usize = 8 << 10;

/// The most words of a slot.
pub const MAX_SLOT: usize = LEAST << (SIZES - 1);

/// A slot that nobody else has.
#[derive(PartialEq, Eq, Debug)]
pub struct Slot(u32);

impl Slot {
    /// Its number, which others have later.
    pub fn number(&self) -> u32 {
        self.0
    }
}

/// Where a slot's words are.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub block: usize,
    pub first: usize,
    pub words: usize,
}

/// All slots. Blocks are never given back: as many words are there as were in use at a time.
#[derive(Default)]
pub struct Buffers {
    blocks: Vec<Box<[AtomicU64]>>,
    slots: Vec<Extent>,
    free: [Vec<Slot>; SIZES],
}

impl Buffers {
    /// Takes a free slot of at least so many words, at most [`MAX_SLOT`].
    pub fn take(&mut self, words: usize) -> Option<Slot> {
        self.free[size_of(words)].pop()
    }

    /// A new block for slots of at least so many words; `None` if there is no memory.
    pub fn block(words: usize) -> Option<Box<[AtomicU64]>> {
        let each = LEAST << size_of(words);
        bytemuck::allocation::try_zeroed_slice_box(each.max(BLOCK)).ok()
    }

    /// Adds a [`block`](Self::block), as slots of at least so many words. The first block that is
    /// added is number 0.
    pub fn add(&mut self, block: Box<[AtomicU64]>, words: usize) {
        let size = size_of(words);
        let each = LEAST << size;
        for first in (0..block.len()).step_by(each) {
            self.free[size].push(Slot(self.slots.len() as u32));
            self.slots.push(Extent {
                block: self.blocks.len(),
                first,
                words: each,
            });
        }
        self.blocks.push(block);
    }

    /// Takes a slot back.
    pub fn give_back(&mut self, slot: Slot) {
        let size = size_of(self.extent(&slot).words);
        self.free[size].push(slot);
    }

    /// The slot of a number whose owner gave it to an operation, which is complete.
    pub(super) fn returned(&self, number: u32) -> Slot {
        debug_assert!((number as usize) < self.slots.len());
        Slot(number)
    }

    pub fn extent(&self, slot: &Slot) -> Extent {
        self.slots[slot.0 as usize]
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The words of a slot.
    pub fn words(&self, slot: &Slot) -> &[AtomicU64] {
        let Extent {
            block,
            first,
            words,
        } = self.extent(slot);
        &self.blocks[block][first..][..words]
    }

    /// Copies words to the front of a slot.
    pub fn put(&self, slot: &Slot, words: &[u64]) {
        for (place, &word) in self.words(slot).iter().zip(words) {
            place.store(word, Relaxed);
        }
    }

    /// Copies words from the front of a slot.
    pub fn copy(&self, slot: &Slot, words: usize) -> Vec<u64> {
        let words = self.words(slot)[..words].iter();
        words.map(|word| word.load(Relaxed)).collect()
    }
}

/// The least size of so many words.
fn size_of(words: usize) -> usize {
    debug_assert!(words <= MAX_SLOT);
    words.div_ceil(LEAST).next_power_of_two().ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_as_many_words_as_were_asked_for() {
        let mut buffers = Buffers::default();
        for words in [0, 1, 128, 129, 512, 8_192, 8_193, MAX_SLOT] {
            assert!(buffers.take(words).is_none(), "{words}");
            buffers.add(Buffers::block(words).unwrap(), words);
            let slot = buffers.take(words).unwrap();
            let length = buffers.words(&slot).len();
            assert!(length >= words && (length < 2 * words || length == LEAST));
            while buffers.take(words).is_some() {}
        }
    }

    #[test]
    fn slots_do_not_overlap_and_come_again() {
        let mut buffers = Buffers::default();
        buffers.add(Buffers::block(100).unwrap(), 100);
        let slots: Vec<Slot> = std::iter::from_fn(|| buffers.take(100)).collect();
        assert_eq!(slots.len(), BLOCK / LEAST);
        for (number, slot) in slots.iter().enumerate() {
            buffers.put(slot, &[number as u64; LEAST]);
        }
        for (number, slot) in slots.iter().enumerate() {
            assert_eq!(buffers.copy(slot, LEAST), [number as u64; LEAST]);
        }
        let last = slots.into_iter().last().unwrap();
        let number = last.number();
        buffers.give_back(last);
        assert_eq!(buffers.take(1).unwrap().number(), number);
    }
}
