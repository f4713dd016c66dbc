//! A page of a checkpoint.
//!
//! ```text
//!  0  checksum u32 of all behind it     4  bytes of the payload u32
//!  8  "TIMBERCP"     16  version u32    20  number of the file u32
//! 24  store u64      32  sequence u64   40  number of the page u32    44  kind u32
//! 48  payload, zeros up to a multiple of 4096
//! ```
//!
//! All numbers are little-endian, the checksum is CRC-32C. Pages with segments come first, then
//! those with pieces of values, those with keys, and one without payload: it says that this is all.

use timberline_io::BLOCK;

/// The most bytes of a page: any key fits in.
pub const PAGE: usize = 256 << 10;
/// Bytes in front of the payload.
pub const HEADER: usize = 48;

const MAGIC: &[u8; 8] = b"TIMBERCP";
/// The version of the format that this code writes. It reads those before too.
const VERSION: u32 = 4;

/// What is in a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Segments = 1,
    Keys = 2,
    End = 3,
    Pieces = 4,
}

/// What all pages of a checkpoint say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Of the file.
    pub number: u32,
    pub store: u64,
    /// The greatest number of a record when the checkpoint was begun.
    pub sequence: u64,
}

/// A page that was read.
pub struct Page<'a> {
    pub version: u32,
    pub origin: Origin,
    pub index: u32,
    pub kind: Kind,
    pub payload: &'a [u8],
}

/// Completes a page whose payload has this many bytes. Returns the bytes to write.
pub fn seal(bytes: &mut [u8], payload: usize, origin: Origin, index: u32, kind: Kind) -> usize {
    let end = HEADER + payload;
    let len = end.next_multiple_of(BLOCK);
    bytes[end..len].fill(0);
    bytes[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(MAGIC);
    bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
    bytes[20..24].copy_from_slice(&origin.number.to_le_bytes());
    bytes[24..32].copy_from_slice(&origin.store.to_le_bytes());
    bytes[32..40].copy_from_slice(&origin.sequence.to_le_bytes());
    bytes[40..44].copy_from_slice(&index.to_le_bytes());
    bytes[44..48].copy_from_slice(&(kind as u32).to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[4..end]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    len
}

impl<'a> Page<'a> {
    /// The page at the start of these bytes, or why there is none, in one line.
    pub fn decode(bytes: &'a [u8]) -> Result<Page<'a>, String> {
        let damaged = || "it is damaged".to_string();
        if bytes.len() < HEADER || bytes[..HEADER].iter().all(|&byte| byte == 0) {
            return Err("it was never finished".into());
        }
        if bytes[8..16] != *MAGIC {
            return Err(damaged());
        }
        let version = u32_at(bytes, 16);
        if !(1..=VERSION).contains(&version) {
            return Err(format!(
                "its format is version {version}; this program reads 1 to {VERSION}"
            ));
        }
        let end = HEADER + u32_at(bytes, 4) as usize;
        let whole = bytes.get(4..end).ok_or_else(damaged)?;
        if crc32c::crc32c(whole) != u32_at(bytes, 0) {
            return Err(damaged());
        }
        let origin = Origin {
            number: u32_at(bytes, 20),
            store: u64_at(bytes, 24),
            sequence: u64_at(bytes, 32),
        };
        let kind = match u32_at(bytes, 44) {
            1 => Kind::Segments,
            2 => Kind::Keys,
            3 => Kind::End,
            4 => Kind::Pieces,
            _ => return Err(damaged()),
        };
        Ok(Page {
            version,
            origin,
            index: u32_at(bytes, 40),
            kind,
            payload: &bytes[HEADER..end],
        })
    }

    /// Bytes that it takes in the file.
    pub fn bytes(&self) -> u64 {
        (HEADER + self.payload.len()).next_multiple_of(BLOCK) as u64
    }
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_page_is_found() {
        let origin = Origin {
            number: 7,
            store: u64::MAX,
            sequence: 1 << 40,
        };
        let mut bytes = vec![3; BLOCK];
        assert_eq!(seal(&mut bytes, 20, origin, 5, Kind::Keys), BLOCK);
        let page = Page::decode(&bytes).expect("it is whole");
        assert_eq!(
            (page.origin, page.index, page.kind),
            (origin, 5, Kind::Keys)
        );
        assert_eq!((page.payload, page.bytes()), (&[3; 20][..], BLOCK as u64));
        for bit in 0..8 * (HEADER + 20) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Page::decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(Page::decode(&bytes[..60]).is_err());
        assert!(Page::decode(&[0; BLOCK]).is_err());
    }
}
