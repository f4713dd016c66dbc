//! The last records of the log, in memory after they were written to their file.
//!
//! So a put makes no copy of its value for the cache, and what was written a moment ago is not read
//! from the disk. The window moves with the log; while the cache of values is full, also with what
//! reads bring in from the disk. So where nobody writes, the cache gets its memory.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::sync::{ShardedLock, ShardedLockWriteGuard};
use timberline_tier::hint;

use crate::head::AT_ONCE;
use crate::location::{Location, SegmentId};
use crate::record::{Kind, Record};

/// Lines of a record that are fetched in advance: what a small one has. Of a long one, the
/// processor itself brings the next as they are read in order.
const LINES: usize = 3;

/// Bytes of a chunk, unless one record has more.
const CHUNK: u64 = *AT_ONCE.end();

/// A place of the log as a number that sorts as it does.
fn ordered((segment, offset): (SegmentId, u64)) -> u64 {
    u64::from(segment.0) << 40 | offset
}

pub(crate) struct Window {
    /// With an ordinary lock each read would write to its one word, and cores would take that line
    /// from one another.
    chunks: ShardedLock<Chunks>,
    /// The most bytes of chunks, without the spare one.
    limit: AtomicU64,
    /// Bytes that were written, and read from the disk, so far.
    passed: AtomicU64,
    bytes: AtomicU64,
    /// From this place of the log on, nothing has been among the older half.
    young: AtomicU64,
}

/// The number of a chunk, as a hint where a record is.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ChunkNumber(u32);

/// Chunks in the order of the log, which is that of their places.
#[derive(Default)]
struct Chunks {
    /// The number of the first one.
    first: u32,
    all: VecDeque<Chunk>,
    /// The [`ordered`] place of each. Side by side, they are searched without the chunks.
    places: Vec<u64>,
    /// The memory of one that was dropped, for the next.
    spare: Vec<u8>,
}

impl Chunks {
    /// The one with the record that begins there, and its number.
    fn of(&self, location: Location) -> Option<(ChunkNumber, &Chunk)> {
        let place = (location.segment(), location.offset());
        let behind = self.places.partition_point(|&it| it <= ordered(place));
        let at = behind.checked_sub(1)?;
        let chunk = self.all.get(at).filter(|it| it.has(location))?;
        Some((ChunkNumber(self.first.wrapping_add(at as u32)), chunk))
    }

    /// The same of a record that was in this chunk a moment ago, if the key has not got another one
    /// meanwhile.
    #[inline]
    fn near(&self, number: ChunkNumber, location: Location) -> Option<&Chunk> {
        let at = number.0.wrapping_sub(self.first) as usize;
        match self.all.get(at).filter(|it| it.has(location)) {
            None => Some(self.of(location)?.1),
            found => found,
        }
    }

    fn push(&mut self, chunk: Chunk) {
        self.places.push(ordered(chunk.place()));
        self.all.push_back(chunk);
    }

    /// Takes the oldest out, so many of them.
    fn take(&mut self, count: usize) -> Vec<Chunk> {
        self.first = self.first.wrapping_add(count as u32);
        self.places.drain(..count);
        self.all.drain(..count).collect()
    }
}

/// Bytes of a segment. Records that begin in it are whole.
pub(crate) struct Chunk {
    segment: SegmentId,
    start: u64,
    /// Where the first record begins.
    first: u64,
    bytes: Vec<u8>,
    /// What had passed when it was made.
    made: u64,
}

impl Chunk {
    pub fn segment(&self) -> SegmentId {
        self.segment
    }

    fn place(&self) -> (SegmentId, u64) {
        (self.segment, self.start)
    }

    /// Whether the record that begins there is here.
    fn has(&self, location: Location) -> bool {
        let here = self.start..self.end();
        self.segment == location.segment() && here.contains(&location.offset())
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn from(&self, offset: u64) -> &[u8] {
        &self.bytes[(offset - self.start) as usize..]
    }

    /// The records that set a key's value.
    pub fn puts(&self) -> impl Iterator<Item = (Location, Record<'_>)> {
        let mut next = self.first;
        let records = std::iter::from_fn(move || {
            let bytes = self.from(next);
            let len = Record::len_at(bytes)?;
            let record = Record::decode_checked(bytes)?;
            let location = Location::of(self.segment, next, &record);
            next += len as u64;
            Some((location, record))
        });
        records.filter(|(_, record)| record.kind == Kind::Put)
    }
}

impl Window {
    /// One that has no memory.
    pub fn new() -> Window {
        Window {
            chunks: ShardedLock::default(),
            limit: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            young: AtomicU64::new(0),
        }
    }

