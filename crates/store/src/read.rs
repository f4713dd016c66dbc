//! A value's way back: from the cache, a head, the window of the log, or the disk.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use smallvec::SmallVec;
use timberline_io::{Buffer, File, SECTOR, is_unreadable};

use crate::Error;
use crate::location::{Location, SegmentId};
use crate::record::{HEADER, Kind, Record};
use crate::segment::Segment;
use crate::store::Inner;
use crate::window::ChunkNumber;

/// A record that was read.
pub(crate) struct Found {
    pub location: Location,
    /// As [`Record::expires`].
    pub expires: u64,
    /// The value; that of a large one is a [`Descriptor`](crate::pieces::Descriptor).
    pub value: Vec<u8>,
}

impl Found {
    /// The record that lies there.
    fn of(location: Location, record: &Record) -> Found {
        Found {
            location,
            expires: record.expires,
            value: record.value.to_vec(),
        }
    }
}

impl Inner {
    /// A key's record, unless it expired.
    pub async fn find(&self, key: &[u8]) -> Result<Option<Found>, Error> {
        while let Some(location) = self.locate_async(key).await {
            if let Some(found) = self.read(location, key).await? {
                return Ok(Some(found).filter(|it| self.counts(it.expires)));
            }
            // Cleaning moved it meanwhile.
        }
        Ok(None)
    }

    /// What `read` makes of a key's value, if it is in memory as one piece or there is none, and
    /// the index is not in slow memory; otherwise [`find`](Self::find) has to be asked.
    pub fn find_now<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Poll<Option<T>> {
        if self.index.is_tiered() {
            return Poll::Pending;
        }
        match self.locate(key) {
            Some(location) => self.find_now_at(location, ChunkNumber::default(), key, read),
            None => Poll::Ready(None),
        }
    }

