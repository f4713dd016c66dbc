//! A value's way back: from the cache, a head, the window of the log, or the disk.

use std::sync::Arc;

use timberline_io::{Buffer, SECTOR};

use crate::Error;
use crate::location::{Location, SegmentId};
use crate::record::{HEADER, Kind, Record};
use crate::segment::Segment;
use crate::store::Inner;

/// A record that was read.
pub(crate) struct Found {
    pub location: Location,
    /// As [`Record::expires`].
    pub expires: u64,
    pub value: Vec<u8>,
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
        let found = |record: Record| {
            let is_it = record.kind == Kind::Put && record.key == key;
            is_it.then(|| Found {
                location,
                expires: record.expires,
                value: record.value.to_vec(),
            })
        };
        // Memory is not checked: what was put there is what the log has.
        let whole = |bytes: &[u8]| found(Record::decode_checked(bytes)?);
        let passing = match self.window.read(location, whole) {
            Some((Some(passing), false)) => return Ok(Some(passing)),
            Some((passing, _)) => passing,
            None => None,
        };
        if let Some(cached) = self.values.get(location) {
            return Ok(Some(cached));
        }
        if let Some(passing) = passing {
            self.cache(&passing);
            return Ok(Some(passing));
        }
        let Some(segment) = segment(location.segment()) else {
            return Ok(None);
        };
        if location.offset() >= segment.written() {
            let mut state = self.log.lock();
            let mut heads = state
                .heads()
                .filter(|head| head.segment.id() == segment.id());
            if let Some(bytes) = heads.find_map(|head| head.read(location.offset())) {
                let found = whole(bytes);
                return found.map(Some).ok_or_else(|| damaged(&segment, location));
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
        let found = Record::decode(&buffer[at..]).and_then(found);
        let found = found.ok_or_else(|| damaged(&segment, location))?;
        self.cache(&found);
        if !self.values.has_room() && self.window.pass(range.end - range.start) {
            self.fit_cache();
        }
        Ok(Some(found))
    }

    fn cache(&self, found: &Found) {
        self.values
            .insert(found.location, found.expires, &found.value);
    }
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
