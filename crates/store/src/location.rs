//! Where a record lies, in one word of the index.
//!
//! ```text
//! 63              40 39              16   15      14      13    12             0
//! | segment, 24 bits | offset ÷ 8      | expires | fresh | large | sectors to read |
//! ```
//!
//! Who has the word knows so whether the record expires: nobody looks for the time of one that does
//! not. Whether one that does is fresh decides what cleaning keeps of its key. That of a key whose
//! value is in pieces says that too.

use std::ops::Range;

use timberline_io::SECTOR;

use crate::record::Record;

/// Records begin at multiples of this many bytes.
pub(crate) const GRAIN: u64 = 8;

/// The most bytes of a segment that a location reaches.
pub(crate) const MAX_SEGMENT: u64 = GRAIN << 24;

/// Names a segment. Numbers are not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SegmentId(pub u32);

impl SegmentId {
    /// The last number that a location can have.
    pub const LAST: SegmentId = SegmentId((1 << 24) - 1);
}

/// In the word of a record that expires.
const EXPIRES: u64 = 1 << 15;
/// In that of one that is fresh, too.
const FRESH: u64 = 1 << 14;
/// In that of one whose value is in pieces.
const LARGE: u64 = 1 << 13;
/// Those for the number of sectors.
const SECTORS: u64 = LARGE - 1;

/// A record's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location(u64);

impl Location {
    /// That of a record of this many bytes.
    pub fn new(segment: SegmentId, offset: u64, bytes: usize) -> Location {
        debug_assert!(segment <= SegmentId::LAST && offset.is_multiple_of(GRAIN));
        debug_assert!(offset < MAX_SEGMENT);
        let sector = SECTOR as u64;
        let sectors = (offset + bytes as u64).div_ceil(sector) - offset / sector;
        // More sectors than fit are as good as none: they are read in two steps.
        let sectors = if sectors > SECTORS { 0 } else { sectors };
        Location((u64::from(segment.0) << 40) | ((offset / GRAIN) << 16) | sectors)
    }

    /// That of a record.
    pub fn of(segment: SegmentId, offset: u64, record: &Record) -> Location {
        let mut location = Location::new(segment, offset, record.bytes());
        if record.expires() {
            location.0 |= EXPIRES | if record.fresh { FRESH } else { 0 };
        }
        if record.large {
            location.0 |= LARGE;
        }
        location
    }

    /// The location that was stored as this word.
    pub fn from_word(word: u64) -> Location {
        Location(word)
    }

    /// The location in a word of this version of the format. Version 1 had three bits more for the
    /// sectors, and knew no expiry, version 2 had one more, and no value in pieces.
    pub fn from_version(version: u32, word: u64) -> Location {
        let (sectors, others) = match version {
            1 => (0xffff, 0),
            2 => (FRESH - 1, EXPIRES | FRESH),
            _ => (SECTORS, EXPIRES | FRESH | LARGE),
        };
        let fits = word & sectors <= SECTORS;
        let known = if fits { SECTORS } else { 0 };
        Location(word & (!0xffff | others | known))
    }

    /// The segment's number, the offset in grains, and the rest of the word.
    pub fn parts(self) -> (u32, u32, u16) {
        let grains = (self.0 >> 16) as u32 & 0xff_ffff;
        (self.segment().0, grains, self.0 as u16)
    }

    /// That of such parts; `None` if they can't be.
    pub fn of_parts(segment: u32, grains: u32, rest: u16) -> Option<Location> {
        let are_right = segment <= SegmentId::LAST.0 && grains < 1 << 24;
        let upper = u64::from(segment) << 40 | u64::from(grains) << 16;
        are_right.then_some(Location(upper | u64::from(rest)))
    }

    /// The location as a word to store.
    pub fn to_word(self) -> u64 {
        self.0
    }

    pub fn segment(self) -> SegmentId {
        SegmentId((self.0 >> 40) as u32)
    }

    /// Whether the record expires.
    pub fn expires(self) -> bool {
        self.0 & EXPIRES != 0
    }

    /// Whether the record's value is in pieces.
    pub fn is_large(self) -> bool {
        self.0 & LARGE != 0
    }

    /// Whether the record hides older ones of its key for as long as it is the key's, and what was
    /// kept to hide them may go.
    pub fn hides(self) -> bool {
        self.0 & (EXPIRES | FRESH) != EXPIRES | FRESH
    }

    /// Bytes from the segment's start.
    pub fn offset(self) -> u64 {
        (self.0 >> 16 & 0xff_ffff) * GRAIN
    }

    /// The bytes of the segment to read for the whole record: whole sectors.
    pub fn sectors(self) -> Range<u64> {
        let first = self.offset() / SECTOR as u64;
        first * SECTOR as u64..(first + (self.0 & SECTORS)) * SECTOR as u64
    }

    /// The bytes of these sectors. Of a record that has more than a location can say, as many as
    /// that; without bound if its value is in pieces.
    pub fn bytes_to_read(self) -> u64 {
        match self.0 & SECTORS {
            _ if self.is_large() => u64::MAX,
            0 => (SECTORS + 1) * SECTOR as u64,
            some => some * SECTOR as u64,
        }
    }

    /// How many sectors the record touches, as far as that is known; at least one.
    pub fn touched(self) -> u64 {
        (self.0 & SECTORS).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, NEVER};

    #[test]
    fn a_word_keeps_a_location() {
        for (segment, offset, bytes) in [
            (0, 4096, 32),
            (SegmentId::LAST.0, MAX_SEGMENT - 32, 32),
            (7, 4096 + 504, 16),
            (7, 8, 1 << 20),
            (7, 4096, 512 * 0x1fff),
        ] {
            let location = Location::new(SegmentId(segment), offset, bytes);
            let location = Location::from_word(location.to_word());
            assert!(!location.expires() && location.hides());
            for version in 1..=3 {
                assert_eq!(
                    Location::from_version(version, location.to_word()),
                    location
                );
            }
            let (number, grains, rest) = location.parts();
            assert_eq!(Location::of_parts(number, grains, rest), Some(location));
            assert_eq!((location.segment().0, location.offset()), (segment, offset));
            let sectors = location.sectors();
            assert!(sectors.start <= offset && offset < sectors.start + 512);
            let end = offset + bytes as u64;
            assert!(end <= sectors.end && sectors.end < end + 512);
        }
    }

    #[test]
    fn more_sectors_than_fit_are_not_known() {
        let long = Location::new(SegmentId(7), 4096, 512 * 0x2000);
        assert!(long.sectors().is_empty());
        for sectors in [0x2000, 0x4000, 0x8000, 0xffff] {
            let old = Location::from_version(1, 7 << 40 | 512 << 16 | sectors);
            assert_eq!(old, long);
        }
        for (sectors, flags) in [(0x2000, 0), (0x3fff, 0), (0x2001, EXPIRES), (0x3000, FRESH)] {
            let old = Location::from_version(2, 7 << 40 | 512 << 16 | sectors | flags);
            assert_eq!(old.to_word(), long.to_word() | flags);
        }
    }

    #[test]
    fn a_word_says_whether_the_record_expires_and_hides_others() {
        for (expires, fresh, hides) in [(NEVER, false, true), (7, false, true), (7, true, false)] {
            let record = Record {
                expires,
                fresh,
                ..Record::new(Kind::Put, 1, b"key", b"value")
            };
            let location = Location::of(SegmentId(7), 4096, &record);
            assert_eq!(location.expires(), expires != NEVER);
            assert_eq!(location.hides(), hides);
            assert_eq!(location.sectors(), 4096..4096 + 512);
        }
    }
}
