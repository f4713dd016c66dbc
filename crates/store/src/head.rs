//! Heads: the ends of the log, with records in memory that are not in their segment's file yet.
//!
//! There are two heads. New records go to the hot one; records that cleaning moves go to the cold
//! one, so that old records, which live long, don't mix with new ones.

use std::ops::RangeInclusive;
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer};

use crate::Error;
use crate::location::Location;
use crate::record::{Kind, Moved, Record, bytes_of};
use crate::segment::{START, Segment};

/// Which head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heat {
    Hot,
    Cold,
}

/// Bytes that all heads together keep in memory before appending waits.
pub(crate) const UNFLUSHED: u64 = 8 << 20;
/// Bytes that are written at once where nobody reads from the disk: a quarter of what a head has in
/// memory, within these bounds. Small ones take longer together.
pub(crate) const AT_ONCE: RangeInclusive<u64> = 256 << 10..=1 << 20;
/// Bytes in memory that are written without a reason.
const ENOUGH: u64 = 1 << 20;

/// A segment to which records are appended, and its end as far as that is not in its file.
pub(crate) struct Head {
    pub heat: Heat,
    pub segment: Arc<Segment>,
    /// Whether the segment was one of the reserve when it was taken, or was taken in its stead.
    pub is_of_reserve: bool,
    /// The segment's bytes from `base` on.
    tail: Vec<u8>,
    base: u64,
    /// From here on they are to be written: a multiple of [`BLOCK`].
    start: u64,
    /// Up to here they are in the file. [`Segment::written`] says it to those without the lock.
    written: u64,
    /// Up to here they are on the disk; and up to there, as the last mark says.
    synced: u64,
    marked: u64,
    /// The number of the last record.
    sequence: u64,
}

/// A write that makes records readable from their file.
pub(crate) struct Flush {
    pub heat: Heat,
    pub segment: Arc<Segment>,
    pub buffer: Buffer,
    /// Its place in the file.
    pub start: u64,
    /// Up to here the file is complete after it.
    pub end: u64,
}

impl Head {
    /// An empty one. `tail` is memory for it, if there is some to use again.
    pub fn new(heat: Heat, segment: Arc<Segment>, mut tail: Vec<u8>) -> Head {
        tail.clear();
        Head {
            heat,
            segment,
            is_of_reserve: false,
            tail,
            base: START,
            start: START,
            written: START,
            synced: START,
            marked: START,
            sequence: 0,
        }
    }

    /// Its memory, when everything is in the file.
    pub fn into_tail(self) -> Vec<u8> {
        self.tail
    }

    /// The number of the last record; 0 if there is none.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Where the next record goes.
    pub fn end(&self) -> u64 {
        self.base + self.tail.len() as u64
    }

    /// Bytes that are not in the file.
    pub fn unflushed(&self) -> u64 {
        self.end() - self.written
    }

    /// Whether records of this many bytes fit into the segment, and the one that seals it.
    pub fn has_space(&self, bytes: usize) -> bool {
        self.end() + (bytes + bytes_of(0, 0, false)) as u64 <= self.segment.bytes
    }

    /// Whether there is enough to write.
    pub fn is_due(&self) -> bool {
        self.unflushed() >= ENOUGH
    }

    /// Makes sure that this many bytes can be appended.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        self.tail.try_reserve(bytes).map_err(|_| Error::OutOfMemory)
    }

    /// Where a record will lie, if it is the next to be appended.
    pub fn place_of(&self, record: &Record) -> Location {
        Location::of(self.segment.id(), self.end(), record)
    }

    /// Appends a record, for which there is space and memory.
    pub fn append(&mut self, record: &Record) -> Location {
        let location = self.place_of(record);
        self.append_at(location, record);
        location
    }

    /// The same, where it is known where it will lie.
    pub fn append_at(&mut self, location: Location, record: &Record) {
        debug_assert_eq!(location, self.place_of(record));
        record.append_to(&mut self.tail);
        self.appended(location, record);
    }

    /// The same of one that is moved.
    pub fn append_moved(&mut self, moved: &Moved) -> Location {
        let location = self.place_of(moved);
        moved.append_to(&mut self.tail);
        self.appended(location, moved);
        location
    }

    fn appended(&mut self, location: Location, record: &Record) {
        self.sequence = self.sequence.max(record.sequence);
        if !record.kind.is_of_segment() {
            self.segment
                .add(location, record.sequence, record.kind, record.hides());
        }
    }

    /// A sync of what was written up to there is done.
    pub fn synced(&mut self, end: u64) {
        self.synced = end;
    }

    /// Appends a record that says how much is on the disk, if that is a block more than the last
    /// one said, there is space and memory for it, and others are to be written: alone, it would
    /// have the next one follow.
    pub fn mark(&mut self) {
        if self.unflushed() == 0 || self.synced < self.marked + BLOCK as u64 {
            return;
        }
        let place = self.synced.to_le_bytes();
        let mark = Record::new(Kind::Mark, self.sequence, &[], &place);
        if self.has_space(mark.bytes()) && self.reserve(mark.bytes()).is_ok() {
            self.append(&mark);
            self.marked = self.synced;
        }
    }

    /// The bytes from a record on; `None` if it is in the file.
    pub fn read(&self, offset: u64) -> Option<&[u8]> {
        match offset < self.start {
            true => None,
            false => self.tail.get((offset - self.base) as usize..),
        }
    }

    /// A write of what is not in the file, up to so many bytes or the end of a record that has
    /// more, from this buffer if it is long enough; `None` if nothing is.
    pub fn flush(&self, most: u64, mut buffer: Buffer) -> Result<Option<Flush>, Error> {
        if self.unflushed() == 0 {
            return Ok(None);
        }
        let end = self.end_of_write(self.start + most);
        let bytes = &self.tail[(self.start - self.base) as usize..(end - self.base) as usize];
        if buffer.len() < bytes.len() {
            buffer = Buffer::zeroed(bytes.len()).map_err(|_| Error::OutOfMemory)?;
        }
        let (new, behind) = buffer.split_at_mut(bytes.len());
        new.copy_from_slice(bytes);
        let blocks = bytes.len().next_multiple_of(BLOCK);
        behind[..blocks - bytes.len()].fill(0);
        let (segment, start) = (Arc::clone(&self.segment), self.start);
        Ok(Some(Flush {
            heat: self.heat,
            segment,
            buffer,
            start,
            end,
        }))
    }

    /// Where the last record ends that does so up to there, or the first one.
    fn end_of_write(&self, most: u64) -> u64 {
        if self.end() <= most {
            return self.end();
        }
        let mut end = self.written;
        while let Some(len) = self.read(end).and_then(Record::len_at)
            && (end + len as u64 <= most || end == self.written)
        {
            end += len as u64;
        }
        end
    }

    /// A flush up to there is done. Memory keeps the block in which it ends.
    pub fn flushed(&mut self, end: u64) {
        self.segment.set_written(end);
        self.written = end;
        self.start = end / BLOCK as u64 * BLOCK as u64;
        // What is left moves: less than what was written.
        let passed = (self.start - self.base) as usize;
        if passed >= self.tail.len() / 2 {
            self.tail.drain(..passed);
            self.base = self.start;
        }
    }
}
