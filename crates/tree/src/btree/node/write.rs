//! Writing to a node: under its lock, or before it is linked.
#![allow(unsafe_code)]

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Body, EMPTY, Fresh, LockedNode, POISON};

/// Exclusive write access to a node.
///
/// # Safety
/// This holds the node's lock, or no other thread can reach the node. So each link in it is stored
/// once, and earlier reads under its version fail their validation.
pub unsafe trait Write<const WORDS: usize>: Deref<Target = Body<WORDS>> {
    /// Sets the marks of this leaf's stale records; in a tree without layers.
    fn set_stale(&self, marks: u32) {
        self.layer.store(marks, Relaxed);
    }

    /// Moves the lower fence.
    fn set_lower(&self, lower: u64) {
        self.lower.store(lower, Relaxed);
    }

    /// Moves the upper fence.
    fn set_upper(&self, upper: u64) {
        self.upper.store(upper, Relaxed);
    }

    /// Replaces a key, by one that keeps the order.
    fn set_key(&self, index: usize, key: u64) {
        self.words[index].store(key, Relaxed);
    }

    /// Inserts an entry before `index`; the node is a leaf, and not full.
    #[inline(always)]
    fn insert(&self, index: usize, key: u64, payload: u64) {
        debug_assert_eq!(self.height(), 0, "its payloads are links");
        self.insert_word(index, key, payload);
    }

    /// Moves the entries from `from` on to the front of `right`.
    fn move_tail(&self, from: usize, right: &impl Write<WORDS>) {
        let count = self.count();
        let (moving, staying) = (count - from, right.count());
        assert_eq!(self.height(), right.height());
        debug_assert!(moving + staying <= Body::<WORDS>::CAPACITY);
        for index in (0..staying).rev() {
            right.words[index + moving].store(right.key(index), Relaxed);
            right.set_word(index + moving, right.payload(index));
        }
        for index in 0..moving {
            right.words[index].store(self.key(from + index), Relaxed);
            right.set_word(index, self.payload(from + index));
        }
        self.empty(from..count);
        self.count.store(from as u8, Relaxed);
        right.count.store((moving + staying) as u8, Relaxed);
    }

    /// Moves the first `moving` entries to the end of `left`.
    fn move_head(&self, moving: usize, left: &impl Write<WORDS>) {
        let (count, end) = (self.count(), left.count());
        assert_eq!(self.height(), left.height());
        debug_assert!(moving <= count && end + moving <= Body::<WORDS>::CAPACITY);
        for index in 0..moving {
            left.words[end + index].store(self.key(index), Relaxed);
            left.set_word(end + index, self.payload(index));
        }
        for index in moving..count {
            self.words[index - moving].store(self.key(index), Relaxed);
            self.set_word(index - moving, self.payload(index));
        }
        self.empty(count - moving..count);
        left.count.store((end + moving) as u8, Relaxed);
        self.count.store((count - moving) as u8, Relaxed);
    }
}

// SAFETY: the lock.
unsafe impl<const WORDS: usize> Write<WORDS> for LockedNode<'_, WORDS> {}

// SAFETY: no other thread can reach a node that is not linked.
unsafe impl<const WORDS: usize> Write<WORDS> for Fresh<'_, WORDS> {}

impl<const WORDS: usize> Body<WORDS> {
    /// Makes this an empty node of a layer.
    pub(super) fn reset(&self, layer: u32, height: u8, lower: u64, upper: u64) {
        self.count.store(0, Relaxed);
        self.height.store(height, Relaxed);
        self.layer.store(layer, Relaxed);
        self.heat.store(0, Relaxed);
        self.lower.store(lower, Relaxed);
        self.upper.store(upper, Relaxed);
        self.empty(0..Self::CAPACITY);
    }

    /// Makes these entries empty, as all after the last one are.
    fn empty(&self, entries: Range<usize>) {
        for key in &self.words[entries.clone()] {
            key.store(EMPTY, Relaxed);
        }
        if cfg!(debug_assertions) {
            for payload in &self.words[Self::CAPACITY..][entries] {
                payload.store(POISON, Relaxed);
            }
        }
    }

    /// Replaces a payload.
    pub(super) fn set_word(&self, index: usize, payload: u64) {
        self.words[Self::CAPACITY + index].store(payload, Relaxed);
    }

    /// The same. Returns the one before.
    pub(super) fn swap_word(&self, index: usize, payload: u64) -> u64 {
        let before = self.payload(index);
        self.set_word(index, payload);
        before
    }

    /// Appends an entry with a key above all others.
    pub(super) fn push_word(&self, key: u64, payload: u64) {
        self.insert_word(self.count(), key, payload);
    }

    /// Inserts an entry before `index`; the node is not full.
    #[inline(always)]
    pub(super) fn insert_word(&self, index: usize, key: u64, payload: u64) {
        let count = self.count();
        debug_assert!(index <= count && count < Self::CAPACITY);
        // Ascending keys are appended.
        if index < count {
            self.shift_up(index..count);
        }
        self.words[index].store(key, Relaxed);
        self.set_word(index, payload);
        self.count.store(count as u8 + 1, Relaxed);
    }

    /// Moves entries one place on.
    #[inline(never)]
    fn shift_up(&self, entries: Range<usize>) {
        let (keys, payloads) = self.words.split_at(Self::CAPACITY);
        shift_up(&keys[entries.start..=entries.end]);
        shift_up(&payloads[entries.start..=entries.end]);
    }

    /// Removes an entry.
    #[inline(always)]
    pub(super) fn remove_entry(&self, index: usize) {
        let count = self.count();
        debug_assert!(index < count);
        let (keys, payloads) = self.words.split_at(Self::CAPACITY);
        shift_down(&keys[index..count]);
        shift_down(&payloads[index..count]);
        self.empty(count - 1..count);
        self.count.store(count as u8 - 1, Relaxed);
    }

    /// Makes this a copy of `other`.
    pub(super) fn copy_from(&self, other: &Self) {
        self.reset(other.layer(), other.height(), other.lower(), other.upper());
        self.heat.store(other.heat.load(Relaxed), Relaxed);
        let count = other.count();
        for index in 0..count {
            self.words[index].store(other.key(index), Relaxed);
            self.set_word(index, other.payload(index));
        }
        self.count.store(count as u8, Relaxed);
    }
}

/// Words that are moved at once: through registers, as atomics are not moved by the vector.
const BLOCK: usize = 8;

/// Moves each word to the next place; the last one is lost.
#[inline(always)]
fn shift_up(words: &[AtomicU64]) {
    let mut rest = words;
    while let Some(block) = rest.last_chunk::<{ BLOCK + 1 }>() {
        let moved: [u64; BLOCK] = std::array::from_fn(|index| block[index].load(Relaxed));
        for (place, word) in block[1..].iter().zip(moved) {
            place.store(word, Relaxed);
        }
        rest = &rest[..rest.len() - BLOCK];
    }
    for pair in rest.windows(2).rev() {
        pair[1].store(pair[0].load(Relaxed), Relaxed);
    }
}

/// Moves each word to the place before it; the first one is lost.
#[inline(always)]
fn shift_down(words: &[AtomicU64]) {
    let mut rest = words;
    while let Some(block) = rest.first_chunk::<{ BLOCK + 1 }>() {
        let moved: [u64; BLOCK] = std::array::from_fn(|index| block[index + 1].load(Relaxed));
        for (place, word) in block.iter().zip(moved) {
            place.store(word, Relaxed);
        }
        rest = &rest[BLOCK..];
    }
    for pair in rest.windows(2) {
        pair[0].store(pair[1].load(Relaxed), Relaxed);
    }
}
