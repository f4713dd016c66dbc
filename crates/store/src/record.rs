//! A record on the disk.
//!
//! ```text
//!  0  checksum u32 of all behind it     4  bytes of the value u32
//!  8  sequence number, 56 bits         15  kind u8
//! 16  bytes of the key u16             18  1 if the batch goes on behind it, u8      19  0
//! 24  key, value, zeros up to a multiple of 8
//! ```
//!
//! All numbers are little-endian. The checksum is CRC-32C. Sequence numbers ascend in the order in
//! which operations took effect, from 1; a record that cleaning moves keeps its own. Of several
//! records with one key the one with the greatest number counts.

use crate::location::GRAIN;

/// The longest key in bytes.
pub const MAX_KEY: usize = u16::MAX as usize;

/// Bytes in front of the key.
pub(crate) const HEADER: usize = 24;

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
}

/// A record in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record<'a> {
    pub kind: Kind,
    pub sequence: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Whether the next record belongs to the same batch.
    pub goes_on: bool,
}

/// Bytes of a record with key and value of these lengths.
pub(crate) fn bytes_of(key: usize, value: usize) -> usize {
    (HEADER + key + value).next_multiple_of(GRAIN as usize)
}

impl<'a> Record<'a> {
    /// A record of its own, not of a batch.
    pub fn new(kind: Kind, sequence: u64, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record {
            kind,
            sequence,
            key,
            value,
            goes_on: false,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        bytes_of(self.key.len(), self.value.len())
    }

    /// Writes it to bytes of that length.
    pub fn encode(&self, to: &mut [u8]) {
        debug_assert!(to.len() == self.bytes() && self.sequence < 1 << 56);
        to[4..8].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        let sequence = self.sequence | (self.kind as u64) << 56;
        to[8..16].copy_from_slice(&sequence.to_le_bytes());
        to[16..18].copy_from_slice(&(self.key.len() as u16).to_le_bytes());
        to[18..HEADER].fill(0);
        to[18] = u8::from(self.goes_on);
        let (key, rest) = to[HEADER..].split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        let (value, padding) = rest.split_at_mut(self.value.len());
        value.copy_from_slice(self.value);
        padding.fill(0);
        let checksum = crc32c::crc32c(&to[4..]);
        to[..4].copy_from_slice(&checksum.to_le_bytes());
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
    pub fn decode_checked(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (value, key) = (u32_at(bytes, 4) as usize, key_len(bytes));
        let word = u64::from_le_bytes(*bytes[8..].first_chunk()?);
        let kind = match word >> 56 {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::Seal,
            _ => return None,
        };
        let (key, rest) = bytes.get(HEADER..)?.split_at_checked(key)?;
        Some(Record {
            kind,
            sequence: word & ((1 << 56) - 1),
            key,
            value: rest.get(..value)?,
            goes_on: bytes[18] == 1,
        })
    }

    /// Bytes of the record that seems to be at the start of these; it may be anything. `None` if
    /// they are too few for a header.
    pub fn len_at(bytes: &[u8]) -> Option<usize> {
        let header = bytes.get(..HEADER)?;
        Some(bytes_of(key_len(header), u32_at(header, 4) as usize))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn key_len(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[16], bytes[17]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(record: &Record) -> Vec<u8> {
        let mut bytes = vec![0xaa; record.bytes()];
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let long = vec![7; 5000];
        for (key, value) in [(&b""[..], &b""[..]), (b"key", b"value"), (&long, &long)] {
            for kind in [Kind::Put, Kind::Delete, Kind::Seal] {
                for goes_on in [false, true] {
                    let record = Record {
                        kind,
                        sequence: (1 << 56) - 1,
                        key,
                        value,
                        goes_on,
                    };
                    let bytes = encoded(&record);
                    assert_eq!(bytes.len() % 8, 0);
                    assert_eq!(Record::decode(&bytes), Some(record));
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = encoded(&Record::new(Kind::Put, 12, b"key", b"a value"));
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged), None, "bit {bit}");
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
