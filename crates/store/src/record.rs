//! A record on the disk.
//!
//! ```text
//!  0  checksum u32 of all behind it     4  bytes of the value u32
//!  8  sequence number, 56 bits         15  kind u8
//! 16  bytes of the key u16             18  flags u8                19  zeros
//! 24  if it expires, when: milliseconds since 1970, u64
//!     key, value, zeros up to a multiple of 8
//! ```
//!
//! Flags: 1 if the batch goes on behind it, 2 if it expires, 4 if it is fresh: then it may go when
//! it has expired, and nothing has to be kept in its place ([`Record::fresh`]); 8 if the value is
//! large, in pieces, and these bytes say where ([`pieces`](crate::pieces)).
//!
//! All numbers are little-endian. The checksum is CRC-32C. Sequence numbers ascend in the order in
//! which operations took effect, from 1; a record that cleaning moves keeps its own. Of several
//! records with one key the one with the greatest number counts.

use std::ops::Deref;

use crate::location::GRAIN;

/// The longest key in bytes.
pub const MAX_KEY: usize = u16::MAX as usize;

/// Bytes that each record begins with.
pub(crate) const HEADER: usize = 24;

/// When a record expires that does not.
pub(crate) const NEVER: u64 = u64::MAX;

const GOES_ON: u8 = 1;
const EXPIRES: u8 = 2;
const FRESH: u8 = 4;
const LARGE: u8 = 8;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key is gone.
    Delete = 2,
    /// Nothing follows in this segment, and everything before it was on the disk when it was
    /// written.
    Seal = 3,
    /// A piece of a large value.
    Piece = 4,
    /// What is in front of a byte of this segment was on the disk when it was written: its value is
    /// that byte's place, u64.
    Mark = 5,
}

impl Kind {
    /// Whether it says something of its segment, and nothing of a key.
    pub fn is_of_segment(self) -> bool {
        matches!(self, Kind::Seal | Kind::Mark)
    }
}

/// A record in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    pub kind: Kind,
    pub sequence: u64,
    /// From this time on it does not count, in milliseconds since 1970; or [`NEVER`].
    pub expires: u64,
    /// Of one that expires: whether older records of its key were deleted, or have expired by
    /// themselves when it does, so that it hides none.
    pub fresh: bool,
    /// Whether the value lies in pieces, and this one says where.
    pub large: bool,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Whether the next record belongs to the same batch.
    pub goes_on: bool,
}

/// Bytes of a record with key and value of these lengths.
pub(crate) fn bytes_of(key: usize, value: usize, expires: bool) -> usize {
    (key_at(expires) + key + value).next_multiple_of(GRAIN as usize)
}

/// Where the key begins: bytes of a record beside its key, its value and what rounds them up.
pub(crate) fn key_at(expires: bool) -> usize {
    HEADER + if expires { 8 } else { 0 }
}

