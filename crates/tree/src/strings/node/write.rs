//! Writing to a page, under its lock or before it is linked. Fields of less than a word are changed
//! within their words.

use std::sync::atomic::Ordering::Relaxed;

use super::text::head;
use super::{Fences, GRAIN, LONG, Page, Shape, Text, of_quarters, slots};
use crate::key::common;

impl<const WORDS: usize> Page<WORDS> {
    #[inline(always)]
    pub(super) fn set_word(&self, index: usize, word: u64) {
        self.words()[index].store(word, Relaxed);
    }

    pub(super) fn set_shape(&self, shape: Shape) {
        let Shape {
            count,
            cap,
            heap,
            dead,
        } = shape;
        debug_assert!(count <= cap && slots(cap) <= heap && heap <= Self::AREA);
        self.shape
            .store(of_quarters([count, cap, heap, dead]), Relaxed);
    }

    pub(super) fn set_fences(&self, fences: Fences) {
        let Fences {
            prefix,
            lower,
            upper,
            skip,
        } = fences;
        self.fences
            .store(of_quarters([prefix, lower, upper, skip]), Relaxed);
    }

    /// Writes bytes anywhere.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        let mut pen = Pen::at(self, at);
        pen.push_bytes(bytes);
        pen.finish();
    }

    /// Makes this an empty page between two fences, with so many slots.
    pub(super) fn reset(&self, height: u8, count: usize, lower: Text<'_>, upper: Option<Text<'_>>) {
        self.height.store(height.into(), Relaxed);
        let mut shape = Shape {
            count: 0,
            cap: count.next_multiple_of(GRAIN),
            heap: Self::AREA,
            dead: 0,
        };
        let mut fence = |text: Text<'_>| {
            if text.bytes.is_empty() {
                return 0;
            }
            let len = text.bytes.len();
            shape.heap -= Self::heap_for_fence(len);
            match len > Self::INLINE {
                true => self.write_block(shape.heap, text.block),
                false => self.write_text(shape.heap, len, text.bytes),
            }
            shape.heap
        };
        let lower_at = fence(lower);
        let upper_at = upper.map_or(0, &mut fence);
        self.set_shape(shape);
        self.set_fences(Fences {
            prefix: upper.map_or(0, |upper| common(lower.bytes, upper.bytes)),
            lower: lower_at,
            upper: upper_at,
            skip: 0,
        });
    }

    /// Writes an entry or a fence of so many bytes: those that are not in its head alone.
    fn write_text(&self, at: usize, len: usize, bytes: &[u8]) {
        let mut pen = Pen::at(self, at);
        pen.push(len as u64, 8);
        pen.push_bytes(bytes);
        pen.finish();
    }

    /// The same of one that is in a block.
    fn write_block(&self, at: usize, block: u64) {
        assert_ne!(block, 0, "a long key has a block");
        self.write_text(at, LONG.into(), &block.to_le_bytes());
    }

    /// Inserts an entry before `index`. There is room for it ([`has_room`](Self::has_room)).
    /// Returns whether the entry has the block of its key, if there is one.
    pub(super) fn insert(&self, index: usize, print: u8, key: Text<'_>, payload: u64) -> bool {
        let Text { bytes, block } = key;
        let bytes = &bytes[self.fences().prefix..];
        self.insert_rest(index, print, Text { bytes, block }, payload)
    }

    /// The same, with the bytes of the key behind the prefix.
    pub(super) fn insert_rest(&self, index: usize, print: u8, key: Text<'_>, payload: u64) -> bool {
        let Text { bytes: rest, block } = key;
        let is_long = self.is_long(rest.len(), block != 0);
        let bytes = self.heap_for_key(rest.len(), block != 0);
        let mut shape = self.room(1, bytes);
        shape.heap -= bytes;
        match is_long {
            true => self.write_block(shape.heap, block),
            false => {
                let text = rest.get(self.in_head()..).unwrap_or(&[]);
                self.write_text(shape.heap, rest.len(), text);
            }
        }
        let skip = self.skip_for(index, rest, is_long);
        let Shape { count, cap, .. } = shape;
        self.insert_bits::<8>(0, index, count, print.into());
        self.insert_bits::<16>(cap / 8, index, count, shape.heap as u64);
        self.insert_bits::<32>(cap / 8 * 3, index, count, head(rest, skip).into());
        self.insert_word(cap / 8 * 7, index, count, payload);
        shape.count += 1;
        self.set_shape(shape);
        is_long
    }

    /// Makes room for so many slots and bytes of heap, which are there if the page is compact.
    pub(super) fn room(&self, more: usize, bytes: usize) -> Shape {
        let shape = self.shape();
        let cap = (shape.count + more).next_multiple_of(GRAIN).max(shape.cap);
        if slots(cap) + bytes > shape.heap {
            self.compact(more);
            return self.shape();
        }
        if cap > shape.cap {
            self.add_slots(shape, cap);
        }
        self.shape()
    }

    /// Adds slots, up to so many: what lies behind them moves on.
    fn add_slots(&self, shape: Shape, cap: usize) {
        let (count, before) = (shape.count, shape.cap / GRAIN);
        let arrays = [(7, count), (3, count.div_ceil(2)), (1, count.div_ceil(4))];
        for (words_each, words) in arrays {
            let (from, to) = (before * words_each, cap / GRAIN * words_each);
            for at in (0..words).rev() {
                self.set_word(to + at, self.word(from + at));
            }
        }
        self.set_shape(Shape { cap, ..shape });
    }

    /// Removes an entry.
    pub(super) fn remove(&self, index: usize) {
        let mut shape = self.shape();
        let Shape { count, cap, .. } = shape;
        debug_assert!(index < count);
        shape.dead += self.entry_bytes(index);
        self.remove_bits::<8>(0, index, count);
        self.remove_bits::<16>(cap / 8, index, count);
        self.remove_bits::<32>(cap / 8 * 3, index, count);
        self.remove_word(cap / 8 * 7, index, count);
        shape.count -= 1;
        self.set_shape(shape);
    }

    /// Replaces a payload.
    #[inline(always)]
    pub(super) fn set_payload(&self, index: usize, payload: u64) {
        self.set_word(self.shape().cap / 8 * 7 + index, payload);
    }

    /// Inserts a word into an array of `count`, which has room.
    #[inline(always)]
    fn insert_word(&self, array: usize, index: usize, count: usize, word: u64) {
        let words = &self.words()[array + index..=array + count];
        for pair in words.windows(2).rev() {
            pair[1].store(pair[0].load(Relaxed), Relaxed);
        }
        words[0].store(word, Relaxed);
    }

    /// Removes a word from an array of `count`.
    #[inline(always)]
    fn remove_word(&self, array: usize, index: usize, count: usize) {
        for pair in self.words()[array + index..array + count].windows(2) {
            pair[0].store(pair[1].load(Relaxed), Relaxed);
        }
    }

    /// Inserts a number of so many bits into an array of `count`, which has room.
    #[inline(always)]
    fn insert_bits<const BITS: u32>(&self, array: usize, index: usize, count: usize, number: u64) {
        let of_word = (64 / BITS) as usize;
        let words = &self.words()[array + index / of_word..=array + count / of_word];
        for pair in words.windows(2).rev() {
            let carried = pair[0].load(Relaxed) >> (64 - BITS);
            pair[1].store(pair[1].load(Relaxed) << BITS | carried, Relaxed);
        }
        let shift = (index % of_word) as u32 * BITS;
        let word = words[0].load(Relaxed);
        let below = word & ((1 << shift) - 1);
        let above = word >> shift << shift << (BITS - 1) << 1;
        words[0].store(below | number << shift | above, Relaxed);
    }

    /// Removes a number of so many bits from an array of `count`.
    #[inline(always)]
    fn remove_bits<const BITS: u32>(&self, array: usize, index: usize, count: usize) {
        let of_word = (64 / BITS) as usize;
        let words = &self.words()[array + index / of_word..=array + (count - 1) / of_word];
        let shift = (index % of_word) as u32 * BITS;
        let word = words[0].load(Relaxed);
        let below = word & ((1 << shift) - 1);
        let above = word >> (BITS - 1) >> 1 >> shift << shift;
        words[0].store(below | above, Relaxed);
        for pair in words.windows(2) {
            let next = pair[1].load(Relaxed);
            let before = pair[0].load(Relaxed);
            pair[0].store(before | next << (64 - BITS), Relaxed);
            pair[1].store(next >> BITS, Relaxed);
        }
    }

    /// Forgets what nothing refers to. There is a place for so many more entries then.
    #[cold]
    fn compact(&self, more: usize) {
        let copy = Self::default();
        copy.copy_compactly(self, more);
        self.copy_words(&copy);
    }

    /// Makes this a page with the entries of another between the same fences, and slots for some
    /// more.
    fn copy_compactly(&self, other: &Self, more: usize) {
        let (old, fences) = (other.shape(), other.fences());
        let mut heap = Self::AREA;
        let mut fence = |at: usize| {
            if at == 0 {
                return 0;
            }
            let bytes = other.fence_bytes_at(at);
            heap -= bytes;
            let mut pen = Pen::at(self, heap);
            pen.push_from(other, at, bytes);
            pen.finish();
            heap
        };
        self.set_fences(Fences {
            prefix: fences.prefix,
            lower: fence(fences.lower),
            upper: fence(fences.upper),
            skip: fences.skip,
        });
        self.set_shape(Shape {
            count: 0,
            cap: (old.count + more).next_multiple_of(GRAIN),
            heap,
            dead: 0,
        });
        self.append_as_they_are(other, 0..old.count);
    }

    /// Makes the words of this page those of another. Height and heat stay.
    pub(super) fn copy_words(&self, other: &Self) {
        for (to, from) in self.words().iter().zip(other.words()) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.shape.store(other.shape.load(Relaxed), Relaxed);
        self.fences.store(other.fences.load(Relaxed), Relaxed);
    }

    /// Makes this a copy of another.
    pub(super) fn copy_from(&self, other: &Self) {
        self.copy_words(other);
        self.heat.store(other.heat.load(Relaxed), Relaxed);
        self.height.store(other.height.load(Relaxed), Relaxed);
    }
}

