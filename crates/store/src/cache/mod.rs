//! The cache of what was read or written and may be wanted again: values, or blocks of segments.
//!
//! A location is the place of one record, and never used again for another; so is a block's. The
//! index decides which record a key has, so nothing here can be stale, whatever a reader inserts
//! late.

mod doorkeeper;
mod memory;
mod values;

use std::ops::Range;

use timberline_io::BLOCK;

pub use memory::CacheMemory;

use self::values::Values;
use crate::Error;
use crate::location::{Location, SegmentId};
use crate::record::Record;
use crate::segment::Segment;

/// Bytes of a block.
const BYTES: u64 = BLOCK as u64;

/// What a store's cache keeps, and in which memory. Its size is
/// [`Options::cache_bytes`](crate::Options::cache_bytes) in all cases.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Caching {
    /// Values, in the heap.
    #[default]
    Values,
    /// Values of up to [`MAX_VALUE`](timberline_tree::MAX_VALUE) bytes, in this memory, as in the
    /// first tier of CacheLib. Larger ones are not cached.
    ValuesIn(CacheMemory),
    /// Blocks of 4 KiB of the segments' files, in this memory, as in RocksDB's cache of blocks. It
    /// keeps what lies beside a record as long as that, which serves where records that were
    /// written one after the other are wanted together.
    BlocksIn(CacheMemory),
}

/// The cache of a store.
pub(crate) struct Cache {
    kept: Values,
    has_blocks: bool,
}

impl Cache {
    /// One of at most so many bytes; 0 keeps nothing.
    pub fn new(caching: &Caching, bytes: u64) -> Result<Cache, Error> {
        let memory = match caching {
            Caching::Values => None,
            Caching::ValuesIn(memory) | Caching::BlocksIn(memory) => Some(memory),
        };
        let room = memory.filter(|_| bytes > 0).map(CacheMemory::make);
        Ok(Cache {
            kept: Values::new(bytes, room.transpose()?),
            has_blocks: matches!(caching, Caching::BlocksIn(_)),
        })
    }

    /// Keeps no more than this many bytes from now on, if it keeps any.
    pub fn set_bytes(&self, bytes: u64) {
        self.kept.set_bytes(bytes);
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// Whether more fits without anything that goes.
    pub fn has_room(&self) -> bool {
        self.kept.has_room()
    }

    /// Whether there was no room when it was last [looked at](Self::has_room).
    pub fn is_full(&self) -> bool {
        self.kept.is_full()
    }

    /// What `read` makes of a record's value and when it expires, unless that may take so long that
    /// others are to go on meanwhile.
    pub fn read_now<T>(&self, at: Location, read: impl FnOnce(u64, &[u8]) -> T) -> Option<T> {
        match self.has_blocks || self.kept.is_tiered() {
            true => None,
            false => self.kept.read(at.to_word(), read),
        }
    }

    /// When a record expires, and its value, where [`read_now`](Self::read_now) does not tell.
    pub async fn read(&self, at: Location) -> Option<(u64, Vec<u8>)> {
        if !self.has_blocks {
            return self.kept.held(at.to_word()).await;
        }
        let blocks = blocks(at)?;
        let start = blocks.start * BYTES;
        let mut bytes = Vec::new();
        for block in blocks {
            let (_, more) = self.kept.held(word(at.segment(), block)).await?;
            match bytes.is_empty() {
                true => bytes = more,
                false => bytes.extend(more),
            }
        }
        // Of a block that was read for another record, nobody has checked this one.
        let record = Record::decode(&bytes[(at.offset() - start) as usize..])?;
        Some((record.expires, record.value.to_vec()))
    }

    /// Whether a record's value is here. It does not count as a use.
    pub fn contains(&self, at: Location) -> bool {
        match self.has_blocks {
            true => blocks(at).is_some_and(|mut it| {
                it.all(|block| self.kept.contains(word(at.segment(), block)))
            }),
            false => self.kept.contains(at.to_word()),
        }
    }

    /// Whether a record's value is here and was read, since cleaning moved it if it did.
    pub fn was_read(&self, at: Location) -> bool {
        match self.has_blocks {
            true => blocks(at).is_some_and(|mut it| {
                it.all(|block| self.kept.was_read(word(at.segment(), block)))
            }),
            false => self.kept.was_read(at.to_word()),
        }
    }

    /// Whether [`read_now`](Self::read_now) finds a record's value. A byte of it is read, so that
    /// the next to read it need not wait for memory. It does not count as a use.
    pub fn touch(&self, at: Location) -> bool {
        !self.has_blocks && !self.kept.is_tiered() && self.kept.touch(at.to_word())
    }

    /// Keeps a value that nobody has read, if values are what is kept.
    pub fn insert(&self, at: Location, expires: u64, value: &[u8]) {
        if !self.has_blocks {
            self.kept.insert(at.to_word(), expires, value, false);
        }
    }

    /// Keeps a value that was read, if values are what is kept: a full one, from the second time
    /// on.
    pub fn insert_read(&self, at: Location, expires: u64, value: &[u8]) {
        let word = at.to_word();
        if !self.has_blocks && self.kept.admits(word) {
            self.kept.insert(word, expires, value, true);
        }
    }

    /// Cleaning moved a record. Whether its value is here.
    pub fn relocate(&self, old: Location, new: Location) -> bool {
        !self.has_blocks && self.kept.rename(old.to_word(), new.to_word())
    }

    /// A record is gone.
    pub fn remove(&self, at: Location) {
        if !self.has_blocks {
            self.kept.remove(at.to_word());
        }
    }

    /// What to read of a segment's file for these bytes: the blocks that they are in, if such are
    /// kept, as far as they are complete there.
    pub fn to_read(&self, segment: &Segment, bytes: Range<u64>) -> Range<u64> {
        if !self.has_blocks {
            return bytes;
        }
        let complete = segment.written() / BYTES * BYTES;
        let end = bytes.end.next_multiple_of(BYTES).min(complete);
        bytes.start / BYTES * BYTES..end.max(bytes.end)
    }

    /// Keeps the whole blocks among the bytes that were read from a segment's file there, if blocks
    /// are what is kept: a full one, from the second time on.
    pub fn insert_blocks(&self, segment: SegmentId, start: u64, bytes: &[u8]) {
        if !self.has_blocks || !start.is_multiple_of(BYTES) {
            return;
        }
        for (block, bytes) in (start / BYTES..).zip(bytes.chunks_exact(BLOCK)) {
            let word = word(segment, block);
            if !self.kept.contains(word) && self.kept.admits(word) {
                self.kept.insert(word, 0, bytes, true);
            }
        }
    }
}

/// The blocks of its segment that a record is in; `None` for one so long that the index does not
/// know.
fn blocks(at: Location) -> Option<Range<u64>> {
    let sectors = at.sectors();
    (!sectors.is_empty()).then(|| sectors.start / BYTES..sectors.end.div_ceil(BYTES))
}

/// A word that names a block.
fn word(segment: SegmentId, block: u64) -> u64 {
    u64::from(segment.0) << 40 | block
}
