//! Searches in a page, and reading its keys.
//!
//! A key may be in a block, which `open` leads to: without a lock, it validates the page first.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::Restart;

use super::text::{head, print, word_at};
use super::{Fences, HEAD, LONG, Page, Shape};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::node::racing;

/// A key that is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'k> {
    pub bytes: &'k [u8],
    pub(super) print: u8,
}

impl<'k> Sought<'k> {
    #[inline(always)]
    pub fn new(bytes: &'k [u8]) -> Self {
        let print = print(bytes);
        Sought { bytes, print }
    }
}

/// The leaf that a descent looks for.
#[derive(Clone, Copy, Debug)]
pub enum Aim<'k> {
    /// That which covers a key.
    At(&'k [u8]),
    /// That which covers the keys just below one, which is not the least.
    Below(&'k [u8]),
    Last,
}

/// How the keys of a page are divided.
#[derive(Clone, Copy)]
struct Heads {
    /// Bytes that all keys begin with.
    prefix: usize,
    /// Bytes between these and the heads.
    skip: usize,
    /// Bytes of a head that are not in the heap ([`Page::in_head`]).
    in_head: usize,
}

/// Prints that are compared at once.
const PRINTS: usize = 64;

/// Which bytes of eight words equal one; where there are no vectors, maybe some more.
#[inline(always)]
fn bytes_like(words: &[AtomicU64; PRINTS / 8], byte: u8) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let (pairs, _) = words.as_chunks::<2>();
        let like = |at: usize| {
            let pair = racing::two_words(&pairs[at]);
            // SAFETY: SSE2 is part of the architecture.
            unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(pair, _mm_set1_epi8(byte as i8))) as u64 }
        };
        like(0) | like(1) << 16 | like(2) << 32 | like(3) << 48
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    bytes_like_naively(words, byte)
}

