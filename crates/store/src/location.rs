//! Where a record lies, in one word of the index.
//!
//! ```text
//! 63              40 39              16 15             0
//! | segment, 24 bits | offset ÷ 8      | sectors to read |
//! ```

use std::ops::Range;

use timberline_io::SECTOR;

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
        let sectors = u16::try_from(sectors).unwrap_or(0);
        Location((u64::from(segment.0) << 40) | ((offset / GRAIN) << 16) | u64::from(sectors))
    }

    /// The location that was stored as this word.
    pub fn from_word(word: u64) -> Location {
        Location(word)
    }

    /// The location as a word to store.
    pub fn to_word(self) -> u64 {
        self.0
    }

    pub fn segment(self) -> SegmentId {
        SegmentId((self.0 >> 40) as u32)
    }

    /// Bytes from the segment's start.
    pub fn offset(self) -> u64 {
        (self.0 >> 16 & 0xff_ffff) * GRAIN
    }

    /// The bytes of the segment to read for the whole record: whole sectors.
    pub fn sectors(self) -> Range<u64> {
        let first = self.offset() / SECTOR as u64;
        first * SECTOR as u64..(first + (self.0 & 0xffff)) * SECTOR as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_a_location() {
        for (segment, offset, bytes) in [
            (0, 4096, 32),
            (SegmentId::LAST.0, MAX_SEGMENT - 32, 32),
            (7, 4096 + 504, 16),
            (7, 8, 1 << 20),
        ] {
            let location = Location::new(SegmentId(segment), offset, bytes);
            let location = Location::from_word(location.to_word());
            assert_eq!((location.segment().0, location.offset()), (segment, offset));
            let sectors = location.sectors();
            assert!(sectors.start <= offset && offset < sectors.start + 512);
            let end = offset + bytes as u64;
            assert!(end <= sectors.end && sectors.end < end + 512);
        }
    }
}
