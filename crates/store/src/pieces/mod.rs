//! Large values, in pieces.
//!
//! A value that is too long for one record lies in records of their own, its *pieces*, which are
//! appended one after the other. Then the key's record is appended, which says what the value is
//! made of. Records take effect in the log's order, so a crash shows the whole value or nothing of
//! it; pieces without such a record are dropped when the store is opened.
//!
//! ```text
//! a piece's key:   id u64, 0 in the first one     number u32
//! a key's record:  id u64     bytes of the value u64     bytes of a piece u32     zeros u32
//! ```
//!
//! All numbers are little-endian. The id of a value is the sequence number of its first piece, so
//! it is never used again. Cleaning moves pieces as other records; they keep their numbers.
//!
//! Invariants:
//! - A key whose word in the index says that its value is large has that value in the [`Table`].
//! - The table, and the places of a value's pieces, change under the log's lock, together with the
//!   log. A value that is not in the table any more does not change.

mod places;
mod reader;
mod table;
mod writer;

pub(crate) use places::Places;
pub use reader::{Stored, ValueReader};
pub(crate) use table::{Table, Value};
pub use writer::ValueWriter;
pub(crate) use writer::{Pending, is_large};

use crate::Options;
use crate::record::{HEADER, Kind, NEVER, Record};

/// The longest value in bytes: 64 MiB, and some for what a program puts in front of its own values.
pub const MAX_VALUE: usize = (64 << 20) + (4 << 10);

/// The most bytes of a piece, and of a value that is not in pieces.
const PIECE: usize = 1 << 20;
/// Bytes of a piece's key.
const KEY: usize = 12;
/// Numbers of pieces are less.
pub(crate) const MAX_PIECES: u32 = 1 << 16;

impl Options {
    /// Bytes of a piece but the last.
    fn piece(&self) -> usize {
        let most = self.largest() - HEADER - KEY.next_multiple_of(8);
        PIECE.min(most / 8 * 8)
    }
}

/// What a key's record says of a value in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    pub id: u64,
    /// Bytes of the value.
    pub len: u64,
    /// Bytes of each piece but the last.
    pub piece: u32,
}

impl Descriptor {
    pub const BYTES: usize = 24;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.piece.to_le_bytes());
        bytes
    }

    /// `None` if it can't be one.
    pub fn decode(bytes: &[u8]) -> Option<Descriptor> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (id, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let descriptor = Descriptor {
            id: u64::from_le_bytes(*id),
            len: u64::from_le_bytes(*len),
            piece: u32::from_le_bytes(*rest.first_chunk()?),
        };
        let is_one = descriptor.piece > 0
            && descriptor.len.div_ceil(u64::from(descriptor.piece)) <= u64::from(MAX_PIECES);
        is_one.then_some(descriptor)
    }

    /// How many pieces there are.
    pub fn count(self) -> usize {
        self.len.div_ceil(u64::from(self.piece)) as usize
    }
}

/// The key of a piece.
fn piece_key(id: u64, number: u32) -> [u8; KEY] {
    let mut key = [0; KEY];
    if number > 0 {
        key[..8].copy_from_slice(&id.to_le_bytes());
    }
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

/// The id and the number of a piece; `None` for other records.
pub(crate) fn piece_of(record: &Record) -> Option<(u64, u32)> {
    if record.kind != Kind::Piece || record.expires != NEVER {
        return None;
    }
    let (id, number) = record.key.split_first_chunk()?;
    let number = u32::from_le_bytes(number.try_into().ok()?);
    let id = match number {
        0 => record.sequence,
        _ => u64::from_le_bytes(*id),
    };
    (number < MAX_PIECES).then_some((id, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_as_they_were_written() {
        let descriptor = Descriptor {
            id: (1 << 56) - 1,
            len: MAX_VALUE as u64,
            piece: 8152,
        };
        let bytes = descriptor.encode();
        assert_eq!(Descriptor::decode(&bytes), Some(descriptor));
        assert_eq!(descriptor.count(), MAX_VALUE.div_ceil(8152));
        assert_eq!(Descriptor::decode(&bytes[1..]), None);
        assert_eq!(Descriptor::decode(&[0; Descriptor::BYTES]), None);
        assert_eq!(Descriptor::decode(&[1; Descriptor::BYTES]), None);
    }

    #[test]
    fn a_piece_fits_into_a_record_of_any_store() {
        for segment_bytes in [64 << 10, 1 << 20, 64 << 20, 128 << 20] {
            let options = Options {
                segment_bytes,
                ..Options::default()
            };
            let bytes = crate::record::bytes_of(KEY, options.piece(), false);
            assert!(bytes <= options.largest());
            assert!(MAX_VALUE.div_ceil(options.piece()) <= MAX_PIECES as usize);
        }
    }

    #[test]
    fn the_first_piece_gives_the_id() {
        for (number, id) in [(0, 7), (1, 5), (MAX_PIECES - 1, 5)] {
            let key = piece_key(5, number);
            let record = Record::new(Kind::Piece, 7, &key, b"value");
            assert_eq!(piece_of(&record), Some((id, number)));
        }
        let key = piece_key(5, MAX_PIECES);
        assert_eq!(piece_of(&Record::new(Kind::Piece, 7, &key, b"")), None);
        assert_eq!(piece_of(&Record::new(Kind::Piece, 7, b"short", b"")), None);
        let key = piece_key(5, 1);
        assert_eq!(piece_of(&Record::new(Kind::Put, 7, &key, b"")), None);
    }
}
