//! Keys that make a radix tree's nodes on the way to the keys below 256 wide.

/// With them, lookups of these keys come to their dense leaf by way of a node of 256 without a
/// prefix, which they read without its version.
pub fn keys() -> Vec<u64> {
    (1..64).flat_map(|byte| [byte << 8, byte << 16]).collect()
}
