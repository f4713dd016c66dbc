//! Decodes a fuzzer's bytes into keys, bounds and operations. A list ends where the bytes do.

use std::ops::Bound;

use arbitrary::{Result, Unstructured};

/// A bound at a key.
pub fn bound<K>(
    u: &mut Unstructured<'_>,
    key: impl FnOnce(&mut Unstructured<'_>) -> Result<K>,
) -> Result<Bound<K>> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Bound::Included(key(u)?),
        1 => Bound::Excluded(key(u)?),
        _ => Bound::Unbounded,
    })
}

/// The ends to take from, up to sixteen times.
pub fn turns(u: &mut Unstructured<'_>) -> Result<Vec<bool>> {
    let (bits, count) = (u.arbitrary::<u16>()?, u.int_in_range(0..=16)?);
    Ok((0..count).map(|turn| bits >> turn & 1 == 1).collect())
}

/// Up to `most` items.
pub fn some<T>(
    u: &mut Unstructured<'_>,
    most: usize,
    mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| one(u)).collect()
}