    /// Keeps at most this many bytes from the next change on.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Keeps no more than its limit from now on.
    pub fn shrink(&self) {
        let mut chunks = self.write();
        chunks.spare = Vec::new();
        drop(self.trim(chunks));
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The log was written to its file from `start` to the end of `bytes`. A new record begins at
    /// `first`; what is before it was written before. Returns what is kept no more.
    pub fn add(&self, segment: SegmentId, start: u64, first: u64, bytes: &[u8]) -> Vec<Chunk> {
        let limit = self.limit.load(Relaxed);
        let most = CHUNK.min(limit / 8);
        // The end of it, if it is too much.
        let passed_over = bytes.len().saturating_sub(limit as usize);
        let mut first = (first - start) as usize;
        while first < passed_over
            && let Some(len) = Record::len_at(&bytes[first..])
        {
            first += len;
        }
        let first = start + first as u64;
        let (start, bytes) = (start + passed_over as u64, &bytes[passed_over..]);
        let mut chunks = self.write();
        let goes_on = chunks
            .all
            .back_mut()
            .filter(|it| it.segment == segment && (it.start..=it.end()).contains(&start));
        let new = goes_on.as_ref().map_or(0, |it| it.end() - start);
        let passed = self.passed.fetch_add(bytes.len() as u64 - new, Relaxed);
        match goes_on.filter(|it| start - it.start + bytes.len() as u64 <= most) {
            Some(chunk) => {
                chunk.bytes.truncate((start - chunk.start) as usize);
                chunk.bytes.extend_from_slice(bytes);
            }
            None => {
                let mut copy = take(&mut chunks.spare);
                copy.clear();
                let size = bytes.len().max(most as usize);
                // A reader finds what is not here on the disk.
                if limit == 0 || copy.try_reserve_exact(size).is_err() {
                    self.bytes.store(0, Relaxed);
                    let all = chunks.all.len();
                    return chunks.take(all);
                } else {
                    copy.extend_from_slice(bytes);
                    chunks.push(Chunk {
                        segment,
                        start,
                        first,
                        bytes: copy,
                        made: passed,
                    });
                }
            }
        }
        self.trim(chunks)
    }

    /// A chunk that was dropped is not needed any more. Its memory is kept for the next one: to map
    /// as much again costs more than to fill it.
    pub fn recycle(&self, chunk: Chunk) {
        let mut chunks = self.write();
        if chunk.bytes.capacity() as u64 <= CHUNK && self.bytes() > 0 {
            chunks.spare = chunk.bytes;
        }
    }

    /// Something was read from the disk. Whether the window became smaller.
    pub fn pass(&self, bytes: u64) -> bool {
        let passed = self.passed.fetch_add(bytes, Relaxed);
        let was_over = passed / CHUNK;
        if self.bytes() == 0 || was_over == (passed + bytes) / CHUNK {
            return false;
        }
        let before = self.bytes();
        self.trim(self.write());
        self.bytes() != before
    }

    /// What `read` makes of the bytes from a record on, and of whether they are among the older
    /// half; `None` if the record is not here.
    pub fn read<T>(&self, location: Location, read: impl FnOnce(&[u8], bool) -> T) -> Option<T> {
        self.read_near(ChunkNumber::default(), location, read)
    }

    /// The same of a record that probably is in this chunk.
    pub fn read_near<T>(
        &self,
        near: ChunkNumber,
        location: Location,
        read: impl FnOnce(&[u8], bool) -> T,
    ) -> Option<T> {
        if self.bytes() == 0 {
            return None;
        }
        let chunks = self.chunks.read().unwrap_or_else(|it| it.into_inner());
        let chunk = chunks.near(near, location)?;
        let age = self.passed.load(Relaxed) - chunk.made;
        let is_old = age > self.limit.load(Relaxed) / 2;
        Some(read(chunk.from(location.offset()), is_old))
    }

    /// Whether a record of the log has been in no older half so far, so that no read of it was a
    /// reason to cache it. Of what cleaning moved, it may say so too.
    pub fn is_young(&self, location: Location) -> bool {
        let place = ordered((location.segment(), location.offset()));
        self.bytes() > 0 && place >= self.young.load(Relaxed)
    }

    /// Asks the processor for the lines where these records begin, as far as they are here: it
    /// brings them all at the same time, while it goes on. `tell` gets the chunk that each is in,
    /// or that it is not here.
    pub fn touch(
        &self,
        locations: impl Iterator<Item = (usize, Location)>,
        mut tell: impl FnMut((usize, Location), Option<ChunkNumber>),
    ) {
        let chunks = self.chunks.read().unwrap_or_else(|it| it.into_inner());
        for (which, location) in locations {
            let Some((number, chunk)) = chunks.of(location) else {
                tell((which, location), None);
                continue;
            };
            tell((which, location), Some(number));
            let bytes = chunk.from(location.offset());
            hint::prefetch_lines(bytes.as_ptr().addr(), LINES);
        }
    }

    fn write(&self) -> ShardedLockWriteGuard<'_, Chunks> {
        self.chunks.write().unwrap_or_else(|it| it.into_inner())
    }

