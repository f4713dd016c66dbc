//! The keys that copies are found by: words, and strings of at most 40 bytes.
//!
//! A lookup compares the whole key. A hash alone would answer for other keys, too.

use super::bucket::{Body, WAYS};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// A record's key, as the cache takes it.
pub trait CopyKey: Copy {
    /// How many neighbouring places of a bucket a copy takes; `None`: the key is too long for one.
    fn places(self) -> Option<usize>;

    /// A hash that spreads keys over the pages, consecutive ones too.
    fn hash(self) -> u64;

    /// Whether the copy whose first place is this one has this key. What it reads may be torn.
    fn is_at(self, body: &Body, way: usize) -> bool;

    /// Writes the key to as many places as it takes, from this one on.
    fn write_to(self, body: &Body, way: usize);
}

/// Keys of one length: all of a map's are words.
impl CopyKey for u64 {
    #[inline(always)]
    fn places(self) -> Option<usize> {
        Some(1)
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        mix(self)
    }

    #[inline(always)]
    fn is_at(self, body: &Body, way: usize) -> bool {
        body.key_word(way, 0) == self
    }

    #[inline(always)]
    fn write_to(self, body: &Body, way: usize) {
        body.set_length(way, WORD);
        body.set_key_word(way, 0, self);
    }
}

/// Keys of many lengths.
impl CopyKey for &[u8] {
    #[inline(always)]
    fn places(self) -> Option<usize> {
        Some(places_of(self.len())).filter(|&places| places <= WAYS)
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        let mut hash = mix(first_word(self) ^ (self.len() as u64).rotate_right(8));
        for index in 1..words_of(self.len()) {
            hash = mix(hash ^ word_at(self, index));
        }
        hash
    }

    #[inline(always)]
    fn is_at(self, body: &Body, way: usize) -> bool {
        body.length(way) == self.len()
            && body.key_word(way, 0) == first_word(self)
            && (1..words_of(self.len()))
                .all(|index| body.key_word(way, index) == word_at(self, index))
    }

    fn write_to(self, body: &Body, way: usize) {
        body.set_length(way, self.len());
        for index in 0..words_of(self.len()).max(1) {
            body.set_key_word(way, index, word_at(self, index));
        }
    }
}

/// Words of a key of this length.
#[inline(always)]
fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(WORD)
}

/// The places of a copy whose key has this length: one has room for a word of the key beside the
/// value, and each further one for two.
#[inline(always)]
pub(super) fn places_of(bytes: usize) -> usize {
    1 + bytes.saturating_sub(WORD).div_ceil(2 * WORD)
}

/// The first word of a key, with zeros where that has ended.
#[inline(always)]
fn first_word(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => word_at(key, 0),
    }
}

/// A word of a key, with zeros where that has ended.
#[inline(always)]
fn word_at(key: &[u8], index: usize) -> u64 {
    let rest = &key[(WORD * index).min(key.len())..];
    match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let push = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
            rest.iter().rev().fold(0, push)
        }
    }
}

/// The finalizer of MurmurHash3 (Appleby 2011).
#[inline(always)]
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}
