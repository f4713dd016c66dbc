//! Keys of up to eight bytes, for the maps with nodes of words.

use std::net::Ipv4Addr;

use super::Key;

/// A key of up to eight bytes, which a [`BTree`](crate::BTree) keeps as a word: integers of up to
/// 64 bits, `char`, `bool`, `Ipv4Addr`, arrays, tuples, and options of these that are no longer.
///
/// A [`Key`] of a fixed length of up to eight bytes is made one by an empty `impl`. If it is
/// longer, a use of it does not compile:
///
/// ```
/// # use timberline::{Key, WordKey};
/// assert!((1u16, 2u32).to_word() < (1u16, 3u32).to_word());
/// ```
///
/// ```compile_fail,E0080
/// # use timberline::{Key, WordKey};
/// (1u64, 2u8).to_word();
/// ```
///
/// Nor does a map of keys that are none:
///
/// ```compile_fail,E0277
/// timberline::BTree::<String, u64>::new(); // `String` is no key of a `BTree`, …
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a `BTree`, whose keys have up to eight bytes",
    note = "`Art` and `Masstree` take strings, 128-bit integers, and every other `Key`",
    note = "if `{Self}` is a `Key` of up to eight bytes, `impl WordKey for {Self} {{}}` makes it one"
)]
pub trait WordKey: Key<Borrowed = Self, Owned = Self> + Copy {
    /// The key as a word; `a < b` exactly if `a.to_word() < b.to_word()`.
    #[inline]
    fn to_word(self) -> u64 {
        const { assert!(fits::<Self>(), "a key of a BTree has up to eight bytes") };
        let bytes = self.to_bytes();
        let mut word = [0; 8];
        word[8 - bytes.as_ref().len()..].copy_from_slice(bytes.as_ref());
        u64::from_be_bytes(word)
    }

    /// The key that `word` was made from.
    #[inline]
    fn from_word(word: u64) -> Self {
        const { assert!(fits::<Self>(), "a key of a BTree has up to eight bytes") };
        let len = Self::LEN.unwrap_or(8);
        Self::from_bytes(&word.to_be_bytes()[8 - len..])
    }
}

/// Whether keys fit a word.
const fn fits<K: Key>() -> bool {
    matches!(K::LEN, Some(..=8))
}

macro_rules! unsigned {
    ($($int:ty),*) => {$(
        impl WordKey for $int {
            #[inline(always)]
            fn to_word(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as $int
            }
        }
    )*};
}

macro_rules! signed {
    ($($int:ty),*) => {$(
        impl WordKey for $int {
            // Flipping the sign bit sorts negative numbers first.
            #[inline(always)]
            fn to_word(self) -> u64 {
                (self as i64 as u64) ^ (1 << 63)
            }
            #[inline(always)]
            fn from_word(word: u64) -> Self {
                (word ^ (1 << 63)) as $int
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, usize);
signed!(i8, i16, i32, i64, isize);

impl WordKey for bool {}
impl WordKey for char {}
impl WordKey for Ipv4Addr {}
impl<const N: usize> WordKey for [u8; N] {}
impl<K: WordKey> WordKey for Option<K> {}
impl<A: WordKey, B: WordKey> WordKey for (A, B) {}
impl<A: WordKey, B: WordKey, C: WordKey> WordKey for (A, B, C) {}
impl<A: WordKey, B: WordKey, C: WordKey, D: WordKey> WordKey for (A, B, C, D) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_order<K: WordKey + Ord + std::fmt::Debug>(sorted: &[K]) {
        for pair in sorted.windows(2) {
            assert!(pair[0].to_word() < pair[1].to_word(), "{pair:?}");
        }
        for &key in sorted {
            assert_eq!(K::from_word(key.to_word()), key);
        }
    }

    #[test]
    fn words_keep_the_order_of_keys() {
        keeps_order(&[0u64, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX]);
        keeps_order(&[i64::MIN, -5, -1, 0, 1, i64::MAX]);
        keeps_order(&[i8::MIN, -1, 0, i8::MAX]);
        keeps_order(&[0u16, 9, u16::MAX]);
        keeps_order(&[false, true]);
        keeps_order(&['a', 'ä', char::MAX]);
        keeps_order(&[[0, 1, 2], [1, 0, 0]]);
        keeps_order(&[None, Some(0u16), Some(u16::MAX)]);
        keeps_order(&[(-1i16, 9u32), (0, 0), (0, 1), (1, 0)]);
        keeps_order(&[
            (0u8, 'a', false, 0u16),
            (0, 'a', true, 0),
            (1, 'A', false, 9),
        ]);
    }
}