    /// The same where the key's record is known to lie there, and probably in this chunk of the
    /// log's window.
    pub fn find_now_at<T>(
        &self,
        location: Location,
        near: ChunkNumber,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Option<T>> {
        if location.is_large() {
            return Poll::Pending;
        }
        let found = self.read_now(location, near, key, |record| {
            let counts = self.counts(record.expires);
            counts.then(|| read(record.value))
        });
        found.map_or(Poll::Pending, Poll::Ready)
    }

    /// What `read` makes of the record that lies there, of this key, if it is in memory, or was
    /// fetched.
    fn read_now<T>(
        &self,
        location: Location,
        near: ChunkNumber,
        key: &[u8],
        read: impl FnOnce(Record) -> T,
    ) -> Option<T> {
        let mut read = Some(read);
        let mut once = |record: Record| read.take().map(|read| read(record));
        let found = self.read_in_memory(location, near, key, &mut once);
        if found.is_some() {
            self.reads.note_memory();
            return found;
        }
        let (found, is_new) = self.fetches.get(location)?;
        self.note_waited(&found, is_new);
        once(put(key, found.expires, &found.value))
    }

    /// The same, if it is in memory; uncounted. `read` is called once at most.
    fn read_in_memory<T>(
        &self,
        location: Location,
        near: ChunkNumber,
        key: &[u8],
        mut read: impl FnMut(Record) -> Option<T>,
    ) -> Option<T> {
        let passing = self.window.read_near(near, location, |bytes, is_old| {
            // Memory is not checked: what was put there is what the log has.
            let record = put_of(Record::decode_checked(bytes), key)?;
            // As long as there is room, all that leaves the window is cached anyway.
            if is_old && self.cache.is_full() && !self.cache.contains(location) {
                self.cache
                    .insert_read(location, record.expires, record.value);
            }
            read(record)
        });
        if let Some(found) = passing {
            return found;
        }
        let cached = self
            .cache
            .read_now(location, |expires, value| read(put(key, expires, value)));
        if let Some(found) = cached {
            return found;
        }
        self.in_head(location, |record| read(put_of(Some(record), key)?))
    }

    /// What `read` makes of the record that lies there, if it is in a head's memory.
    pub fn in_head<T>(
        &self,
        location: Location,
        read: impl FnOnce(Record) -> Option<T>,
    ) -> Option<T> {
        let offset = location.offset();
        if self.log.segment(location.segment())?.written() > offset {
            return None;
        }
        let mut state = self.log.lock();
        let mut heads = state.heads();
        let head = heads.find(|it| it.segment.id() == location.segment())?;
        read(Record::decode_checked(head.read(offset)?)?)
    }

    /// Has the processor bring these records near, as far as they are in memory, all at the same
    /// time. `near` gets the chunk of each that is in the window. Returns those for which a read
    /// waits for the disk or for slow memory, fetched or not; but values in pieces are another
    /// matter.
    pub fn look(
        &self,
        records: impl Iterator<Item = (usize, Location)>,
        mut near: impl FnMut(usize, ChunkNumber),
    ) -> SmallVec<[(usize, Location); 16]> {
        let mut elsewhere = SmallVec::<[(usize, Location); 16]>::new();
        let tell = |record: (usize, Location), chunk| match chunk {
            Some(chunk) => near(record.0, chunk),
            None => elsewhere.push(record),
        };
        self.window.touch(records, tell);
        // Most of those that are in no file yet are in the same segment.
        let mut segment: Option<Arc<Segment>> = None;
        elsewhere.retain(|&mut (_, location)| {
            if location.is_large() || self.cache.touch(location) {
                return false;
            }
            let id = location.segment();
            if segment.as_ref().is_none_or(|it| it.id() != id) {
                segment = self.log.segment(id);
            }
            let segment = segment.as_ref();
            segment.is_some_and(|it| it.written() > location.offset())
        });
        elsewhere
    }

    /// The record that lies there, of this key, expired or not; `None` if its segment was erased.
    pub async fn read(&self, location: Location, key: &[u8]) -> Result<Option<Found>, Error> {
        self.read_from(|id| self.log.segment(id), location, key)
            .await
    }

    /// The same, in the segment that `segment` finds.
    pub async fn read_from(
        &self,
        segment: impl FnOnce(SegmentId) -> Option<Arc<Segment>>,
        location: Location,
        key: &[u8],
    ) -> Result<Option<Found>, Error> {
        let found = |record: Record| Found::of(location, &record);
        let near = ChunkNumber::default();
        if let Some(found) = self.read_now(location, near, key, found) {
            return Ok(Some(found));
        }
        let waited = self.wait_for(segment, location, key).await?;
        Ok(waited.map(|(found, is_new)| {
            self.note_waited(&found, is_new);
            found
        }))
    }

    /// The same of a record that has to be waited for; and whether it comes from the disk, so that
    /// the cache has yet to see it.
    pub async fn wait_for(
        &self,
        segment: impl FnOnce(SegmentId) -> Option<Arc<Segment>>,
        location: Location,
        key: &[u8],
    ) -> Result<Option<(Found, bool)>, Error> {
        if let Some((expires, value)) = self.cache.read(location).await {
            let found = Found {
                location,
                expires,
                value,
            };
            return Ok(Some((found, false)));
        }
        let Some(segment) = segment(location.segment()) else {
            return Ok(None);
        };
        let under_way = self.reads.begin_disk();
        let read = self.on_disk(&segment, location, |it| {
            put_of(Some(it), key).map(|it| Found::of(location, &it))
        });
        let (found, bytes) = read.await?;
        drop(under_way);
        // The cache has many parts, and adds up what each has.
        let is_full = match self.reads.note_disk() {
            true => !self.cache.has_room(),
            false => self.cache.is_full(),
        };
        if is_full && self.window.pass(bytes) {
            self.fit_cache();
        }
        Ok(Some((found, true)))
    }

    /// An operation got a record that had to be waited for; one from the disk was counted there.
    fn note_waited(&self, found: &Found, is_new: bool) {
        match is_new {
            true => self
                .cache
                .insert_read(found.location, found.expires, &found.value),
            false => self.reads.note_memory(),
        }
    }

    /// What `found` makes of the record that lies there in a segment's file, and how many bytes
    /// were read for it. A record of which it makes nothing is damaged.
    pub async fn on_disk<T>(
        &self,
        segment: &Segment,
        location: Location,
        found: impl FnOnce(Record) -> Option<T>,
    ) -> Result<(T, u64), Error> {
        // If it was in a head's memory, it was flushed meanwhile.
        let mut range = location.sectors();
        if range.is_empty() {
            // Too long for the index to know: its header says it.
            range.end = range.start + 2 * SECTOR as u64;
            let bytes = read(segment, range.clone()).await?;
            let at = (location.offset() - range.start) as usize;
            let len = Record::len_at(&bytes[at..]).unwrap_or(HEADER) as u64;
            if len > self.log.options().largest() as u64 {
                return Err(damaged(segment, location));
            }
            let end = location.offset() + len;
            range.end = end.next_multiple_of(SECTOR as u64);
        }
        range = self.cache.to_read(segment, range);
        let bytes = (range.end - range.start) as usize;
        let buffer = Buffer::for_reading(bytes).map_err(|_| Error::OutOfMemory)?;
        let (buffer, is_whole) = read_into(segment, buffer, range.clone()).await?;
        // Behind them is what was read before.
        let bytes = &buffer[..bytes];
        if is_whole {
            self.cache.insert_blocks(segment.id(), range.start, bytes);
        }
        let at = (location.offset() - range.start) as usize;
        let found = Record::decode(&bytes[at..]).and_then(found);
        let found = found.ok_or_else(|| damaged(segment, location))?;
        Ok((found, range.end - range.start))
    }
}

/// A record of this value of a key, as far as memory other than the log's knows it.
fn put<'b>(key: &'b [u8], expires: u64, value: &'b [u8]) -> Record<'b> {
    let record = Record::new(Kind::Put, 0, key, value);
    Record { expires, ..record }
}

/// A record, if it sets the value of this key.
fn put_of<'b>(record: Option<Record<'b>>, key: &[u8]) -> Option<Record<'b>> {
    record.filter(|it| it.kind == Kind::Put && it.key == key)
}

