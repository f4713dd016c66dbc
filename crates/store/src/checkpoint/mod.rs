//! Checkpoints of the index, so that opening a store reads the end of its log only.
//!
//! A checkpoint says how far each segment had been written at one moment, and then where the record
//! of each key lies. The keys are listed while writers go on, so a key that is written meanwhile
//! may have its old location or its new one. Opening loads the checkpoint and applies all records
//! behind it; each of them is at least as new as what the checkpoint says about its key. A location
//! in a segment that is gone belongs to a record that was moved or replaced behind the checkpoint.
//!
//! Invariants:
//! - Its last page is written when everything that it names is on the disk.
//! - A segment on the disk that it does not name was made after it: the log forgets a segment only
//!   when its name is gone for good. So such a segment is read from its start.
//! - The index knows all records in front of the checkpoint when its keys are listed, those that
//!   were moved, too: it follows what is appended before the keys' locks are given back, and the
//!   checkpoint waits for those.
//!
//! An older checkpoint stays true, as long as it is on the disk. So files are numbered with the
//! segments, the newest that is complete counts, and one that can't be used costs time only.

mod entry;
mod page;
mod part;
mod read;
mod write;

pub(crate) use read::{Loaded, load};

use std::path::{Path, PathBuf};

use crate::location::SegmentId;

/// What a checkpoint knows of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Covered {
    pub id: SegmentId,
    /// Records in front of this byte are in the checkpoint.
    pub end: u64,
    /// Whether there will be none behind it.
    pub is_complete: bool,
    /// Sectors of its records, live or not.
    pub total: u64,
    /// Sectors of those that delete. Version 1 says 0.
    pub deletes: u64,
    /// The greatest sequence number in it.
    pub newest: u64,
    /// Whether it has records that hide older ones of their key.
    pub hides: bool,
}

impl Covered {
    /// number u32, 1 if complete + 2 if some hide others u32, end u64, total u32, deletes u32,
    /// newest u64
    const BYTES: usize = 32;

    fn encode(&self) -> [u8; Self::BYTES] {
        let flags = u64::from(self.is_complete) | u64::from(self.hides) << 1;
        let first = u64::from(self.id.0) | flags << 32;
        let mut bytes = [0; Self::BYTES];
        let sectors = self.total | self.deletes << 32;
        for (at, word) in [first, self.end, sectors, self.newest]
            .into_iter()
            .enumerate()
        {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Covered {
        let word = |at: usize| page::u64_at(bytes, 8 * at);
        let flags = word(0) >> 32;
        Covered {
            id: SegmentId(word(0) as u32),
            end: word(1),
            is_complete: flags & 1 != 0,
            total: word(2) & u64::from(u32::MAX),
            deletes: word(2) >> 32,
            newest: word(3),
            hides: flags & 2 != 0,
        }
    }
}

/// Where a piece of a value lies, in a checkpoint: the value's id u64, number u32, zeros u32, its
/// location u64.
const PIECE: usize = 24;

fn piece(id: u64, number: u32, word: u64) -> [u8; PIECE] {
    let mut bytes = [0; PIECE];
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..12].copy_from_slice(&number.to_le_bytes());
    bytes[16..].copy_from_slice(&word.to_le_bytes());
    bytes
}

/// The file of the checkpoint with this number.
fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:06x}.checkpoint"))
}

/// The number of a checkpoint's file; `None` if it is none by its name.
pub(crate) fn number_of(path: &Path) -> Option<u32> {
    if path.extension()? != "checkpoint" {
        return None;
    }
    u32::from_str_radix(path.file_stem()?.to_str()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_as_they_were_written() {
        for (is_complete, hides) in [(false, false), (true, false), (false, true)] {
            let covered = Covered {
                id: SegmentId::LAST,
                end: 1 << 27,
                is_complete,
                total: 1 << 18,
                deletes: 1 << 17,
                newest: (1 << 56) - 1,
                hides,
            };
            assert_eq!(Covered::decode(&covered.encode()), covered);
        }
    }

    #[test]
    fn a_file_is_known_by_its_name() {
        let file = path(Path::new("store"), 0x12ab);
        assert_eq!(number_of(&file), Some(0x12ab));
        assert_eq!(number_of(Path::new("store/0012ab.segment")), None);
        assert_eq!(number_of(Path::new("store/copy.checkpoint")), None);
    }
}
