//! Keys as words: a layer is a B+tree over slices of seven bytes, with an eighth byte for the
//! length.
//!
//! ```text
//! 63                                  8 7        0
//! | seven bytes of the key, the first   | 0..=7: the key ends after this many of them
//! | on top; zeros where it has ended    | 8: there is more of it
//! ```
//!
//! Words sort like the strings they are cut from: a string comes before its extensions, and a zero
//! byte counts. `btree/node/lead.rs` has the kinds of entries in border nodes.
//!
//! A skip replaces a chain of layers with one entry each. Its length is a multiple of seven bytes,
//! and so is the depth of a layer.

use crate::btree::node::MORE;

/// Bytes of a key in a slice.
pub(crate) const SLICE: usize = 7;

/// The slice of `key` from `depth` on; `depth` is at most the key's length.
#[inline(always)]
pub(crate) fn slice(key: &[u8], depth: usize) -> u64 {
    let rest = &key[depth..];
    if let Some(first) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*first) & !0xff | MORE;
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes) | rest.len() as u64
}

/// The slice of the first seven of more bytes.
pub(crate) fn slice_of_many(bytes: &[u8]) -> u64 {
    let mut slice = [MORE as u8; 8];
    slice[..SLICE].copy_from_slice(&bytes[..SLICE]);
    u64::from_be_bytes(slice)
}

/// Appends the bytes of the key in a slice.
pub(crate) fn push_bytes(slice: u64, to: &mut Vec<u8>) {
    let len = to.len() + (slice & 0xff).min(SLICE as u64) as usize;
    // A constant number of bytes, so that the copy is inlined.
    to.extend_from_slice(&slice.to_be_bytes());
    to.truncate(len);
}

/// The name of the layer below these bytes: their slices, big-endian, so that names sort as keys
/// do. `bytes` are whole slices.
pub(crate) fn path(bytes: &[u8]) -> Vec<u8> {
    debug_assert!(bytes.len().is_multiple_of(SLICE));
    let slices = bytes.chunks_exact(SLICE).map(slice_of_many);
    slices.flat_map(u64::to_be_bytes).collect()
}

/// The bytes of keys before the layer of this name.
pub(crate) fn key_before(path: &[u8]) -> Vec<u8> {
    let slices = path.chunks_exact(size_of::<u64>());
    slices.flat_map(|slice| &slice[..SLICE]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::node::has_more;

    #[test]
    fn slices_are_ordered_as_keys() {
        let mut keys: Vec<&[u8]> = vec![
            b"",
            b"\0",
            b"\0\0",
            b"\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0",
            b"a",
            b"a\0",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefh",
            b"b",
            b"\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        keys.sort();
        let slices: Vec<u64> = keys.iter().map(|key| slice(key, 0)).collect();
        assert!(slices.is_sorted_by(|one, two| one < two), "{slices:x?}");
        assert_eq!(slice(b"abcdefgh", 7), slice(b"h", 0));
        assert_eq!(slice(b"abcdefg", 7), slice(b"", 0));
        assert_eq!(slice(b"abcdefghi", 0), slice_of_many(b"abcdefg"));
    }

    #[test]
    fn a_slice_knows_its_bytes() {
        for key in [&b""[..], b"\0", b"abc\0", b"abcdefg"] {
            let mut bytes = Vec::new();
            push_bytes(slice(key, 0), &mut bytes);
            assert_eq!((&*bytes, has_more(slice(key, 0))), (key, false));
        }
        let mut bytes = Vec::new();
        push_bytes(slice(b"abcdefgh", 0), &mut bytes);
        assert_eq!(bytes, b"abcdefg");
        assert_eq!(path(b"abcdefghijklmn"), b"abcdefg\x08hijklmn\x08");
        assert_eq!(key_before(&path(b"abcdefghijklmn")), b"abcdefghijklmn");
    }
}
