//! The records of a segment, read from its file in order.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use timberline_io::{Buffer, SECTOR, yield_now};

use crate::Error;
use crate::index::GROUP;
use crate::location::{GRAIN, Location};
use crate::read::read_into;
use crate::record::{HEADER, Kind, Moved, Record};
use crate::segment::Segment;

/// Bytes that are read at once, unless [otherwise said](Records::read_by).
pub(crate) const CHUNK: u64 = 256 << 10;

/// Reads a segment's records in order. Damaged ones are passed over. While those of one chunk are
/// looked at, the next chunk is read.
pub(crate) struct Records<'a> {
    segment: &'a Segment,
    /// Bytes that are read at once.
    chunk: u64,
    /// The record, and where the next one is looked for.
    offset: u64,
    next: u64,
    /// Records that begin before are as they were written.
    checked: u64,
    /// The segment's bytes from `start` on.
    bytes: Vec<u8>,
    start: u64,
    /// The chunk behind them, if it is being read.
    ahead: Option<Chunk<'a>>,
    /// Damaged bytes that were not told yet.
    damaged: Option<Damaged>,
    in_damage: bool,
    /// Whether the disk could read all so far.
    is_readable: bool,
}

/// Bytes that are no records.
pub(crate) struct Damaged {
    /// Where they begin.
    pub from: u64,
    /// What these records seem to have been, if they fill the place. It may be wrong.
    pub records: Vec<Seeming>,
    /// Where those end.
    end: u64,
    /// Whether there are zeros only, as where nothing was written.
    pub is_blank: bool,
}

/// A record that is damaged.
pub(crate) struct Seeming {
    pub kind: Kind,
    pub sequence: u64,
    pub expires: u64,
    pub key: Vec<u8>,
}

impl Damaged {
    fn at(from: u64) -> Damaged {
        Damaged {
            from,
            records: Vec::new(),
            end: from,
            is_blank: true,
        }
    }

    /// Bytes that seem to be a record begin there.
    fn note(&mut self, offset: u64, bytes: &[u8]) {
        if self.end != offset {
            return;
        }
        if let Some(record) = Record::without_value(bytes)
            && let Some(len) = Record::len_at(bytes)
        {
            self.records.push(Seeming {
                kind: record.kind,
                sequence: record.sequence,
                expires: record.expires,
                key: record.key.to_vec(),
            });
            self.end += len as u64;
        }
    }

    /// What follows is as it was written, or the segment's end.
    fn end_at(&mut self, offset: u64) {
        if self.end != offset {
            self.records.clear();
        }
    }
}

/// A read that is under way.
struct Chunk<'a> {
    /// What it reads: from the start of a sector on.
    from: u64,
    to: u64,
    reading: Reading<'a>,
}

/// What was read, and whether the disk could read all of it.
type Reading<'a> = Pin<Box<dyn Future<Output = Result<(Buffer, bool), Error>> + Send + 'a>>;

impl<'a> Records<'a> {
    /// Those from a byte on where a record begins.
    pub fn new(segment: &'a Segment, from: u64) -> Records<'a> {
        Records {
            segment,
            chunk: CHUNK,
            offset: from,
            next: from,
            checked: from,
            bytes: Vec::new(),
            start: from / SECTOR as u64 * SECTOR as u64,
            ahead: None,
            damaged: None,
            in_damage: false,
            is_readable: true,
        }
    }

    /// Reads so many bytes at once from now on.
    pub fn read_by(&mut self, bytes: u64) {
        self.chunk = bytes;
    }

    /// Whether the disk could read all so far. What it can't read it may read another time.
    pub fn are_readable(&self) -> bool {
        self.is_readable
    }

    /// Damaged bytes in front of the last record, or at the end; once.
    pub fn take_damage(&mut self) -> Option<Damaged> {
        self.damaged.take()
    }

    /// Goes on to the next record that is as it was written.
    pub async fn next(&mut self) -> Result<Option<Location>, Error> {
        let end = self.segment.written();
        self.offset = self.next;
        while self.offset < end {
            self.fill(HEADER, end).await?;
            if let Some(len) = Record::len_at(self.rest())
                && self.offset + len as u64 <= end
            {
                self.fill(len, end).await?;
                let record = match self.offset < self.checked {
                    true => Record::decode_checked(self.rest()),
                    false => Record::decode(self.rest()),
                };
                if let Some(record) = record {
                    let location = Location::of(self.segment.id(), self.offset, &record);
                    self.next = self.offset + len as u64;
                    self.end_damage();
                    return Ok(Some(location));
                }
            }
            let zeros = self.zeros();
            let passed_over = (zeros / GRAIN * GRAIN).saturating_sub(GRAIN).max(GRAIN);
            self.note_damage(passed_over <= zeros);
            self.offset += passed_over;
        }
        self.next = self.offset;
        self.end_damage();
        Ok(None)
    }

    /// No record begins at the offset, nor in the next bytes, which may be zeros.
    fn note_damage(&mut self, are_zeros: bool) {
        let from = self.offset;
        if !std::mem::replace(&mut self.in_damage, true) {
            self.damaged.get_or_insert_with(|| Damaged::at(from));
        }
        if let Some(mut damaged) = self.damaged.take() {
            damaged.note(from, self.rest());
            damaged.is_blank &= are_zeros;
            self.damaged = Some(damaged);
        }
    }

    /// Damaged bytes end at the offset, if there were some.
    fn end_damage(&mut self) {
        if std::mem::take(&mut self.in_damage)
            && let Some(damaged) = &mut self.damaged
        {
            damaged.end_at(self.offset);
        }
    }

    /// The record that [`next`](Self::next) went to.
    pub fn record(&self) -> Record<'_> {
        Record::decode_checked(self.rest()).expect("`next` found a record here")
    }