impl<'a> Record<'a> {
    /// A record of its own, not of a batch, that does not expire.
    pub fn new(kind: Kind, sequence: u64, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record {
            kind,
            sequence,
            expires: NEVER,
            fresh: false,
            large: false,
            key,
            value,
            goes_on: false,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        bytes_of(self.key.len(), self.value.len(), self.expires())
    }

    /// Whether it expires.
    pub fn expires(&self) -> bool {
        self.expires != NEVER
    }

    /// Whether it makes older records of its key obsolete without a value of its own, at once or
    /// when it expires.
    pub fn hides(&self) -> bool {
        self.kind == Kind::Delete || self.expires() && !self.fresh
    }

    /// Appends it to bytes, in which it begins at a multiple of [`GRAIN`].
    pub fn append_to(&self, to: &mut Vec<u8>) {
        debug_assert!(self.sequence < 1 << 56);
        let (start, bytes) = (to.len(), self.bytes());
        to.reserve(bytes);
        let mut flags = 0;
        if self.goes_on {
            flags |= GOES_ON;
        }
        if self.large {
            flags |= LARGE;
        }
        if self.expires() {
            flags |= EXPIRES | if self.fresh { FRESH } else { 0 };
        }
        let sequence = self.sequence | (self.kind as u64) << 56;
        let mut header = [0; HEADER];
        header[4..8].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&sequence.to_le_bytes());
        header[16..18].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        header[18] = flags;
        to.extend_from_slice(&header);
        if self.expires() {
            to.extend_from_slice(&self.expires.to_le_bytes());
        }
        to.extend_from_slice(self.key);
        to.extend_from_slice(self.value);
        let padding = start + bytes - to.len();
        to.extend_from_slice(&[0; GRAIN as usize - 1][..padding]);
        let checksum = crc32c::crc32c(&to[start + 4..]);
        to[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The record at the start of these bytes; `None` if there is none, or a damaged one.
    pub fn decode(bytes: &'a [u8]) -> Option<Record<'a>> {
        let len = Self::len_at(bytes)?;
        let whole = bytes.get(4..len)?;
        if crc32c::crc32c(whole) != u32_at(bytes, 0) {
            return None;
        }
        Self::decode_checked(bytes)
    }

    /// The same where the checksum was found to be right before.
    #[inline]
    pub fn decode_checked(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (record, rest) = Self::split_value(bytes)?;
        let value = rest.get(..u32_at(bytes, 4) as usize)?;
        Some(Record { value, ..record })
    }

    /// The record that seems to be at the start of these bytes, without its value; it may be
    /// anything.
    pub fn without_value(bytes: &'a [u8]) -> Option<Record<'a>> {
        Self::len_at(bytes)?;
        Some(Self::split_value(bytes)?.0)
    }

    /// A record without its value, and what is behind its key.
    #[inline]
    fn split_value(bytes: &'a [u8]) -> Option<(Record<'a>, &'a [u8])> {
        let key = key_len(bytes);
        let word = u64_at(bytes, 8)?;
        let kind = match word >> 56 {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::Seal,
            4 => Kind::Piece,
            5 => Kind::Mark,
            _ => return None,
        };
        let expires = match expires(bytes) {
            true => u64_at(bytes, HEADER)?,
            false => NEVER,
        };
        let behind = bytes.get(key_at(expires != NEVER)..)?;
        let (key, rest) = behind.split_at_checked(key)?;
        let record = Record {
            kind,
            sequence: word & ((1 << 56) - 1),
            expires,
            fresh: bytes[18] & FRESH != 0,
            large: bytes[18] & LARGE != 0,
            key,
            value: &[],
            goes_on: bytes[18] & GOES_ON != 0,
        };
        Some((record, rest))
    }

    /// Bytes of the record that seems to be at the start of these; it may be anything. `None` if
    /// they are too few for a header.
    pub fn len_at(bytes: &[u8]) -> Option<usize> {
        let header = bytes.get(..HEADER)?;
        let value = u32_at(header, 4) as usize;
        Some(bytes_of(key_len(header), value, expires(header)))
    }
}

/// A record as cleaning moves it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved<'a> {
    record: Record<'a>,
    /// What it was read from, if that can be written as it is: its checksum is known then.
    bytes: Option<&'a [u8]>,
}

impl<'a> Moved<'a> {
    /// The one that these are all bytes of, and whose checksum was found to be right, to lie alone,
    /// whatever its batch was.
    pub fn read(bytes: &'a [u8]) -> Option<Moved<'a>> {
        let record = Record::decode_checked(bytes)?;
        let bytes = (!record.goes_on).then_some(bytes);
        let goes_on = false;
        let record = Record { goes_on, ..record };
        Some(Moved { record, bytes })
    }

    /// One that is written in another's stead.
    pub fn instead(record: Record<'a>) -> Moved<'a> {
        let bytes = None;
        Moved { record, bytes }
    }

    /// The same as [`Record::append_to`].
    pub fn append_to(&self, to: &mut Vec<u8>) {
        match self.bytes {
            Some(bytes) => to.extend_from_slice(bytes),
            None => self.record.append_to(to),
        }
    }
}

impl<'a> Deref for Moved<'a> {
    type Target = Record<'a>;

    fn deref(&self) -> &Record<'a> {
        &self.record
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u64::from_le_bytes)
}

fn key_len(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[16], bytes[17]]))
}

fn expires(bytes: &[u8]) -> bool {
    bytes[18] & EXPIRES != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(record: &Record) -> Vec<u8> {
        let mut bytes = vec![0xaa; 8];
        record.append_to(&mut bytes);
        assert_eq!(bytes.len(), 8 + record.bytes());
        bytes.split_off(8)
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let long = vec![7; 5000];
        for (key, value) in [(&b""[..], &b""[..]), (b"key", b"value"), (&long, &long)] {
            for kind in [Kind::Put, Kind::Delete, Kind::Seal, Kind::Piece, Kind::Mark] {
                for (goes_on, expires, fresh) in [
                    (false, NEVER, false),
                    (true, NEVER, false),
                    (false, 0, false),
                    (true, 7, true),
                ] {
                    let record = Record {
                        kind,
                        sequence: (1 << 56) - 1,
                        expires,
                        fresh,
                        large: fresh || goes_on,
                        key,
                        value,
                        goes_on,
                    };
                    let bytes = encoded(&record);
                    assert_eq!(bytes.len() % 8, 0);
                    assert_eq!(Record::decode(&bytes), Some(record));
                    assert_eq!(Record::decode(&bytes[..bytes.len() - 8]), None);
                }
            }
        }
    }

    #[test]
    fn a_moved_record_is_alone() {
        for goes_on in [false, true] {
            let record = Record {
                goes_on,
                ..Record::new(Kind::Put, 12, b"key", b"a value")
            };
            let (read, mut moved) = (encoded(&record), Vec::new());
            let read = Moved::read(&read).expect("it is one");
            read.append_to(&mut moved);
            let goes_on = false;
            assert_eq!(Record::decode(&moved), Some(Record { goes_on, ..record }));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for expires in [NEVER, 1 << 40] {
            let bytes = encoded(&Record {
                expires,
                ..Record::new(Kind::Put, 12, b"key", b"a value")
            });
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Record::decode(&damaged), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn nothing_is_no_record() {
        for len in 0..100 {
            assert_eq!(Record::decode(&vec![0; len]), None);
            assert_eq!(Record::decode(&vec![0xff; len]), None);
        }
    }
}
