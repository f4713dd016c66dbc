//! What records of the examples are called.

/// A key of sixteen bytes, in no order.
pub fn name(key: u64) -> [u8; 16] {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut name = [0; 16];
    name[..8].copy_from_slice(&mixed.to_be_bytes());
    name[8..].copy_from_slice(&key.to_be_bytes());
    name
}
