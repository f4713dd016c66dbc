//! Reading large values.

use std::ops::Range;
use std::sync::Arc;

use super::{Descriptor, piece_of};
use crate::location::Location;
use crate::read::{Found, damaged};
use crate::record::Record;
use crate::snapshot::{Hold, Moment};
use crate::store::{Inner, PENDING};
use crate::{Error, Store};

/// Reads a value piece by piece, or parts of it, so that it is never in memory as a whole
/// ([`Store::reader`], [`Snapshot::reader`](crate::Snapshot::reader)).
///
/// It reads the value that the key had when it was opened, whatever is put meanwhile. Segments that
/// are cleaned meanwhile keep their space on the disk, within
/// [`Options::snapshot_space`](crate::Options::snapshot_space), as for snapshots: a reader that
/// would hold more is given up, and fails with [`Error::SnapshotGivenUp`].
pub struct ValueReader {
    store: Store,
    content: Content,
    /// Bytes that [`next`](Self::next) has returned.
    passed: u64,
}

/// A value as the store has it ([`Store::value`]).
pub enum Stored {
    /// One in one piece.
    Whole(Vec<u8>),
    /// What reads one in pieces.
    Large(ValueReader),
}

enum Content {
    Whole(Vec<u8>),
    Pieces(Pieces),
}

/// The pieces of a value, and their segments as long as they may be read.
struct Pieces {
    about: Descriptor,
    places: Vec<Location>,
    hold: Arc<Hold>,
}

/// Bytes of a value that are to be copied, and where to.
type Part<'a> = (Range<usize>, &'a mut [u8]);

impl Drop for ValueReader {
    fn drop(&mut self) {
        if let Content::Pieces(pieces) = &self.content {
            self.store.inner.moments.remove_reader(&pieces.hold);
        }
    }
}

impl Store {
    /// A reader of a key's value, of any length; `None` if it has none. One of up to 1 MiB is read
    /// at once.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn reader(&self, key: &[u8]) -> Result<Option<ValueReader>, Error> {
        while let Some(found) = self.inner.find(key).await? {
            if let Some(reader) = self.reader_of(found, None)? {
                return Ok(Some(reader));
            }
            // It was replaced meanwhile.
        }
        Ok(None)
    }

    /// The value of a key, if it is in one piece; otherwise what reads it. So nobody gets a large
    /// buffer who did not ask for it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn value(&self, key: &[u8]) -> Result<Option<Stored>, Error> {
        while let Some(found) = self.inner.find(key).await? {
            if !found.location.is_large() {
                return Ok(Some(Stored::Whole(found.value)));
            }
            if let Some(reader) = self.reader_of(found, None)? {
                return Ok(Some(Stored::Large(reader)));
            }
            // It was replaced meanwhile.
        }
        Ok(None)
    }

    /// A reader of a record that was found, now or as a moment has it; `None` if that is over.
    pub(crate) fn reader_of(
        &self,
        found: Found,
        moment: Option<&Moment>,
    ) -> Result<Option<ValueReader>, Error> {
        let content = match found.location.is_large() {
            false => Some(Content::Whole(found.value)),
            true => self.inner.pieces_of(&found, moment)?.map(Content::Pieces),
        };
        Ok(content.map(|content| ValueReader {
            store: self.clone(),
            content,
            passed: 0,
        }))
    }

    /// The whole value of a record that was found, as [`reader_of`](Self::reader_of).
    pub(crate) async fn whole(
        &self,
        found: Found,
        moment: Option<&Moment>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if !found.location.is_large() {
            return Ok(Some(found.value));
        }
        let Some(reader) = self.reader_of(found, moment)? else {
            return Ok(None);
        };
        match reader.read_all().await {
            // Who has no snapshot knows nothing of its bounds.
            Err(Error::SnapshotGivenUp) if moment.is_none() => Ok(None),
            read => read.map(Some),
        }
    }
}

