//! A key in a page, and what a checkpoint knows of it.
//!
//! ```text
//! bytes that the key shares with the one before, bytes that follow, and these
//! how much smaller the segment's number is than the checkpoint's, times 2; less 1 if it is greater
//! offset ÷ 8, in 3 bytes
//! the location's lowest 16 bits, the upper 3 of them, flags, at the lower end
//! if it expires: when, u64        if its value is in pieces: of which, 24 bytes
//! ```
//!
//! Numbers without a length have seven bits in a byte, the lowest first; all bytes but the last one
//! have the eighth bit (LEB128). Before version 4 lengths were u16, and the location a u64.

use super::page::u64_at;
use crate::location::Location;
use crate::pieces::Descriptor;
use crate::record::NEVER;

/// What is known of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub location: Location,
    /// [`NEVER`] if it does not expire.
    pub expires: u64,
    /// What its value is made of, if that is in pieces.
    pub about: Option<Descriptor>,
}

impl Entry {
    /// Appends the bytes of one whose key comes behind `before` in the checkpoint of this number.
    pub fn append_to(&self, bytes: &mut Vec<u8>, key: &[u8], before: &[u8], number: u32) {
        let both = key.iter().zip(before);
        let shared = both.take_while(|(a, b)| a == b).count();
        append_number(bytes, shared as u32);
        append_number(bytes, (key.len() - shared) as u32);
        bytes.extend_from_slice(&key[shared..]);
        let (segment, grains, rest) = self.location.parts();
        let back = number.wrapping_sub(segment) as i32;
        append_number(bytes, (back << 1 ^ back >> 31) as u32);
        bytes.extend_from_slice(&grains.to_le_bytes()[..3]);
        append_number(bytes, rest.rotate_left(3).into());
        if self.location.expires() {
            bytes.extend_from_slice(&self.expires.to_le_bytes());
        }
        if let Some(about) = self.about {
            bytes.extend_from_slice(&about.encode());
        }
    }
}

/// The keys of a page in order, with what is known of each.
pub struct Entries<'a> {
    /// What follows.
    bytes: &'a [u8],
    version: u32,
    /// The checkpoint's.
    number: u32,
    key: Vec<u8>,
    is_first: bool,
}

impl<'a> Entries<'a> {
    /// Those of a page's payload, in this version of the format.
    pub fn new(bytes: &'a [u8], version: u32, number: u32) -> Entries<'a> {
        Entries {
            bytes,
            version,
            number,
            key: Vec::new(),
            is_first: true,
        }
    }

    pub fn are_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The key of the last one.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Goes on to the next one; `None` if it is damaged.
    pub fn next(&mut self) -> Option<Entry> {
        let is_old = self.version < 4;
        let [shared, more] = match is_old {
            true => [self.u16()?, self.u16()?],
            false => [self.number()?, self.number()?],
        };
        let more = self.take(more as usize)?;
        let behind = self.key.get(shared as usize..)?;
        // The first byte most often tells: what both keys begin with was left out.
        let ascends = more.first() > behind.first() || more > behind;
        if !std::mem::take(&mut self.is_first) && !ascends {
            return None;
        }
        self.key.truncate(shared as usize);
        self.key.extend_from_slice(more);
        let location = match is_old {
            true => Location::from_version(self.version, self.u64()?),
            false => self.location()?,
        };
        let mut entry = Entry {
            location,
            expires: NEVER,
            about: None,
        };
        if location.expires() {
            entry.expires = self.u64()?;
        }
        if location.is_large() {
            entry.about = Some(Descriptor::decode(self.take(Descriptor::BYTES)?)?);
        }
        Some(entry)
    }

    fn location(&mut self) -> Option<Location> {
        let back = self.number()?;
        let back = (back >> 1) as i32 ^ -((back & 1) as i32);
        let segment = self.number.wrapping_sub(back as u32);
        let &[a, b, c] = self.take(3)?.first_chunk()?;
        let rest = u16::try_from(self.number()?).ok()?.rotate_right(3);
        Location::of_parts(segment, u32::from_le_bytes([a, b, c, 0]), rest)
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(bytes)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64_at(self.take(8)?, 0))
    }

    fn u16(&mut self) -> Option<u32> {
        let &bytes = self.take(2)?.first_chunk()?;
        Some(u16::from_le_bytes(bytes).into())
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..32).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

fn append_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::SegmentId;
    use crate::record::{Kind, MAX_KEY, Record};

    fn entry(segment: u32, offset: u64, record: &Record) -> Entry {
        Entry {
            location: Location::of(SegmentId(segment), offset, record),
            expires: record.expires,
            about: record.large.then_some(Descriptor {
                id: 1 << 55,
                len: 1 << 26,
                piece: 1 << 20,
            }),
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let put = Record::new(Kind::Put, 1, b"", b"");
        let long = vec![7; 1 << 20];
        let longest_key = [b"abd", &vec![9; MAX_KEY - 3][..]].concat();
        let expires = Record { expires: 5, ..put };
        let fresh = Record {
            fresh: true,
            ..expires
        };
        let large = Record {
            large: true,
            ..fresh
        };
        let all: [(&[u8], Entry); 6] = [
            (b"", entry(0, 4096, &put)),
            (b"abc", entry(SegmentId::LAST.0, (1 << 27) - 8, &put)),
            (
                b"abcd",
                entry(7, 4096, &Record::new(Kind::Put, 1, b"abcd", &long)),
            ),
            (b"abd", entry(8, 8, &expires)),
            (&longest_key, entry(9, 1 << 20, &fresh)),
            (b"b", entry(1, 4096, &large)),
        ];
        for number in [0, 7, SegmentId::LAST.0] {
            let mut bytes = Vec::new();
            let mut before: &[u8] = b"";
            for (key, entry) in all {
                entry.append_to(&mut bytes, key, before, number);
                before = key;
            }
            let mut entries = Entries::new(&bytes, 4, number);
            for (key, entry) in all {
                assert_eq!(entries.next(), Some(entry));
                assert_eq!(entries.key(), key);
            }
            assert!(entries.are_over());
            for len in 0..bytes.len() {
                let mut entries = Entries::new(&bytes[..len], 4, number);
                while !entries.are_over() && entries.next().is_some() {}
                assert!(entries.key().len() <= MAX_KEY);
            }
        }
    }

    #[test]
    fn a_key_of_16_bytes_takes_8_more() {
        let mut bytes = Vec::new();
        let put = Record::new(Kind::Put, 1, b"", &[0; 1000]);
        entry(900, 1 << 23, &put).append_to(&mut bytes, &[1; 16], b"", 1000);
        assert_eq!(bytes.len(), 24);
    }

    #[test]
    fn keys_ascend_and_numbers_end() {
        let put = entry(0, 4096, &Record::new(Kind::Put, 1, b"", b""));
        let mut bytes = Vec::new();
        put.append_to(&mut bytes, b"b", b"", 0);
        put.append_to(&mut bytes, b"a", b"b", 0);
        let mut entries = Entries::new(&bytes, 4, 0);
        assert_eq!(entries.next(), Some(put));
        assert_eq!(entries.next(), None);
        assert_eq!(Entries::new(&[0xff; 100], 4, 0).next(), None);
    }
}
