//! The stored values of requests: the word itself, or a block of bytes that starts with it.

use std::cell::RefCell;
use std::hint::black_box;

use timberline_tree::Value;

/// A stored value that stands for a word.
pub trait Stored: Value {
    /// Lends the value of `bytes` bytes for `word`.
    fn lend_word<R>(word: u64, bytes: usize, take: impl FnOnce(Self::Ref<'_>) -> R) -> R;

    /// Reads the whole value, and returns the word.
    fn word(value: Self::Ref<'_>) -> u64;
}

impl Stored for u64 {
    #[inline(always)]
    fn lend_word<R>(word: u64, _: usize, take: impl FnOnce(u64) -> R) -> R {
        take(word)
    }

    #[inline(always)]
    fn word(value: u64) -> u64 {
        value
    }
}

impl Stored for Vec<u8> {
    fn lend_word<R>(word: u64, bytes: usize, take: impl FnOnce(&[u8]) -> R) -> R {
        thread_local! {
            static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        VALUE.with_borrow_mut(|value| {
            value.resize(bytes, 0x5a);
            value[..size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
            take(value)
        })
    }

    fn word(value: &[u8]) -> u64 {
        let (words, rest) = value.as_chunks();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let first = words.next().unwrap_or(0);
        black_box((words.fold(0, |sum, word| sum ^ word), rest));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_its_length_and_its_word() {
        for bytes in [9, 16, 100, 2048] {
            for word in [0, 7, u64::MAX] {
                let seen = Vec::<u8>::lend_word(word, bytes, |value| {
                    assert_eq!(value.len(), bytes);
                    Vec::<u8>::word(value)
                });
                assert_eq!(seen, word);
            }
        }
        assert_eq!(u64::lend_word(7, 8, u64::word), 7);
    }
}
