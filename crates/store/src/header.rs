//! What a segment's file begins with.
//!
//! ```text
//!  0  "TIMBERLN"   8  version u32   12  number u32   16  store u64   24  sequence u64
//! 32  checksum u32 of all before it
//! ```
//!
//! `store` is drawn when a store is made, so that files of two stores are not taken for one.
//! `sequence` is the greatest number of a record when the segment was made. Headers of all versions
//! begin so; therefore one of a later version is not taken for a damaged one.
//!
//! A damaged header costs nothing: the file's name has its number, other segments have the store's,
//! and records have their own numbers and checksums.

use crate::location::SegmentId;

const MAGIC: &[u8; 8] = b"TIMBERLN";
/// The version of the format that this code writes. It reads version 1 too, in which no record
/// expires, version 2, in which no value is in pieces, and version 3, in which no record says how
/// much was on the disk.
const VERSION: u32 = 4;
/// Bytes of a header.
pub(crate) const HEADER: usize = 36;

/// What a segment's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub id: SegmentId,
    pub store: u64,
    pub sequence: u64,
}

/// Why bytes are no header that can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// They are not what was written, or nothing was.
    Damaged,
    /// It is whole, of a version that this program does not know.
    Version(String),
}

impl Header {
    /// Writes it to the front of a block.
    pub fn encode(self, to: &mut [u8]) {
        to[..8].copy_from_slice(MAGIC);
        to[8..12].copy_from_slice(&VERSION.to_le_bytes());
        to[12..16].copy_from_slice(&self.id.0.to_le_bytes());
        to[16..24].copy_from_slice(&self.store.to_le_bytes());
        to[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        let checksum = crc32c::crc32c(&to[..32]);
        to[32..HEADER].copy_from_slice(&checksum.to_le_bytes());
    }

    /// The header in a file's first bytes, of which there are enough.
    pub fn decode(bytes: &[u8]) -> Result<Header, Unread> {
        let u32_at = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let u64_at = |at| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..8] != *MAGIC || crc32c::crc32c(&bytes[..32]) != u32_at(32) {
            return Err(Unread::Damaged);
        }
        let version = u32_at(8);
        if !(1..=VERSION).contains(&version) {
            return Err(Unread::Version(format!(
                "its format is version {version}; this program reads 1 to {VERSION}"
            )));
        }
        let (id, store, sequence) = (SegmentId(u32_at(12)), u64_at(16), u64_at(24));
        Ok(Header {
            id,
            store,
            sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let header = Header {
            id: SegmentId(0x1234),
            store: 77,
            sequence: 1 << 40,
        };
        let mut bytes = [0; HEADER];
        header.encode(&mut bytes);
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..8 * HEADER {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&damaged), Err(Unread::Damaged), "bit {bit}");
        }
        assert_eq!(Header::decode(&[0; HEADER]), Err(Unread::Damaged));
    }
}