impl ValueReader {
    /// Bytes of the value.
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Whole(value) => value.len() as u64,
            Content::Pieces(pieces) => pieces.about.len,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the value's bytes from an offset on, until the buffer or the value ends, and returns
    /// how many. Each piece of up to 1 MiB that is touched is read from the disk as a whole, unless
    /// it was written a moment ago.
    ///
    /// # Errors
    /// The disk fails, or a piece is damaged: [`Error::Corrupt`] names its place. What the buffer
    /// has then is undefined.
    pub async fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let left = self.len().saturating_sub(offset);
        let bytes = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..bytes];
        match &self.content {
            Content::Whole(value) if bytes > 0 => {
                buffer.copy_from_slice(&value[offset as usize..][..bytes]);
            }
            Content::Pieces(pieces) => pieces.read(&self.store.inner, offset, buffer).await?,
            Content::Whole(_) => {}
        }
        Ok(bytes)
    }

    /// The next bytes of the value, from its start on: a piece of up to 1 MiB; `None` at the end.
    /// After an error the next call goes on behind the piece that could not be read.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, Error>> {
        let left = self.len() - self.passed;
        if left == 0 {
            return None;
        }
        let bytes = match &self.content {
            Content::Whole(_) => left,
            Content::Pieces(pieces) => left.min(u64::from(pieces.about.piece)),
        };
        let offset = self.passed;
        self.passed += bytes;
        Some(self.part(offset, bytes as usize).await)
    }

    async fn part(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, Error> {
        let mut part = Vec::new();
        let reserved = part.try_reserve_exact(bytes);
        reserved.map_err(|_| Error::OutOfMemory)?;
        part.resize(bytes, 0);
        self.read_at(offset, &mut part).await?;
        Ok(part)
    }

    /// All of it.
    async fn read_all(mut self) -> Result<Vec<u8>, Error> {
        match &mut self.content {
            Content::Whole(value) => Ok(std::mem::take(value)),
            Content::Pieces(pieces) => {
                let bytes = pieces.about.len as usize;
                self.part(0, bytes).await
            }
        }
    }
}

impl Pieces {
    async fn read(&self, inner: &Inner, offset: u64, mut buffer: &mut [u8]) -> Result<(), Error> {
        let piece = u64::from(self.about.piece);
        let (mut number, mut from) = ((offset / piece) as usize, (offset % piece) as usize);
        while !buffer.is_empty() {
            let bytes = buffer.len().min(piece as usize - from);
            let (first, rest) = buffer.split_at_mut(bytes);
            inner
                .read_piece(self, number, (from..from + bytes, first))
                .await?;
            (buffer, number, from) = (rest, number + 1, 0);
        }
        Ok(())
    }
}

impl Inner {
    /// The pieces of a large value of which a record was found; `None` if the record is its key's
    /// no more.
    fn pieces_of(&self, found: &Found, moment: Option<&Moment>) -> Result<Option<Pieces>, Error> {
        let segment = |location: Location| self.log.segment(location.segment());
        let state = self.log.lock();
        let Some(about) = Descriptor::decode(&found.value) else {
            return match segment(found.location) {
                Some(segment) => Err(damaged(&segment, found.location)),
                None => Ok(None),
            };
        };
        let noted = || moment?.value(about.id);
        let Some(value) = self.large.get(about.id).or_else(noted) else {
            return match moment {
                // A moment has noted all that it shows, or was given up.
                Some(_) => Err(Error::SnapshotGivenUp),
                None => Ok(None),
            };
        };
        let words = value.words();
        if words.contains(&PENDING) || words.len() < about.count() {
            let offset = found.location.offset();
            return match segment(found.location) {
                Some(segment) => Err(Error::Incomplete(segment.path.clone(), offset)),
                None => Ok(None),
            };
        }
        let places: Vec<_> = words.into_iter().map(Location::from_word).collect();
        let held = |location: &Location| {
            let id = location.segment();
            segment(*location).or_else(|| moment?.hold.segment(id))
        };
        let segments: Option<Vec<_>> = places.iter().map(held).collect();
        let Some(segments) = segments else {
            return Err(Error::SnapshotGivenUp);
        };
        let hold = Arc::new(Hold::new(segments.into_iter()));
        self.moments.add_reader(Arc::clone(&hold));
        drop(state);
        Ok(Some(Pieces {
            about,
            places,
            hold,
        }))
    }

    /// Copies a part of a piece.
    async fn read_piece(
        &self,
        pieces: &Pieces,
        number: usize,
        (range, to): Part<'_>,
    ) -> Result<(), Error> {
        let location = pieces.places[number];
        let segment = pieces.hold.segment(location.segment());
        let segment = segment.ok_or(Error::SnapshotGivenUp)?;
        let id = (pieces.about.id, number as u32);
        let mut copy = |record: Record| {
            let part = record.value.get(range.clone());
            let part = part.filter(|_| piece_of(&record) == Some(id))?;
            to.copy_from_slice(part);
            Some(())
        };
        // Memory is not checked: what was put there is what the log has.
        let in_memory = |bytes: &[u8], _| copy(Record::decode_checked(bytes)?);
        if let Some(Some(())) = self.window.read(location, in_memory) {
            return Ok(());
        }
        if self.in_head(location, &mut copy).is_some() {
            return Ok(());
        }
        self.on_disk(&segment, location, copy).await.map(|_| ())
    }
}
