//! Bytes of keys as numbers.

use crate::key::common;

/// A whole key or fence, and the word of the block that holds it; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Text<'a> {
    pub bytes: &'a [u8],
    pub block: u64,
}

impl<'a> Text<'a> {
    /// A key that no block holds.
    pub fn new(bytes: &'a [u8]) -> Self {
        Text { bytes, block: 0 }
    }
}

/// Eight bytes of a key as a number, the first one highest; zeros for those that it lacks.
#[inline(always)]
pub fn word_at(key: &[u8], from: usize) -> u64 {
    let Some(rest) = key.get(from..) else {
        return 0;
    };
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    match (key.last_chunk::<8>(), rest.len()) {
        (_, 0) => 0,
        (Some(last), len) => u64::from_be_bytes(*last) << (64 - 8 * len),
        (None, len) => {
            let push = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
            rest.iter().fold(0, push) << (64 - 8 * len)
        }
    }
}

/// The head of a key after a prefix.
#[inline(always)]
pub fn head(key: &[u8], prefix: usize) -> u32 {
    (word_at(key, prefix) >> 32) as u32
}

/// A byte of a key's hash.
#[inline(always)]
pub fn print(key: &[u8]) -> u8 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, _) = key.as_chunks::<8>();
    let mut hash = key.len() as u64;
    for word in words {
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
    }
    hash = (hash.rotate_left(23) ^ word_at(key, 8 * words.len())).wrapping_mul(FACTOR);
    ((hash ^ hash >> 29).wrapping_mul(FACTOR) >> 56) as u8
}

/// The shortest string that is greater than `below` and not greater than `above`.
pub fn separator<'a>(below: &[u8], above: &'a [u8]) -> &'a [u8] {
    debug_assert!(below < above);
    &above[..common(below, above) + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_padded_with_zeros_wherever_they_begin() {
        let key: Vec<u8> = (1..=20).collect();
        for len in 0..=key.len() {
            for from in 0..=len + 1 {
                let rest = key[..len].get(from..).unwrap_or(&[]);
                let mut padded = [0; 8];
                let some = rest.len().min(8);
                padded[..some].copy_from_slice(&rest[..some]);
                assert_eq!(word_at(&key[..len], from), u64::from_be_bytes(padded));
            }
        }
    }

    #[test]
    fn a_separator_is_short_and_between() {
        assert_eq!(separator(b"", b"abc"), b"a");
        assert_eq!(separator(b"ab", b"abc"), b"abc");
        assert_eq!(separator(b"abaz", b"abcd"), b"abc");
        assert_eq!(separator(b"a\xff\xff", b"b"), b"b");
    }

    #[test]
    fn prints_of_similar_keys_differ() {
        let prints = (0..1000).map(|n| print(format!("http://example.org/#{n}").as_bytes()));
        let mut seen = [0; 256];
        prints.for_each(|print| seen[usize::from(print)] += 1);
        assert!(seen.iter().all(|&times| times < 20), "{seen:?}");
    }
}
