//! The format of records: the keys that requests stand for, and the length of values.

use std::sync::Arc;

use crate::BadInput;
use crate::workload::Lines;

/// A word: the minimum size of a key or a value, bytes.
const WORD: usize = size_of::<u64>();

#[derive(Clone, Debug, Default)]
pub enum Keys {
    /// 64-bit numbers, as in the requests.
    #[default]
    Words,
    /// Byte strings of this length, more than eight: the number in big-endian order, repeated.
    Wide(usize),
    /// The byte strings with these ids.
    Lines(Arc<Lines>),
}

impl Keys {
    /// Keys of `bytes` bytes.
    ///
    /// # Errors
    /// `bytes` is not 8 to 128.
    pub fn of_bytes(bytes: usize) -> Result<Keys, BadInput> {
        match bytes {
            WORD => Ok(Keys::Words),
            9..=128 => Ok(Keys::Wide(bytes)),
            _ => Err(BadInput(format!("--key-bytes {bytes}: give 8 to 128"))),
        }
    }

    /// The maximum length of a key, bytes.
    pub fn longest(&self) -> usize {
        match self {
            Keys::Words => WORD,
            Keys::Wide(bytes) => *bytes,
            Keys::Lines(lines) => lines.longest_key(),
        }
    }

    /// A description for messages.
    pub fn name(&self) -> String {
        match self {
            Keys::Words => "numbers".into(),
            Keys::Wide(bytes) => format!("keys of {bytes} bytes"),
            Keys::Lines(_) => "keys from a file".into(),
        }
    }

    /// Sets `bytes` to the byte string of a request's key.
    #[inline]
    pub fn write(&self, key: u64, bytes: &mut Vec<u8>) {
        bytes.clear();
        match self {
            Keys::Words => bytes.extend_from_slice(&key.to_be_bytes()),
            Keys::Wide(length) => {
                let word = key.to_be_bytes();
                while bytes.len() + WORD <= *length {
                    bytes.extend_from_slice(&word);
                }
                bytes.extend_from_slice(&word[..length - bytes.len()]);
            }
            Keys::Lines(lines) => lines.push_key(key, bytes),
        }
    }
}

#[derive(Clone, Debug)]
pub struct RecordFormat {
    pub keys: Keys,
    /// Bytes of its value: 8 for a word, more for a block.
    pub value_bytes: usize,
}

impl Default for RecordFormat {
    fn default() -> Self {
        RecordFormat {
            keys: Keys::default(),
            value_bytes: WORD,
        }
    }
}

impl RecordFormat {
    /// Records with these keys and values.
    ///
    /// # Errors
    /// `value_bytes` is not 8 to 2048.
    pub fn new(keys: Keys, value_bytes: usize) -> Result<RecordFormat, BadInput> {
        match value_bytes {
            WORD..=2048 => Ok(RecordFormat { keys, value_bytes }),
            _ => Err(BadInput(format!(
                "--value-bytes {value_bytes}: give 8 to 2048"
            ))),
        }
    }

    /// Whether keys are numbers.
    pub fn has_word_keys(&self) -> bool {
        matches!(self.keys, Keys::Words)
    }

    /// Whether values are words, which are stored in the leaf.
    pub fn has_word_values(&self) -> bool {
        self.value_bytes == WORD
    }

    /// Bytes of a value stored outside its leaf; a slot is up to an eighth larger than its content.
    pub fn block_bytes(&self) -> usize {
        match self.has_word_values() {
            true => 0,
            false => self.value_bytes + self.value_bytes / 8 + 8,
        }
    }

    /// Bytes of a key and a value, as stored.
    pub fn bytes(&self) -> usize {
        self.keys.longest() + WORD + self.block_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_long_as_asked_and_in_the_order_of_their_numbers() {
        for length in [9, 15, 16, 17, 128] {
            let keys = Keys::of_bytes(length).unwrap();
            let key = |number| {
                let mut bytes = vec![7; 3];
                keys.write(number, &mut bytes);
                bytes
            };
            let numbers = [0, 1, 255, 256, 1 << 40, u64::MAX];
            let written = numbers.map(key);
            assert!(written.is_sorted_by(|one, two| one < two));
            assert!(written.iter().all(|key| key.len() == length));
            assert_eq!(keys.longest(), length);
        }
        assert!(matches!(Keys::of_bytes(8), Ok(Keys::Words)));
    }

    #[test]
    fn lengths_out_of_range_are_refused_with_the_range() {
        for bytes in [0, 7, 129] {
            let error = Keys::of_bytes(bytes).unwrap_err().to_string();
            assert_eq!(error, format!("--key-bytes {bytes}: give 8 to 128"));
        }
        for bytes in [0, 7, 2049] {
            let error = RecordFormat::new(Keys::Words, bytes)
                .unwrap_err()
                .to_string();
            assert_eq!(error, format!("--value-bytes {bytes}: give 8 to 2048"));
        }
    }
}
