//! Keys of up to eight bytes, for the maps with nodes of words.

/// A key of up to eight bytes: `to_word` preserves the order.
pub trait Key: Copy + Send + Sync + 'static {
    /// The key as a word; `a < b` exactly if `a.to_word() < b.to_word()`.
    fn to_word(self) -> u64;
    /// The key that `word` was made from.
    fn from_word(word: u64) -> Self;
}

macro_rules! unsigned {
    ($($int:ty),*) => {$(
        impl Key for $int {
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
        impl Key for $int {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_order<K: Key + Ord + std::fmt::Debug>(sorted: &[K]) {
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
    }
}
