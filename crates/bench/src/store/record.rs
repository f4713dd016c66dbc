//! The records of the load: their keys and values, put into the store and got from it.

use std::ops::{Deref, RangeInclusive};
use std::sync::LazyLock;

use timberline_store::Store;

use crate::workload::Rng;

/// Bytes of the longest key.
const LONGEST_KEY: usize = 128;

/// A key, in no order.
#[derive(Clone, Copy)]
pub struct Key {
    bytes: [u8; LONGEST_KEY],
    len: usize,
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes that no store can compress: up to a mebibyte.
fn noise(id: u64, bytes: usize) -> &'static [u8] {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut rng = Rng::new(0, 0);
        let words = (0..(2 << 20) / 8).map(|_| rng.bits().to_le_bytes());
        words.flatten().collect()
    });
    let from = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44) as usize;
    &NOISE[from..from + bytes]
}

/// The sizes of records.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Bytes of a key: those that [`Sizes::KEYS`] has.
    pub key_bytes: usize,
    /// Bytes of a value, up to a mebibyte.
    pub value_bytes: usize,
}

impl Sizes {
    /// Bytes that keys can have: fewer would not be different.
    pub const KEYS: RangeInclusive<usize> = 8..=LONGEST_KEY;

    /// The key of a record: a number mixed well, the number itself, and zeros, as far as there is
    /// room.
    pub fn key(self, id: u64) -> Key {
        // A bijection, so the first eight bytes are different already.
        let mixed = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; LONGEST_KEY];
        bytes[..8].copy_from_slice(&mixed.to_be_bytes());
        bytes[8..16].copy_from_slice(&id.to_be_bytes());
        Key {
            bytes,
            len: self.key_bytes,
        }
    }

    /// The value of a record.
    pub fn value(self, id: u64) -> Vec<u8> {
        let mut value = noise(id, self.value_bytes).to_vec();
        if let Some(first) = value.first_mut() {
            *first = id as u8;
        }
        value
    }

    /// Whether this is the value of a record.
    pub fn is_value(self, id: u64, value: &[u8]) -> bool {
        match value.split_first() {
            Some((first, rest)) => *first == id as u8 && *rest == noise(id, self.value_bytes)[1..],
            None => self.value_bytes == 0,
        }
    }

    /// Puts a record.
    pub async fn put(self, store: &Store, id: u64) -> Result<(), String> {
        let put = store.put(&self.key(id), &self.value(id)).await;
        put.map_err(|error| error.to_string())
    }

    /// Gets a record, which is not there or what was put. Returns whether it is there.
    pub async fn get(self, store: &Store, id: u64) -> Result<bool, String> {
        let found = store.get(&self.key(id)).await;
        match found.map_err(|error| error.to_string())? {
            Some(value) if self.is_value(id, &value) => Ok(true),
            Some(_) => Err(lost(id)),
            None => Ok(false),
        }
    }
}

/// What is said of a record that is not there, or has another value.
pub fn lost(id: u64) -> String {
    format!("record {id} is not what was put")
}
