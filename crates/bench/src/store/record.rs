//! The records of the load: their keys and values, put into the store and got from it.

use std::sync::LazyLock;

use timberline_store::Store;

use crate::workload::Rng;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// A key of sixteen bytes, in no order.
pub fn key(id: u64) -> [u8; KEY_BYTES] {
    let mixed = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
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

/// The value of a record.
pub fn value(id: u64, bytes: usize) -> Vec<u8> {
    let mut value = noise(id, bytes).to_vec();
    if let Some(first) = value.first_mut() {
        *first = id as u8;
    }
    value
}

/// Whether this is the value of a record, which has so many bytes.
pub fn is_value(id: u64, bytes: usize, value: &[u8]) -> bool {
    match value.split_first() {
        Some((first, rest)) => *first == id as u8 && *rest == noise(id, bytes)[1..],
        None => bytes == 0,
    }
}

/// Puts a record.
pub async fn put(store: Store, id: u64, value_bytes: usize) -> Result<(), String> {
    let put = store.put(&key(id), &value(id, value_bytes)).await;
    put.map_err(|error| error.to_string())
}

/// Gets a record, which must be what was put.
pub async fn get(store: Store, id: u64, value_bytes: usize) -> Result<(), String> {
    let found = store.get(&key(id)).await;
    let found = found.map_err(|error| error.to_string())?;
    match found.is_some_and(|it| is_value(id, value_bytes, &it)) {
        true => Ok(()),
        false => Err(lost(id)),
    }
}

/// What is said of a record that is not there, or has another value.
pub fn lost(id: u64) -> String {
    format!("record {id} is not what was put")
}
