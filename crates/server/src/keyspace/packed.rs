//! Elements of a small hash or set, in their key's record.
//!
//! An index entry and a record for each of a few short elements take several times the elements'
//! bytes. A packed key has the id 0; behind the number of its elements are these, in the order of
//! their names:
//!
//! ```text
//! name's length u16 · value's length u16 · name · value
//! ```
//!
//! A hash or set that has got elements of its own keeps them so: it would go back and forth
//! otherwise. In the pool none is packed, as elements are with their key there anyway.

use super::{Entry, Kind};

/// The most bytes of elements, with their lengths, in their key's record: a change of one writes
/// all of them again.
pub(super) const SMALL: usize = 512;

/// Bytes of the lengths of an element.
const LENGTHS: usize = 4;

/// Packed elements in order: names and values.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    /// The elements of a hash or set, if they are packed.
    pub fn of(entry: &'a Entry) -> Option<Packed<'a>> {
        let is_packed = matches!(entry.kind, Kind::Hash | Kind::Set) && entry.id() == 0;
        is_packed.then(|| Packed(entry.rest()))
    }

    /// The value of an element.
    pub fn get(mut self, name: &[u8]) -> Option<&'a [u8]> {
        self.find(|it| it.0 == name).map(|it| it.1)
    }
}

impl<'a> Iterator for Packed<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (lengths, rest) = self.0.split_first_chunk::<LENGTHS>()?;
        let length = |at| usize::from(u16::from_le_bytes([lengths[at], lengths[at + 1]]));
        let (name, rest) = rest.split_at_checked(length(0))?;
        let (value, rest) = rest.split_at_checked(length(2))?;
        self.0 = rest;
        Some((name, value))
    }
}

/// Packs elements, which come in the order of their names; `None` if they take too many bytes.
pub(super) fn pack<'a>(elements: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (name, value) in elements {
        if bytes.len() + LENGTHS + name.len() + value.len() > SMALL {
            return None;
        }
        // They are below `SMALL`.
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend((value.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read() {
        let elements = [(&b""[..], &b"1"[..]), (b"a", b""), (b"bc", b"23")];
        let bytes = pack(elements.into_iter()).unwrap();
        assert_eq!(bytes.len(), 3 * LENGTHS + 3 + 3);
        assert!(Packed(&bytes).eq(elements));
        assert_eq!(Packed(&bytes).get(b"bc"), Some(&b"23"[..]));
        assert_eq!(Packed(&bytes).get(b"b"), None);
    }

    #[test]
    fn only_small_ones_are_packed() {
        let fits = [b'x'; SMALL - LENGTHS];
        assert_eq!(
            pack([(&fits[..], &[][..])].into_iter()).unwrap().len(),
            SMALL
        );
        assert_eq!(pack([(&fits[..], &b"1"[..])].into_iter()), None);
    }

    #[test]
    fn a_damaged_record_ends_early() {
        let bytes = pack([(&b"abc"[..], &b"d"[..])].into_iter()).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(Packed(&bytes[..end]).count(), 0);
        }
    }
}