/// The same for other CPUs; tests compare with it.
#[inline(always)]
#[cfg_attr(all(target_arch = "x86_64", not(miri), not(test)), allow(dead_code))]
fn bytes_like_naively(words: &[AtomicU64; PRINTS / 8], byte: u8) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let like = |word: &AtomicU64| {
        let other = word.load(Relaxed) ^ (u64::from(byte) * EACH);
        // The highest bit of each byte that is zero, and maybe of some above one.
        let zeros = other.wrapping_sub(EACH) & !other & (EACH << 7);
        // Gathers them.
        (zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    let words = words.iter().enumerate();
    words.fold(0, |bits, (at, word)| bits | like(word) << (8 * at))
}

impl<const WORDS: usize> Page<WORDS> {
    /// The first byte of an entry or fence in the heap.
    #[inline(always)]
    pub(super) fn tag(&self, at: usize) -> u8 {
        (self.word(at / 8) >> (at % 8 * 8)) as u8
    }

    /// The word behind the first byte.
    #[inline(always)]
    pub(super) fn long_word(&self, at: usize) -> u64 {
        self.eight(at + 1)
    }

    /// The word of the block that holds the key of an entry; 0 if the page has it.
    pub(super) fn block_of(&self, index: usize) -> u64 {
        let at = self.offset(self.shape().cap, index);
        match self.tag(at) {
            LONG => self.long_word(at),
            _ => 0,
        }
    }

    /// Compares the bytes in the page from `at` on, `len` of them, with those of a key from `from`
    /// on.
    #[inline(always)]
    fn compare_bytes(&self, at: usize, len: usize, key: &[u8], from: usize) -> Ordering {
        let theirs = key.len().saturating_sub(from);
        let both = len.min(theirs);
        let mut done = 0;
        while done < both {
            let mask = match both - done {
                8.. => !0,
                left => !(!0 >> (8 * left)),
            };
            let mine = self.eight(at + done).swap_bytes() & mask;
            let other = word_at(key, from + done) & mask;
            if mine != other {
                return mine.cmp(&other);
            }
            done += 8;
        }
        len.cmp(&theirs)
    }

    /// Compares the key of an entry with one that has the page's prefix and the entry's head.
    #[inline(always)]
    fn compare_rest<'g>(
        &self,
        shape: Shape,
        index: usize,
        key: &[u8],
        heads: Heads,
        open: &impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Ordering, Restart> {
        let at = self.offset(shape.cap, index);
        let tag = self.tag(at);
        if tag == LONG {
            return Ok(open(self.long_word(at))?.cmp(key));
        }
        let Heads {
            prefix,
            skip,
            in_head,
        } = heads;
        let (mine, theirs) = (usize::from(tag), key.len().saturating_sub(prefix));
        let alike = skip + HEAD;
        // With equal heads, one that ends in its head is the beginning of the other.
        if mine <= alike || theirs <= alike {
            return Ok(mine.cmp(&theirs));
        }
        let behind = at + 1 + alike - in_head;
        Ok(self.compare_bytes(behind, mine - alike, key, prefix + alike))
    }

    /// How the keys of a leaf are divided.
    #[inline(always)]
    fn heads_of_records(&self) -> Heads {
        Heads {
            prefix: self.fences().prefix,
            skip: 0,
            in_head: HEAD,
        }
    }

    /// The records from one on whose prints equal this one, the first being bit 0.
    #[inline(always)]
    fn prints_like(&self, first: usize, count: usize, print: u8) -> u64 {
        let words = self.words().get(first / 8..).and_then(<[_]>::first_chunk);
        let equal = words.map_or(0, |words| bytes_like(words, print));
        equal & (!0 >> (PRINTS - (count - first).min(PRINTS)))
    }

    /// The index of a record's key.
    #[inline(always)]
    pub(super) fn find<'g>(
        &self,
        key: Sought<'_>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Option<usize>, Restart> {
        let (shape, heads) = (self.shape(), self.heads_of_records());
        let head = head(key.bytes, heads.prefix);
        for first in (0..shape.count).step_by(PRINTS) {
            let mut equal = self.prints_like(first, shape.count, key.print);
            while equal != 0 {
                let index = first + equal.trailing_zeros() as usize;
                equal &= equal - 1;
                if self.has(shape, index, head, key.bytes, heads, &open)? {
                    return Ok(Some(index));
                }
            }
        }
        Ok(None)
    }

    /// Whether the record at an index, if there are that many, has this key.
    #[inline(always)]
    pub(super) fn is_at<'g>(
        &self,
        index: usize,
        key: Sought<'_>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<bool, Restart> {
        let (shape, heads) = (self.shape(), self.heads_of_records());
        let head = head(key.bytes, heads.prefix);
        Ok(self.print(index) == key.print
            && self.has(shape, index, head, key.bytes, heads, &open)?)
    }

    /// The same, by the key's head and without its print.
    #[inline(always)]
    fn has<'g>(
        &self,
        shape: Shape,
        index: usize,
        head: u32,
        key: &[u8],
        heads: Heads,
        open: &impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<bool, Restart> {
        let seems = index < shape.count && self.head(shape.cap, index) == head;
        Ok(seems && self.compare_rest(shape, index, key, heads, open)?.is_eq())
    }

    /// The index of the first record whose print is the key's: likely the key's own.
    #[inline(always)]
    pub fn seems_at(&self, key: Sought<'_>) -> Option<usize> {
        let count = self.shape().count;
        (0..count).step_by(PRINTS).find_map(|first| {
            let equal = self.prints_like(first, count, key.print);
            (equal != 0).then(|| first + equal.trailing_zeros() as usize)
        })
    }

    /// The index of the first head, from one on, that is not below this one.
    #[inline(always)]
    fn first_from(&self, shape: Shape, from: usize, head: u32) -> usize {
        let Shape { count, cap, .. } = shape;
        let (mut base, mut left) = (from, count.saturating_sub(from));
        while left > 1 {
            let half = left / 2;
            let below = self.head(cap, base + half - 1) < head;
            base += if below { half } else { 0 };
            left -= half;
        }
        base + usize::from(left == 1 && self.head(cap, base) < head)
    }

    /// The index of a key, or the one at which it would be inserted.
    #[inline(always)]
    pub(super) fn rank<'g>(
        &self,
        key: &[u8],
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Result<usize, usize>, Restart> {
        match self.height() {
            0 => self.rank_from(0, key, self.heads_of_records(), open),
            _ => self.rank_below(key, open),
        }
    }

    /// The same in an inner node, whose first key is not above this one.
    #[inline(always)]
    fn rank_below<'g>(
        &self,
        key: &[u8],
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Result<usize, usize>, Restart> {
        let Fences { prefix, skip, .. } = self.fences();
        if skip > 0 {
            let skipped = key.get(..prefix + skip).unwrap_or(key);
            match self.compare_bytes(self.text_of(1), skip, skipped, prefix) {
                Ordering::Less => return Ok(Err(self.count())),
                Ordering::Equal => {}
                Ordering::Greater => return Ok(Err(1)),
            }
        }
        let heads = Heads {
            prefix,
            skip,
            in_head: 0,
        };
        self.rank_from(1, key, heads, open)
    }

    /// The same among the entries from one on.
    #[inline(always)]
    fn rank_from<'g>(
        &self,
        first: usize,
        key: &[u8],
        heads: Heads,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Result<usize, usize>, Restart> {
        let shape = self.shape();
        let head = head(key, heads.prefix + heads.skip);
        let mut low = self.first_from(shape, first, head);
        if low >= shape.count || self.head(shape.cap, low) != head {
            return Ok(Err(low));
        }
        let mut high = match head.checked_add(1) {
            Some(next) => self.first_from(shape, low, next),
            None => shape.count,
        };
        while low < high {
            let middle = (low + high) / 2;
            match self.compare_rest(shape, middle, key, heads, &open)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Ok(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Err(low))
    }

    /// The index of a record's key, or the one at which it would be inserted.
    #[inline(always)]
    pub(super) fn seek<'g>(
        &self,
        key: Sought<'_>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Result<usize, usize>, Restart> {
        match self.find(key, &open)? {
            Some(index) => Ok(Ok(index)),
            None => self.rank(key.bytes, open),
        }
    }

    /// The index of the child that an aim leads to.
    #[inline(always)]
    pub(super) fn child_for<'g>(
        &self,
        aim: Aim<'_>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<usize, Restart> {
        let index = match aim {
            Aim::At(key) => match self.rank(key, open)? {
                Ok(index) => return Ok(index),
                Err(index) => index,
            },
            Aim::Below(key) => match self.rank(key, open)? {
                Ok(index) | Err(index) => index,
            },
            Aim::Last => self.count(),
        };
        Ok(index.saturating_sub(1))
    }

    /// Appends bytes from the page.
    #[inline(always)]
    pub(super) fn push_bytes(&self, at: usize, len: usize, to: &mut Vec<u8>) {
        let end = to.len() + len;
        let mut done = 0;
        while done < len {
            to.extend_from_slice(&self.eight(at + done).to_le_bytes());
            done += 8;
        }
        to.truncate(end);
    }

    /// Appends the key of an entry without the prefix. Returns the word of the block that has the
    /// whole key instead, if the page has not; then nothing is appended.
    #[inline(always)]
    pub(super) fn push_rest(&self, index: usize, to: &mut Vec<u8>) -> u64 {
        let cap = self.shape().cap;
        let at = self.offset(cap, index);
        let tag = self.tag(at);
        if tag == LONG {
            return self.long_word(at);
        }
        let (len, in_head) = (usize::from(tag), self.in_head());
        let end = to.len() + len;
        to.extend_from_slice(&self.head(cap, index).to_be_bytes()[..in_head]);
        match len.checked_sub(in_head) {
            Some(rest) => self.push_bytes(at + 1, rest, to),
            None => to.truncate(end),
        }
        0
    }

    /// Appends up to `most` bytes of the fence at an offset.
    pub(super) fn push_fence<'g>(
        &self,
        at: usize,
        most: usize,
        to: &mut Vec<u8>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<(), Restart> {
        if at == 0 {
            return Ok(());
        }
        match self.tag(at) {
            LONG => {
                let fence = open(self.long_word(at))?;
                to.extend_from_slice(&fence[..most.min(fence.len())]);
            }
            len => self.push_bytes(at + 1, most.min(len.into()), to),
        }
        Ok(())
    }

    /// Replaces `to` by the lower fence.
    pub(super) fn lower<'g>(
        &self,
        to: &mut Vec<u8>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<(), Restart> {
        to.clear();
        self.push_fence(self.fences().lower, usize::MAX, to, open)
    }

    /// Replaces `to` by the upper fence. Returns whether there is one.
    pub(super) fn upper<'g>(
        &self,
        to: &mut Vec<u8>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<bool, Restart> {
        to.clear();
        let at = self.fences().upper;
        self.push_fence(at, usize::MAX, to, open)?;
        Ok(at != 0)
    }

    /// Replaces `to` by the key of an entry.
    pub(super) fn key<'g>(
        &self,
        index: usize,
        to: &mut Vec<u8>,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<(), Restart> {
        to.clear();
        let fences = self.fences();
        self.push_fence(fences.lower, fences.prefix, to, &open)?;
        let block = self.push_rest(index, to);
        if block != 0 {
            to.clear();
            to.extend_from_slice(open(block)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_find_the_bytes_that_words_find() {
        for seed in 0..2_000u64 {
            let word = |at: usize| {
                let draw = (seed << 3 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                // A few different bytes, next to each other too.
                AtomicU64::new(draw & 0x0301_0001_0300_0103)
            };
            let words = std::array::from_fn(word);
            for byte in [0, 1, 2, 3, 255] {
                let is_like =
                    |&at: &usize| words[at / 8].load(Relaxed).to_le_bytes()[at % 8] == byte;
                let expected = (0..PRINTS)
                    .filter(is_like)
                    .fold(0, |bits, at| bits | 1u64 << at);
                let (some, naive) = (bytes_like(&words, byte), bytes_like_naively(&words, byte));
                for found in [some, naive] {
                    assert_eq!(found & expected, expected, "none is missed");
                    assert_eq!(found.trailing_zeros(), expected.trailing_zeros(), "{byte}");
                }
                if cfg!(all(target_arch = "x86_64", not(miri))) {
                    assert_eq!(some, expected);
                }
            }
        }
    }
}
