//! Writing checkpoints.

use std::path::Path;

use timberline_io::{Buffer, File, Mode};

use super::entry::Entry;
use super::page::{HEADER, Kind, Origin, PAGE, seal};
use super::{Covered, number_of, path, piece};
use crate::join::Turn;
use crate::location::{Location, SegmentId};
use crate::reads::Reads;
use crate::record::NEVER;
use crate::segment::START;
use crate::store::{Inner, PENDING};
use crate::{Error, Store};

/// The fewest segments from one checkpoint to the next.
const FEWEST: u32 = 4;
/// Keys after which others have a turn, who may be on the same thread: a get would wait for all
/// keys of a page, which takes milliseconds.
const KEYS: u32 = 512;

impl Store {
    /// Begins a checkpoint of the index, without waiting. [`maintain`](Self::maintain) writes one
    /// whenever the log has grown by half, and when the store closes.
    pub fn begin_checkpoint(&self) {
        let mut state = self.inner.log.lock();
        state.checkpoint_wanted = true;
        state.changed();
    }

    /// Why the last checkpoint could not be written. The store works without it, but opening it
    /// takes longer.
    pub fn checkpoint_failure(&self) -> Option<Error> {
        self.inner.log.lock().checkpoint_failure.clone()
    }
}

impl Inner {
    /// Writes checkpoints whenever it is time, until a write of the log fails or the store closes.
    pub async fn checkpoint_all(&self) {
        loop {
            let go_on = self.log.wait(|state| {
                if state.closing || state.failed.is_some() {
                    return Some(false);
                }
                let grown = state.next.0 - state.checkpointed.0;
                let is_due = grown >= FEWEST.max(self.log.len() as u32 / 2);
                (is_due || state.checkpoint_wanted).then_some(true)
            });
            if !go_on.await {
                return;
            }
            self.write_checkpoint(false).await;
        }
    }

    /// Writes a checkpoint and removes the others; notes why not. `is_last` says that nothing is
    /// appended any more and all is on the disk.
    pub async fn write_checkpoint(&self, is_last: bool) {
        let whole = self.log.lock().whole_checkpoint;
        // One that was never finished would take the space of this one.
        self.remove_checkpoints_but(whole).await;
        let (origin, covered) = self.begin(is_last);
        self.wait_for_index();
        let path = path(&self.folder, origin.number);
        let mode = Mode {
            direct: self.log.options().direct,
            ..Mode::create()
        };
        let written = async {
            let file = self.disk.open_file(&path, mode);
            let file = file.map_err(Error::disk(&path))?;
            let mut pages = Pages::new(self, file, &path, origin)?;
            for covered in covered {
                pages.push(Kind::Segments, &covered.encode()).await?;
            }
            for value in self.large.all() {
                for (number, word) in (0u32..).zip(value.words()) {
                    pages
                        .push(Kind::Pieces, &piece(value.id, number, word))
                        .await?;
                }
            }
            let mut turn = Turn::default();
            for (key, word) in self.index.iter().filter(|it| it.1 != PENDING) {
                turn.after(KEYS).await;
                let location = Location::from_word(word);
                let listed = match location.expires() || location.is_large() {
                    true => self.listed(&key),
                    false => Some(Entry {
                        location,
                        expires: NEVER,
                        about: None,
                    }),
                };
                if let Some(entry) = listed {
                    pages.push_key(&key, entry).await?;
                }
            }
            pages.flush().await?;
            if !is_last {
                self.sync_all().await?;
            }
            pages.end().await?;
            let synced = self.disk.sync_folder(&self.folder).await;
            synced.map_err(Error::disk(&self.folder))
        };
        let written = written.await;
        let whole = match written.is_ok() {
            true => Some(origin.number),
            false => whole,
        };
        self.remove_checkpoints_but(whole).await;
        let mut state = self.log.lock();
        state.whole_checkpoint = whole;
        state.checkpoints += u64::from(written.is_ok());
        state.checkpoint_failure = written.err();
    }

    /// What is listed of a key, unless it expired.
    fn listed(&self, key: &[u8]) -> Option<Entry> {
        let _stripe = self.stripe(key);
        let (location, expires) = self.current(key)?;
        let value = location.is_large().then(|| self.large.of(key)).flatten();
        Some(Entry {
            location,
            expires,
            about: value.map(|it| it.descriptor()),
        })
    }