    /// Takes out chunks that more has passed than there may be.
    fn trim(&self, mut chunks: ShardedLockWriteGuard<'_, Chunks>) -> Vec<Chunk> {
        let (passed, limit) = (self.passed.load(Relaxed), self.limit.load(Relaxed));
        let size = |chunk: &Chunk| chunk.bytes.capacity() as u64;
        let mut bytes: u64 = chunks.all.iter().map(size).sum();
        let mut too_many = 0;
        while let Some(oldest) = chunks.all.get(too_many)
            && (bytes > limit || passed - oldest.made > limit)
        {
            bytes -= size(oldest);
            too_many += 1;
        }
        let dropped = chunks.take(too_many);
        self.bytes.store(bytes, Relaxed);
        let is_young = |it: &&Chunk| passed - it.made <= limit / 2;
        if let Some(young) = chunks.all.iter().rev().take_while(is_young).last() {
            self.young.fetch_max(ordered(young.place()), Relaxed);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    /// Byte `offset` of a segment.
    fn byte(offset: u64) -> u8 {
        (offset / 8) as u8
    }

    fn add(window: &Window, segment: u32, start: u64, end: u64) {
        let bytes: Vec<u8> = (start..end).map(byte).collect();
        window.add(SegmentId(segment), start, start, &bytes);
    }

    fn find(window: &Window, segment: u32, offset: u64) -> Option<u8> {
        let location = Location::new(SegmentId(segment), offset, 8);
        let mut number = None;
        window.touch([(0, location)].into_iter(), |_, it| number = it);
        let found = window.read(location, |bytes, _| bytes[0]);
        assert_eq!(number.is_some(), found.is_some());
        // Whatever chunk it is looked for in first.
        let hints = (0..50).map(ChunkNumber).chain(number);
        for near in hints.chain([ChunkNumber(u32::MAX)]) {
            assert_eq!(window.read_near(near, location, |bytes, _| bytes[0]), found);
        }
        found
    }

    #[test]
    fn it_has_the_last_bytes_of_the_log() {
        let window = Window::new();
        window.set_limit(64 << 10);
        let (mut end, mut segment) = (BLOCK, 1);
        for write in 1..500 {
            let start = end / BLOCK * BLOCK;
            end += 8 * (write % 300);
            add(&window, segment, start, end);
            assert!(window.bytes() <= 64 << 10);
            for back in [8, 800, 8_000, 20_000] {
                let offset = end.saturating_sub(back).max(BLOCK);
                if offset < end {
                    assert_eq!(find(&window, segment, offset), Some(byte(offset)), "{back}");
                }
            }
            assert_eq!(find(&window, segment, end), None);
            assert_eq!(find(&window, segment + 1, BLOCK), None);
            if write % 100 == 0 {
                (end, segment) = (BLOCK, segment + 2);
            }
        }
        assert_eq!(find(&window, 1, BLOCK), None, "it was long ago");
    }

    #[test]
    fn reads_from_the_disk_make_it_give_way() {
        let window = Window::new();
        window.set_limit(64 << 10);
        add(&window, 1, BLOCK, BLOCK + 1000);
        let mut reads = 0;
        while !window.pass(4096) {
            reads += 1;
            assert!(reads < 1000, "it keeps all");
        }
        assert_eq!((window.bytes(), find(&window, 1, BLOCK)), (0, None));
    }

    #[test]
    fn one_without_memory_keeps_nothing() {
        let window = Window::new();
        add(&window, 1, BLOCK, BLOCK + 1000);
        assert_eq!((window.bytes(), find(&window, 1, BLOCK)), (0, None));
        window.set_limit(64 << 10);
        add(&window, 1, BLOCK, BLOCK + 2000);
        assert_eq!(find(&window, 1, BLOCK), Some(byte(BLOCK)));
        window.set_limit(0);
        add(&window, 1, BLOCK, BLOCK + 3000);
        assert_eq!((window.bytes(), find(&window, 1, BLOCK)), (0, None));
    }
}
