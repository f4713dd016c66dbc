//! How a store is set up.

use std::time::Duration;

use crate::head::UNFLUSHED;
use crate::location::MAX_SEGMENT;
use crate::{Caching, Clock, Error, IndexMemory};

/// Bytes of the shortest segments.
const MIN_SEGMENT: u64 = 64 << 10;

/// Bytes of memory for what is on its way to the disk: heads, which grow by doubling, as much of
/// sealed ones as may be unflushed, which the next use, and copies of what is written.
const BUFFERS: u64 = 4 * UNFLUSHED;

/// When a write is acknowledged, and so what is lost when the process is killed or the machine
/// crashes: what is appended stays in the process's memory until it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At once. A kill loses what is in memory, up to 8 MiB; a crash also what was written since
    /// the last sync, up to a segment.
    None,
    /// At once. Both lose the writes of this much time, and of one sync.
    Interval(Duration),
    /// When it is on the disk. Neither loses anything that was acknowledged. Writes that wait at
    /// the same time share one sync.
    Each,
}

/// How a store is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Bytes of a segment, the file that is written and cleaned as a whole: 64 KiB to 128 MiB, in
    /// multiples of 4 KiB. A record takes at most an eighth of one; longer values lie in pieces.
    /// Each segment is an open file: a process needs 16 for a gigabyte of segments of 64 MiB.
    pub segment_bytes: u64,
    /// The most bytes of all segments together; at least eight segments. Checkpoints of the index
    /// come on top: about 8 bytes a key, 16 if it expires, and its own; twice while one is
    /// written.
    pub capacity: u64,
    /// Bytes of obsolete records for which cleaning does not begin, as long as there is space and
    /// they are at most an eighth of `capacity`: where little is overwritten again and again, whole
    /// segments become obsolete meanwhile, which go unread. Of a store of any size, a quarter may
    /// be obsolete.
    pub idle_bytes: u64,
    /// Which map the index is, and in which memory.
    pub index: IndexMemory,
    /// Bytes of memory for what was read or written and may be wanted again; 0 keeps nothing.
    pub cache_bytes: u64,
    /// What that is, and in which memory.
    pub caching: Caching,
    /// The most bytes of memory for all that the store keeps: index, snapshots, cached values, and
    /// 32 MiB for what is on its way to the disk. As the index grows the cache shrinks, and then
    /// puts of new keys fail with [`Error::OutOfMemory`]. With the GNU C library, a program that is
    /// to keep to it by resident memory calls `timberline_tier::keep_large_blocks_apart` first, and
    /// `share_one_heap` beside it where several hundred MiB are cached; both before it has other
    /// threads, those of a disk too. With jemalloc, `narenas:1,dirty_decay_ms:500` does the same.
    /// [`Store::set_memory_bytes`](crate::Store::set_memory_bytes) changes it while the store is
    /// open.
    pub memory_bytes: u64,
    /// Whether a full store is a cache: instead of refusing puts, because there is no space or
    /// because the index has no more memory, it deletes the records of its oldest segment. Those
    /// whose values are in memory and were read since they came there stay, up to half of the
    /// segment.
    pub evict: bool,
    /// Whether files are read and written past the page cache.
    pub direct: bool,
    /// The most bytes of memory in which all snapshots note what has changed since, within
    /// `memory_bytes`, and at most those of one batch more. Beyond it the oldest is given up.
    pub snapshot_memory: u64,
    /// The most bytes of segments that were cleaned and that snapshots hold on the disk, on top of
    /// `capacity`. Beyond it the oldest snapshot that holds some is given up.
    pub snapshot_space: u64,
    /// The time by which records expire.
    pub clock: Clock,
}

impl Default for Options {
    /// Durable each, segments of 64 MiB, as much space as the disk has, none of it idle, the index
    /// in plain memory, a cache of 64 MiB of values, no limit of memory, no eviction, past the page
    /// cache, for snapshots 64 MiB of memory and 1 GiB on the disk, the system's clock.
    fn default() -> Options {
        Options {
            durability: Durability::Each,
            segment_bytes: 64 << 20,
            capacity: u64::MAX,
            idle_bytes: 0,
            index: IndexMemory::default(),
            cache_bytes: 64 << 20,
            caching: Caching::Values,
            memory_bytes: u64::MAX,
            evict: false,
            direct: true,
            snapshot_memory: 64 << 20,
            snapshot_space: 1 << 30,
            clock: Clock::System,
        }
    }
}

impl Options {
    /// The fewest segments that [`capacity`](Self::capacity) can have space for.
    pub const LEAST_SEGMENTS: usize = 8;
    /// The least that [`memory_bytes`](Self::memory_bytes) can be.
    pub const LEAST_MEMORY: u64 = 2 * BUFFERS;

    /// Bytes of the largest record or batch.
    pub(crate) fn largest(&self) -> usize {
        (self.segment_bytes / 8) as usize
    }

    /// Bytes that the index may take, of so many for all.
    pub(crate) fn index_bytes(memory_bytes: u64) -> u64 {
        memory_bytes - BUFFERS
    }

    /// Segments that there may be.
    pub(crate) fn segments(&self) -> usize {
        usize::try_from(self.capacity / self.segment_bytes).unwrap_or(usize::MAX)
    }

    /// The most that segments of obsolete records sum up to while nothing is cleaned.
    pub(crate) fn idle_segments(&self) -> f64 {
        self.idle_bytes.min(self.capacity / 8) as f64 / self.segment_bytes as f64
    }

    /// Whether a store can do with so much memory.
    pub(crate) fn check_memory(bytes: u64) -> Result<(), Error> {
        if bytes < Options::LEAST_MEMORY {
            return Err(Error::Configuration(format!(
                "{bytes} bytes of memory: a store has at least {}",
                Options::LEAST_MEMORY
            )));
        }
        Ok(())
    }

    /// The default ones with segments of about so many bytes.
    pub(crate) fn with_segments(bytes: u64) -> Options {
        let bytes = bytes.clamp(MIN_SEGMENT, MAX_SEGMENT);
        Options {
            segment_bytes: bytes.next_multiple_of(4096),
            ..Options::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let bytes = self.segment_bytes;
        if !(MIN_SEGMENT..=MAX_SEGMENT).contains(&bytes) || !bytes.is_multiple_of(4096) {
            return Err(Error::Configuration(format!(
                "segments of {bytes} bytes: they have {MIN_SEGMENT} to {MAX_SEGMENT}, in multiples of 4096"
            )));
        }
        Options::check_memory(self.memory_bytes)?;
        if self.segments() < Options::LEAST_SEGMENTS {
            return Err(Error::Configuration(format!(
                "a capacity of {} bytes: with segments of {bytes} it is at least {}",
                self.capacity,
                Options::LEAST_SEGMENTS as u64 * bytes
            )));
        }
        Ok(())
    }
}