    /// The moment of a checkpoint: how far each segment is written, and its number.
    fn begin(&self, is_last: bool) -> (Origin, Vec<Covered>) {
        let mut state = self.log.lock();
        state.checkpoint_wanted = false;
        let number = state.next.0;
        state.next = SegmentId(number + 1);
        state.checkpointed = state.next;
        let heads: Vec<_> = state
            .heads()
            .map(|it| (it.segment.id(), it.end()))
            .collect();
        let mut covered = Vec::new();
        for segment in self.log.segments() {
            let head = heads.iter().find(|it| it.0 == segment.id());
            let end = head.map_or(segment.written(), |it| it.1);
            covered.push(segment.covered(end, is_last || head.is_none()));
        }
        let spares = state.spares.iter();
        covered.extend(spares.map(|it| it.covered(START, is_last)));
        let origin = Origin {
            number,
            store: self.id,
            sequence: state.sequence,
        };
        (origin, covered)
    }

    /// Removes those that are not this one. What stays is removed another time.
    async fn remove_checkpoints_but(&self, whole: Option<u32>) {
        let mut are_gone = false;
        for path in self.disk.list(&self.folder).unwrap_or_default() {
            if number_of(&path).is_some_and(|it| Some(it) != whole) {
                are_gone |= self.disk.remove(&path).await.is_ok();
            }
        }
        if are_gone {
            // Their space is free when their names are gone for good.
            let _ = self.disk.sync_folder(&self.folder).await;
        }
    }
}

/// A file to which pages are appended.
struct Pages<'a> {
    file: File,
    path: &'a Path,
    origin: Origin,
    reads: &'a Reads,
    /// Bytes in the file.
    offset: u64,
    /// The page under way.
    index: u32,
    kind: Kind,
    buffer: Buffer,
    /// Bytes of its payload.
    len: usize,
    /// The last key in it.
    last: Vec<u8>,
    /// Memory for the bytes of an entry.
    entry: Vec<u8>,
}

impl<'a> Pages<'a> {
    fn new(
        inner: &'a Inner,
        file: File,
        path: &'a Path,
        origin: Origin,
    ) -> Result<Pages<'a>, Error> {
        Ok(Pages {
            file,
            path,
            origin,
            reads: &inner.reads,
            offset: 0,
            index: 0,
            kind: Kind::Segments,
            buffer: Buffer::zeroed(PAGE).map_err(|_| Error::OutOfMemory)?,
            len: 0,
            last: Vec::new(),
            entry: Vec::new(),
        })
    }

    /// Appends bytes to a page of this kind, on which they lie as a whole.
    async fn push(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), Error> {
        if self.kind != kind || HEADER + self.len + bytes.len() > PAGE {
            self.flush().await?;
            self.kind = kind;
        }
        self.append(bytes);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) {
        let at = HEADER + self.len;
        self.buffer[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends a key, and what is known of it.
    async fn push_key(&mut self, key: &[u8], entry: Entry) -> Result<(), Error> {
        let mut bytes = std::mem::take(&mut self.entry);
        bytes.clear();
        entry.append_to(&mut bytes, key, &self.last, self.origin.number);
        // On a page of its own it takes more, as it shares nothing with a key before.
        if self.kind != Kind::Keys || HEADER + self.len + bytes.len() > PAGE {
            self.flush().await?;
            self.kind = Kind::Keys;
            bytes.clear();
            entry.append_to(&mut bytes, key, &[], self.origin.number);
        }
        self.append(&bytes);
        self.entry = bytes;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Writes the page under way, if anything is on it.
    async fn flush(&mut self) -> Result<(), Error> {
        if self.len == 0 {
            return Ok(());
        }
        self.write().await
    }

    async fn write(&mut self) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let bytes = seal(&mut buffer, self.len, self.origin, self.index, self.kind);
        let mut written = 0;
        while written < bytes {
            let more = self.reads.at_once(PAGE as u64) as usize;
            let range = written..bytes.min(written + more);
            let (at, end) = (self.offset + range.start as u64, range.end);
            let ended;
            (buffer, ended) = self.file.write_all(buffer, range, at).await;
            ended.map_err(Error::disk(self.path))?;
            written = end;
        }
        self.buffer = buffer;
        self.offset += bytes as u64;
        self.index += 1;
        self.len = 0;
        self.last.clear();
        Ok(())
    }

    /// Writes the last page and waits until all are on the disk.
    async fn end(&mut self) -> Result<(), Error> {
        self.kind = Kind::End;
        self.write().await?;
        self.file.sync().await.map_err(Error::disk(self.path))
    }
}
