//! Records of 1,000 bytes, of which a get tells whether it found the right one.

mod name;

use name::name;
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
