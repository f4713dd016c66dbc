//! The bytes of a node of a [`PagedMap`](super::PagedMap).
//!
//! A node is a byte for its level, 0 for a leaf, and entries in the order of their keys: the
//! lengths of key and value, seven bits a byte, and both of them. An entry of an inner node has the
//! least key that its child may have, and the child.

use super::super::page::Page;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child {
    pub page: Page,
    /// Entries of all leaves below.
    pub count: u64,
}

impl Child {
    pub fn bytes(self) -> Vec<u8> {
        [&self.page.bytes()[..], &self.count.to_le_bytes()].concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Child> {
        let (page, count) = bytes.split_first_chunk()?;
        Some(Child {
            page: Page::of_bytes(page),
            count: u64::from_le_bytes(*count.first_chunk()?),
        })
    }
}

/// A node, read where its bytes are.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub level: u8,
    entries: &'a [u8],
}

impl<'a> View<'a> {
    pub fn of(bytes: &'a [u8]) -> View<'a> {
        match bytes.split_first() {
            Some((&level, entries)) => View { level, entries },
            None => View {
                level: 0,
                entries: &[],
            },
        }
    }

    pub fn entries(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            let (key, value) = (length(&mut rest)?, length(&mut rest)?);
            Some((rest.split_off(..key)?, rest.split_off(..value)?))
        })
    }

    /// The children of an inner node, each with the least key that it may have.
    pub fn children(self) -> impl Iterator<Item = (&'a [u8], Child)> {
        let entries = self.entries();
        entries.filter_map(|(least, child)| Some((least, Child::of_bytes(child)?)))
    }

    /// The child that has a key, if any has.
    pub fn child_of(self, key: &[u8]) -> Option<Child> {
        let mut children = self.children();
        let first = children.next()?.1;
        // What is below the least key of all is the first child's.
        let before = children.take_while(|it| it.0 <= key);
        Some(before.last().map_or(first, |it| it.1))
    }

    /// Entries of all leaves below, or of this one.
    pub fn count(self) -> u64 {
        match self.level {
            0 => self.entries().count() as u64,
            _ => self.children().map(|it| it.1.count).sum(),
        }
    }
}

/// Takes a length from the front.
fn length(bytes: &mut &[u8]) -> Option<usize> {
    let mut length = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = *bytes.split_off_first()?;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(length);
        }
    }
    None
}

fn put_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

/// Bytes that an entry takes.
pub fn bytes_of((key, value): &Entry) -> usize {
    let length = |bytes: usize| (usize::BITS - (bytes | 1).leading_zeros()).div_ceil(7) as usize;
    length(key.len()) + length(value.len()) + key.len() + value.len()
}

/// A node of these entries.
pub fn encode(level: u8, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + entries.iter().map(bytes_of).sum::<usize>());
    bytes.push(level);
    for (key, value) in entries {
        put_length(&mut bytes, key.len());
        put_length(&mut bytes, value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let lengths = [0, 1, 127, 128, 16_383, 16_384, 3_000_000];
        let mut entries = Vec::new();
        for (number, &length) in lengths.iter().enumerate() {
            entries.push((vec![number as u8; length], vec![7; lengths[6 - number]]));
        }
        let bytes = encode(3, &entries);
        assert_eq!(bytes.len(), 1 + entries.iter().map(bytes_of).sum::<usize>());
        let view = View::of(&bytes);
        let read = view.entries().map(|it| (it.0.to_vec(), it.1.to_vec()));
        assert_eq!(view.level, 3);
        assert!(read.eq(entries));
        assert_eq!(View::of(&bytes[..bytes.len() - 1]).entries().count(), 6);
        assert_eq!(View::of(&[]).entries().count(), 0);
    }
}
