//! Records of 1,000 bytes, of which a get tells whether it found the right one.

use timberline_store::Store;

/// Puts one.
pub async fn put(store: &Store, key: u64) {
    let put = store.put(&name(key), &[key as u8; 1000]).await;
    put.expect("there is space");
}

/// Gets one, which is there.
pub async fn get(store: &Store, key: u64) {
    let value = store.get(&name(key)).await.expect("it is read");
    assert_eq!(value.expect("it is there")[0], key as u8);
}

/// A key of sixteen bytes, in no order.
fn name(key: u64) -> [u8; 16] {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut name = [0; 16];
    name[..8].copy_from_slice(&mixed.to_be_bytes());
    name[8..].copy_from_slice(&key.to_be_bytes());
    name
}