/// Writes bytes one behind the other, and each word of the page once.
pub(super) struct Pen<'p, const WORDS: usize> {
    page: &'p Page<WORDS>,
    index: usize,
    /// The lowest bits of the word at the index, this many.
    pending: u64,
    filled: u32,
}

impl<'p, const WORDS: usize> Pen<'p, WORDS> {
    #[inline(always)]
    pub(super) fn at(page: &'p Page<WORDS>, at: usize) -> Self {
        let (index, filled) = (at / 8, at as u32 % 8 * 8);
        Pen {
            page,
            index,
            pending: page.word(index) & ((1 << filled) - 1),
            filled,
        }
    }

    /// Writes a number of so many bits, 64 at most.
    #[inline(always)]
    pub(super) fn push(&mut self, word: u64, bits: u32) {
        self.pending |= word << self.filled;
        self.filled += bits;
        if self.filled >= 64 {
            self.page.set_word(self.index, self.pending);
            self.index += 1;
            self.filled -= 64;
            self.pending = word.checked_shr(bits - self.filled).unwrap_or(0);
        }
    }

    /// Writes some bytes of another page.
    #[inline(always)]
    pub(super) fn push_from(&mut self, from: &Page<WORDS>, at: usize, len: usize) {
        let mut done = 0;
        while len - done >= 8 {
            self.push(from.eight(at + done), 64);
            done += 8;
        }
        let bits = 8 * (len - done) as u32;
        self.push(from.eight(at + done) & ((1 << bits) - 1), bits);
    }

    /// Writes some bytes.
    #[inline(always)]
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.push(u64::from_le_bytes(*word), 64);
        }
        let low_first = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
        self.push(rest.iter().rev().fold(0, low_first), 8 * rest.len() as u32);
    }

    /// Ends. The bytes behind those that were written stay.
    #[inline(always)]
    pub(super) fn finish(self) {
        let Pen {
            page,
            index,
            pending,
            filled,
        } = self;
        if filled > 0 {
            let after = page.word(index) >> filled << filled;
            page.set_word(index, pending | after);
        }
    }
}

impl<const WORDS: usize> Default for Page<WORDS> {
    /// A page of zeros: it has no slots, and no heap. Nothing links to it.
    fn default() -> Self {
        // SAFETY: a page is made of atomic integers.
        unsafe { std::mem::zeroed() }
    }
}
