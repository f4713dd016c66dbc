//! Writing to a page, under its lock or before it is linked. Fields of less than a word are changed
//! within their words.

use std::sync::atomic::Ordering::Relaxed;

use super::text::{common, head};
use super::{Fences, GRAIN, HEAD, LONG, LONG_BYTES, Page, Shape, Text, of_quarters, slots};

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

    fn set_fences(&self, fences: Fences) {
        let Fences {
            prefix,
            lower,
            upper,
        } = fences;
        self.fences
            .store(of_quarters([prefix, lower, upper, 0]), Relaxed);
    }

    /// Writes bytes anywhere.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        Pen::at(self, at).write(bytes);
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
        });
    }

    /// Writes an entry or a fence of so many bytes: those that are not its head.
    fn write_text(&self, at: usize, len: usize, bytes: &[u8]) {
        let mut pen = Pen::at(self, at);
        pen.push(len as u64, 8);
        pen.write(bytes);
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
        let is_long = Self::is_long(rest.len(), block != 0);
        let bytes = Self::heap_for_key(rest.len(), block != 0);
        let mut shape = self.room(bytes);
        shape.heap -= bytes;
        match is_long {
            true => self.write_block(shape.heap, block),
            false => self.write_text(shape.heap, rest.len(), rest.get(HEAD..).unwrap_or(&[])),
        }
        let Shape { count, cap, .. } = shape;
        self.insert_bits::<8>(0, index, count, print.into());
        self.insert_bits::<16>(cap / 8, index, count, shape.heap as u64);
        self.insert_bits::<32>(cap / 8 * 3, index, count, head(rest, 0).into());
        let payloads = cap / 8 * 7;
        for at in (index..count).rev() {
            self.set_word(payloads + at + 1, self.word(payloads + at));
        }
        self.set_word(payloads + index, payload);
        shape.count += 1;
        self.set_shape(shape);
        is_long
    }

    /// Makes room for a slot and so many bytes of heap, which are there if the page is compact.
    fn room(&self, bytes: usize) -> Shape {
        let shape = self.shape();
        let more = match shape.count == shape.cap {
            true => GRAIN,
            false => 0,
        };
        if slots(shape.cap + more) + bytes > shape.heap {
            self.compact();
            return self.shape();
        }
        if more > 0 {
            self.add_slots(shape);
        }
        self.shape()
    }

    /// Adds slots: what lies behind them moves on.
    fn add_slots(&self, shape: Shape) {
        let Shape { count, cap, .. } = shape;
        let arrays = [(7, count), (3, count.div_ceil(2)), (1, count.div_ceil(4))];
        for (bytes, words) in arrays {
            let from = cap / 8 * bytes;
            for at in (0..words).rev() {
                self.set_word(from + bytes + at, self.word(from + at));
            }
        }
        self.set_shape(Shape {
            cap: cap + GRAIN,
            ..shape
        });
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
        let payloads = cap / 8 * 7;
        for at in index + 1..count {
            self.set_word(payloads + at - 1, self.word(payloads + at));
        }
        shape.count -= 1;
        self.set_shape(shape);
    }

    /// Replaces a payload.
    #[inline(always)]
    pub(super) fn set_payload(&self, index: usize, payload: u64) {
        self.set_word(self.shape().cap / 8 * 7 + index, payload);
    }

    /// Inserts a number of so many bits into an array of `count`, which has room.
    #[inline(always)]
    fn insert_bits<const BITS: u32>(&self, array: usize, index: usize, count: usize, number: u64) {
        let of_word = (64 / BITS) as usize;
        let (first, last) = (array + index / of_word, array + count / of_word);
        for at in (first + 1..=last).rev() {
            let carried = self.word(at - 1) >> (64 - BITS);
            self.set_word(at, self.word(at) << BITS | carried);
        }
        let shift = (index % of_word) as u32 * BITS;
        let word = self.word(first);
        let below = word & ((1 << shift) - 1);
        let above = word >> shift << shift << (BITS - 1) << 1;
        self.set_word(first, below | number << shift | above);
    }

    /// Removes a number of so many bits from an array of `count`.
    #[inline(always)]
    fn remove_bits<const BITS: u32>(&self, array: usize, index: usize, count: usize) {
        let of_word = (64 / BITS) as usize;
        let (first, last) = (array + index / of_word, array + (count - 1) / of_word);
        let carried = |at: usize| match at < last {
            true => self.word(at + 1) << (64 - BITS),
            false => 0,
        };
        let shift = (index % of_word) as u32 * BITS;
        let word = self.word(first);
        let below = word & ((1 << shift) - 1);
        let above = word >> (BITS - 1) >> 1 >> shift << shift;
        self.set_word(first, below | above | carried(first));
        for at in first + 1..=last {
            self.set_word(at, self.word(at) >> BITS | carried(at));
        }
    }

    /// Forgets what nothing refers to.
    #[cold]
    fn compact(&self) {
        let copy = Self::default();
        copy.copy_compactly(self);
        self.copy_words(&copy);
    }

    /// Makes this a page with the entries of another between the same fences, and no more.
    fn copy_compactly(&self, other: &Self) {
        let (old, fences) = (other.shape(), other.fences());
        let cap = (old.count + 1).next_multiple_of(GRAIN);
        let mut shape = Shape {
            cap,
            heap: Self::AREA,
            dead: 0,
            ..old
        };
        let mut buffer = Vec::with_capacity(Self::INLINE + LONG_BYTES);
        let mut copy = |at: usize, bytes: usize| {
            buffer.clear();
            other.push_bytes(at, bytes, &mut buffer);
            shape.heap -= bytes;
            self.write(shape.heap, &buffer);
            shape.heap
        };
        let mut fence = |at: usize| match at {
            0 => 0,
            _ => {
                let bytes = match other.tag(at) {
                    LONG => LONG_BYTES,
                    len => 1 + usize::from(len),
                };
                copy(at, bytes)
            }
        };
        let (lower, upper) = (fence(fences.lower), fence(fences.upper));
        for index in 0..old.count {
            let bytes = other.entry_bytes(index);
            let at = copy(other.offset(old.cap, index), bytes);
            self.insert_bits::<8>(0, index, index, other.print(index).into());
            self.insert_bits::<16>(cap / 8, index, index, at as u64);
            let head = other.head(old.cap, index);
            self.insert_bits::<32>(cap / 8 * 3, index, index, head.into());
            self.set_word(cap / 8 * 7 + index, other.word(old.cap / 8 * 7 + index));
        }
        self.set_shape(shape);
        let prefix = fences.prefix;
        self.set_fences(Fences {
            prefix,
            lower,
            upper,
        });
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
struct Pen<'p, const WORDS: usize> {
    page: &'p Page<WORDS>,
    index: usize,
    /// The lowest bits of the word at the index, this many.
    pending: u64,
    filled: u32,
}

impl<'p, const WORDS: usize> Pen<'p, WORDS> {
    #[inline(always)]
    fn at(page: &'p Page<WORDS>, at: usize) -> Self {
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
    fn push(&mut self, word: u64, bits: u32) {
        self.pending |= word << self.filled;
        self.filled += bits;
        if self.filled >= 64 {
            self.page.set_word(self.index, self.pending);
            self.index += 1;
            self.filled -= 64;
            self.pending = word.checked_shr(bits - self.filled).unwrap_or(0);
        }
    }

    /// Writes the last bytes. Those behind them stay.
    #[inline(always)]
    fn write(mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.push(u64::from_le_bytes(*word), 64);
        }
        let low_first = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
        self.push(rest.iter().rev().fold(0, low_first), 8 * rest.len() as u32);
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
