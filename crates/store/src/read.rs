//! A value's way back: from the cache, a head, the window of the log, or the disk.

use timberline_io::{Buffer, SECTOR};

use crate::Error;
use crate::location::Location;
use crate::record::{HEADER, Kind, Record};
use crate::segment::Segment;
use crate::store::Inner;

impl Inner {
    /// A key's record.
    pub async fn find(&self, key: &[u8]) -> Result<Option<(Location, Vec<u8>)>, Error> {
        while let Some(location) = self.locate(key) {
            if let Some(value) = self.read(location, key).await? {
                return Ok(Some((location, value)));
            }
            // Cleaning moved it meanwhile.
        }
        Ok(None)
    }

    /// The value in a record with this key; `None` if its segment was erased.
    pub async fn read(&self, location: Location, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        // Memory is not checked: what was put there is what the log has.
        let whole =
            |bytes: &[u8]| value_of(Record::decode_checked(bytes)?, key).map(<[u8]>::to_vec);
        let passing = match self.window.read(location, whole) {
            Some((Some(value), false)) => return Ok(Some(value)),
            Some((value, _)) => value,
            None => None,
        };
        if let Some(value) = self.values.get(location) {
            return Ok(Some(value));
        }
        if let Some(value) = passing {
            self.values.insert(location, &value);
            return Ok(Some(value));
        }
        let Some(segment) = self.log.segment(location.segment()) else {
            return Ok(None);
        };
        if location.offset() >= segment.written() {
            let mut state = self.log.lock();
            let mut heads = state
                .heads()
                .filter(|head| head.segment.id() == segment.id());
            if let Some(bytes) = heads.find_map(|head| head.read(location.offset())) {
                let value = whole(bytes);
                return value.map(Some).ok_or_else(|| damaged(&segment, location));
            }
            // It was flushed meanwhile.
        }
        let mut range = location.sectors();
        if range.is_empty() {
            // Too long for the index to know: its header says it.
            range.end = range.start + 2 * SECTOR as u64;
            let bytes = read(&segment, range.clone()).await?;
            let at = (location.offset() - range.start) as usize;
            let len = Record::len_at(&bytes[at..]).unwrap_or(HEADER) as u64;
            if len > self.log.options().largest() as u64 {
                return Err(damaged(&segment, location));
            }
            let end = location.offset() + len;
            range.end = end.next_multiple_of(SECTOR as u64);
        }
        let buffer = read(&segment, range.clone()).await?;
        let at = (location.offset() - range.start) as usize;
        let value = value_in(&buffer[at..], key).ok_or_else(|| damaged(&segment, location))?;
        self.values.insert(location, value);
        if !self.values.has_room() && self.window.pass(range.end - range.start) {
            self.fit_cache();
        }
        Ok(Some(value.to_vec()))
    }
}

/// The value in the record at the start of these bytes, if it is one with this key.
fn value_in<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    value_of(Record::decode(bytes)?, key)
}

fn value_of<'a>(record: Record<'a>, key: &[u8]) -> Option<&'a [u8]> {
    (record.kind == Kind::Put && record.key == key).then_some(record.value)
}

fn damaged(segment: &Segment, location: Location) -> Error {
    Error::Corrupt(segment.path.clone(), location.offset())
}

/// Reads whole sectors of a segment.
pub(crate) async fn read(segment: &Segment, range: std::ops::Range<u64>) -> Result<Buffer, Error> {
    let bytes = (range.end - range.start) as usize;
    let buffer = Buffer::zeroed(bytes).map_err(|_| Error::OutOfMemory)?;
    let (buffer, read) = segment.file.read_exact(buffer, 0..bytes, range.start).await;
    read.map_err(Error::disk(&segment.path))?;
    Ok(buffer)
}
