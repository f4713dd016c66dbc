//! Keys that fit a word: those of a fixed length of up to eight bytes. A [`BTree`](crate::BTree)
//! keeps them as words, and all others as byte strings.

use super::Key;

/// Whether keys of this length ([`Key::LEN`]) fit a word.
pub const fn fits(len: Option<usize>) -> bool {
    matches!(len, Some(..=8))
}

/// A key that fits as a word; `a < b` exactly if `to_word(a) < to_word(b)`.
#[inline(always)]
pub fn to_word<K: Key + ?Sized>(key: &K) -> u64 {
    let bytes = key.to_bytes();
    let mut word = [0; 8];
    word[8 - bytes.as_ref().len()..].copy_from_slice(bytes.as_ref());
    u64::from_be_bytes(word)
}

/// The bytes of a key in its word.
#[inline(always)]
pub fn bytes_of_word<K: Key + ?Sized>(word: &[u8; 8]) -> &[u8] {
    &word[8 - K::LEN.unwrap_or(8)..]
}

/// The key that `word` was made from.
#[inline(always)]
pub fn from_word<K: Key + ?Sized>(word: u64) -> K::Owned {
    K::from_bytes(bytes_of_word::<K>(&word.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_order<K: Key<Owned = K> + Ord + std::fmt::Debug>(sorted: &[K]) {
        assert!(fits(K::LEN));
        for pair in sorted.windows(2) {
            assert!(to_word(&pair[0]) < to_word(&pair[1]), "{pair:?}");
        }
        for key in sorted {
            assert_eq!(&from_word::<K>(to_word(key)), key);
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

    #[test]
    fn what_is_longer_or_of_no_fixed_length_fits_none() {
        assert!(fits(<[u8; 8]>::LEN) && fits(<[u8; 0]>::LEN));
        assert!(!fits(<[u8; 9]>::LEN) && !fits(u128::LEN) && !fits(str::LEN));
    }
}