    /// The same, to be moved.
    pub fn moved(&self) -> Moved<'_> {
        let bytes = self.seeming_at(self.offset);
        bytes
            .and_then(Moved::read)
            .expect("`next` found a record here")
    }

    /// Checks the next records, as far as they are in memory: [`coming`](Self::coming) are those
    /// that are as they were written.
    pub fn check_ahead(&mut self) {
        self.checked = self.checked.max(self.next);
        for _ in 1..GROUP {
            match self.seeming_at(self.checked) {
                Some(bytes) if Record::decode(bytes).is_some() => {
                    self.checked += bytes.len() as u64
                }
                _ => return,
            }
        }
    }

    /// The record that [`next`](Self::next) went to and those behind it that were checked, and
    /// where they are.
    pub fn coming(&self) -> impl Iterator<Item = (Location, Moved<'_>)> {
        let mut next = self.offset;
        std::iter::from_fn(move || {
            let offset = (next < self.checked).then_some(next)?;
            let bytes = self.seeming_at(offset)?;
            let record = Moved::read(bytes)?;
            next += bytes.len() as u64;
            Some((Location::of(self.segment.id(), offset, &record), record))
        })
    }

    /// The bytes of what seems to be a record, if they are in memory.
    fn seeming_at(&self, offset: u64) -> Option<&[u8]> {
        let rest = self.bytes.get((offset - self.start) as usize..)?;
        rest.get(..Record::len_at(rest)?)
    }

    /// Zeros from the offset on, as far as they are in memory: what was never written is zero. The
    /// last of them may begin a record: its first word may be zero, its second is not.
    fn zeros(&self) -> u64 {
        let rest = self.rest();
        let other = rest.iter().position(|&byte| byte != 0);
        other.unwrap_or(rest.len()) as u64
    }

    /// What is in memory from the offset on.
    fn rest(&self) -> &[u8] {
        &self.bytes[(self.offset - self.start) as usize..]
    }

    /// Reads until this many bytes from the offset on are in memory, or the segment ends.
    async fn fill(&mut self, bytes: usize, end: u64) -> Result<(), Error> {
        let want = (self.offset + bytes as u64).min(end);
        while self.have() < want {
            let chunk = match self.ahead.take() {
                Some(chunk) => chunk,
                None => self.begin(self.have(), end, Buffer::default())?,
            };
            let (buffer, is_whole) = chunk.reading.await?;
            self.is_readable &= is_whole;
            let passed = (self.offset.min(self.have()) - self.start) as usize;
            self.bytes.drain(..passed);
            self.start += passed as u64;
            let new = (self.have() - chunk.from) as usize..(chunk.to - chunk.from) as usize;
            self.bytes.extend_from_slice(&buffer[new]);
            if chunk.to < end {
                self.ahead = Some(self.begin(chunk.to, end, buffer)?);
                // So that a driver on this thread gives it to the disk before what follows.
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Where the bytes that are in memory end.
    fn have(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Begins to read the next chunk, to this buffer if it is long enough. Only bytes up to `end`,
    /// from which on the file may be written to, are taken from it.
    fn begin(&self, from: u64, end: u64, mut buffer: Buffer) -> Result<Chunk<'a>, Error> {
        let sector = SECTOR as u64;
        let to = end.min(from + self.chunk);
        let range = from / sector * sector..to.next_multiple_of(sector);
        let bytes = (range.end - range.start) as usize;
        if buffer.len() < bytes {
            buffer = Buffer::for_reading(bytes).map_err(|_| Error::OutOfMemory)?;
        }
        let from = range.start;
        let mut chunk = Chunk {
            from,
            to,
            reading: Box::pin(read_into(self.segment, buffer, range)),
        };
        // The request is made when its future is polled for the first time. If it has ended then,
        // its result is kept.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(read) = chunk.reading.as_mut().poll(&mut context) {
            chunk.reading = Box::pin(std::future::ready(read));
        }
        Ok(chunk)
    }
}