pub(crate) fn damaged(segment: &Segment, location: Location) -> Error {
    Error::Corrupt(segment.path.clone(), location.offset())
}

/// Sectors that may be unreadable where others are read: with more, the disk itself has failed.
const MOST_UNREADABLE: usize = 32;

/// Reads whole sectors of a segment.
pub(crate) async fn read(segment: &Segment, range: Range<u64>) -> Result<Buffer, Error> {
    let bytes = (range.end - range.start) as usize;
    let buffer = Buffer::zeroed(bytes).map_err(|_| Error::OutOfMemory)?;
    Ok(read_into(segment, buffer, range).await?.0)
}

/// The same, to the front of this buffer. Says whether all could be read.
pub(crate) async fn read_into(
    segment: &Segment,
    buffer: Buffer,
    range: Range<u64>,
) -> Result<(Buffer, bool), Error> {
    let read = read_file(&segment.file, buffer, range).await;
    read.map_err(Error::disk(&segment.path))
}

/// The same of a file. Sectors that the disk can't read come as ones, which are no record: so they
/// cost the records that they have, as damaged bytes do.
pub(crate) async fn read_file(
    file: &File,
    buffer: Buffer,
    range: Range<u64>,
) -> Result<(Buffer, bool), io::Error> {
    let bytes = (range.end - range.start) as usize;
    let (mut buffer, read) = file.read_exact(buffer, 0..bytes, range.start).await;
    match read {
        Err(error) if is_unreadable(&error) => {}
        read => return read.map(|()| (buffer, true)),
    }
    let mut unreadable = 0;
    for start in (0..bytes).step_by(SECTOR) {
        let part = start..start + SECTOR;
        let read;
        (buffer, read) = file
            .read_exact(buffer, part.clone(), range.start + start as u64)
            .await;
        match read {
            Err(error) if is_unreadable(&error) && unreadable < MOST_UNREADABLE => {
                unreadable += 1;
                buffer[part].fill(0xff);
            }
            read => read?,
        }
    }
    Ok((buffer, unreadable == 0))
}
