//! Loading checkpoints.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use timberline_io::{BLOCK, Disk, Mode};

use super::page::{Kind, PAGE, Page, u64_at};
use super::part::Part;
use super::{Covered, PIECE, number_of, path};
use crate::cores::on_cores;
use crate::deadlines::Deadlines;
use crate::first_bytes::FirstBytes;
use crate::index::Index;
use crate::join::join;
use crate::location::{Location, SegmentId};
use crate::pieces::{Descriptor, Places};
use crate::record::NEVER;
use crate::segment::Segment;
use crate::store::PENDING;
use crate::{Error, IndexMemory, Options};

/// A checkpoint in memory. Without one: nothing.
pub(crate) struct Loaded {
    pub index: Box<dyn Index>,
    pub deadlines: Deadlines,
    pub first_bytes: FirstBytes,
    /// What the values of keys are made of that are in pieces.
    large: Mutex<HashMap<Vec<u8>, Descriptor>>,
    /// Where these lie.
    pub pieces: Places,
    /// Ascending by number.
    pub covered: Vec<Covered>,
    pub sequence: u64,
    /// Why newer ones, or all, could not be used: file, reason.
    pub refused: Vec<(PathBuf, String)>,
}

impl Loaded {
    /// Nothing, with an index in this memory.
    fn nothing(memory: &IndexMemory) -> Result<Loaded, Error> {
        Ok(Loaded {
            index: memory.make()?,
            deadlines: Deadlines::default(),
            first_bytes: FirstBytes::default(),
            large: Mutex::default(),
            pieces: Places::default(),
            covered: Vec::new(),
            sequence: 0,
            refused: Vec::new(),
        })
    }

    /// What the values of keys are made of that are in pieces, while threads share it.
    pub fn large(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Descriptor>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, when nobody else needs it any more.
    pub fn take_large(&mut self) -> HashMap<Vec<u8>, Descriptor> {
        std::mem::take(&mut *self.large())
    }

    /// What it knows of a segment.
    pub fn covered(&self, id: SegmentId) -> Option<Covered> {
        let at = self.covered.binary_search_by_key(&id, |it| it.id).ok()?;
        Some(self.covered[at])
    }
}

/// Loads the newest checkpoint that is whole, and counts what it knows as live in the segments.
/// `files` are a folder's, `segment` finds a segment on the disk.
pub(crate) async fn load<'a>(
    disk: &Disk,
    folder: &Path,
    files: &[PathBuf],
    store: u64,
    options: &Options,
    segment: impl Fn(SegmentId) -> Option<&'a Arc<Segment>> + Sync,
) -> Result<Loaded, Error> {
    let mut numbers: Vec<u32> = files.iter().filter_map(|it| number_of(it)).collect();
    numbers.sort_unstable();
    let mut refused = Vec::new();
    for number in numbers.into_iter().rev() {
        let path = path(folder, number);
        let mut loading = Loading {
            segment: &segment,
            now: options.clock.now(),
            loaded: Loaded::nothing(&options.index)?,
        };
        match loading.read(disk, &path, number, store, options).await {
            Ok(()) => {
                return Ok(Loaded {
                    refused,
                    ..loading.loaded
                });
            }
            Err(Reason::OutOfMemory) => return Err(Error::OutOfMemory),
            Err(Reason::Unusable(reason)) => refused.push((path, reason)),
        }
        for (_, word) in loading.loaded.index.iter() {
            let location = Location::from_word(word);
            if let Some(segment) = segment(location.segment()) {
                segment.kill(location);
            }
        }
    }
    Ok(Loaded {
        refused,
        ..Loaded::nothing(&options.index)?
    })
}

pub(super) enum Reason {
    OutOfMemory,
    Unusable(String),
}

impl From<String> for Reason {
    fn from(reason: String) -> Reason {
        Reason::Unusable(reason)
    }
}

impl From<std::io::Error> for Reason {
    fn from(error: std::io::Error) -> Reason {
        Reason::Unusable(error.to_string())
    }
}

struct Loading<F> {
    segment: F,
    /// What expires by then is passed over.
    now: u64,
    loaded: Loaded,
}

impl<'a, F: Fn(SegmentId) -> Option<&'a Arc<Segment>> + Sync> Loading<F> {
    async fn read(
        &mut self,
        disk: &Disk,
        path: &Path,
        number: u32,
        store: u64,
        options: &Options,
    ) -> Result<(), Reason> {
        let mode = Mode {
            direct: options.direct,
            ..Mode::read()
        };
        let file = disk.open_file(path, mode)?;
        let len = file.len()? / BLOCK as u64 * BLOCK as u64;
        let mut part = Part::read(&file, 0, len).await?;
        let (mut origin, mut index) = (None, 0);
        loop {
            let (mut rest, mut keys, mut ends) = (part.bytes(), Vec::new(), None);
            while ends.is_none() && (rest.len() >= PAGE || part.is_last) {
                let offset = part.file_end - rest.len() as u64;
                let page = Page::decode(&rest[..rest.len().min(PAGE)])
                    .map_err(|it| format!("{it}, at byte {offset}"))?;
                let first = *origin.get_or_insert(page.origin);
                if (page.origin, page.index) != (first, index) || first.number != number {
                    return Err(format!("it is damaged, at byte {offset}").into());
                }
                if first.store != store {
                    return Err("it belongs to another store".to_string().into());
                }
                match page.kind {
                    Kind::Segments => self.read_segments(page.payload)?,
                    Kind::Pieces => self.read_pieces(page.payload)?,
                    Kind::Keys => keys.push((page.payload, page.version)),
                    Kind::End => ends = Some(first.sequence),
                }
                rest = &rest[page.bytes() as usize..];
                index += 1;
            }
            let inserted = async { self.insert_all(&keys) };
            if let Some(sequence) = ends {
                inserted.await?;
                self.loaded.sequence = sequence;
                self.loaded.covered.sort_unstable_by_key(|it| it.id);
                return Ok(());
            }
            // The disk reads the next part while these keys go into the index.
            let (next, inserted) = join(Part::read(&file, part.file_end, len), inserted).await;
            inserted?;
            part = next?.behind(rest);
        }
    }

    /// Inserts the keys of several pages.
    fn insert_all(&self, pages: &[(&[u8], u32)]) -> Result<(), Reason> {
        let next = AtomicUsize::new(0);
        let insert = || {
            while let Some(&(payload, version)) = pages.get(next.fetch_add(1, Relaxed)) {
                self.insert_keys(payload, version)?;
            }
            Ok(())
        };
        on_cores(pages.len(), insert)
    }

    fn read_segments(&mut self, payload: &[u8]) -> Result<(), Reason> {
        let (all, rest) = payload.as_chunks::<{ Covered::BYTES }>();
        if !rest.is_empty() {
            return Err("its list of segments is damaged".to_string().into());
        }
        for covered in all.iter().map(Covered::decode) {
            let on_disk = (self.segment)(covered.id);
            if on_disk.is_some_and(|it| it.written() < covered.end) {
                let id = covered.id.0;
                return Err(format!("segment {id:06x} is shorter than it says").into());
            }
            self.loaded.covered.push(covered);
        }
        Ok(())
    }

    fn read_pieces(&mut self, payload: &[u8]) -> Result<(), Reason> {
        let (all, rest) = payload.as_chunks::<PIECE>();
        if !rest.is_empty() {
            return Err("its list of pieces is damaged".to_string().into());
        }
        for piece in all {
            let (id, number, word) = (u64_at(piece, 0), u64_at(piece, 8) as u32, u64_at(piece, 16));
            if word != PENDING && (self.segment)(Location::from_word(word).segment()).is_some() {
                self.loaded.pieces.add((id, number), word);
            }
        }
        Ok(())
    }

    /// Inserts the keys of a page, which ascend.
    fn insert_keys(&self, mut payload: &[u8], version: u32) -> Result<(), Reason> {
        let damaged = || "its list of keys is damaged".to_string();
        let (mut key, mut is_first) = (Vec::new(), true);
        let mut present = Keys::default();
        while !payload.is_empty() {
            let (lens, rest) = payload.split_at_checked(4).ok_or_else(damaged)?;
            let shared = usize::from(u16::from_le_bytes([lens[0], lens[1]]));
            let more = usize::from(u16::from_le_bytes([lens[2], lens[3]]));
            let (bytes, rest) = rest.split_at_checked(more).ok_or_else(damaged)?;
            let (word, mut rest) = rest.split_at_checked(8).ok_or_else(damaged)?;
            let behind = key.get(shared..).ok_or_else(damaged)?;
            if !is_first && bytes <= behind {
                return Err(damaged().into());
            }
            is_first = false;
            key.truncate(shared);
            key.extend_from_slice(bytes);
            let location = Location::from_version(version, u64_at(word, 0));
            let mut expires = NEVER;
            if location.expires() {
                let at;
                (at, rest) = rest.split_at_checked(8).ok_or_else(damaged)?;
                expires = u64_at(at, 0);
            }
            let mut large = None;
            if location.is_large() {
                let about;
                (about, rest) = rest
                    .split_at_checked(Descriptor::BYTES)
                    .ok_or_else(damaged)?;
                large = Some(Descriptor::decode(about).ok_or_else(damaged)?);
            }
            // Where the segment is gone, the record was moved or replaced behind the checkpoint.
            if let Some(segment) = (self.segment)(location.segment())
                && expires > self.now
            {
                present.add(&key, location, segment);
                if expires != NEVER {
                    let reserved = self.loaded.deadlines.reserve(&key, expires);
                    reserved.map_err(|_| Reason::OutOfMemory)?;
                    self.loaded.deadlines.place(&key, expires);
                }
                if let Some(about) = large {
                    self.loaded.large().insert(key.clone(), about);
                }
            }
            payload = rest;
        }
        let mut words = present.iter().map(|(key, it, _)| (key, it.to_word()));
        let loaded = self.loaded.index.load(&mut words);
        loaded.map_err(|_| Reason::OutOfMemory)?;
        let mut first_bytes = self.loaded.first_bytes.run();
        for (key, location, segment) in present.iter() {
            first_bytes.add(key);
            segment.revive(location);
        }
        Ok(())
    }
}

/// Keys that are about to go into the index.
#[derive(Default)]
struct Keys<'a> {
    bytes: Vec<u8>,
    /// Where each ends, and where its record lies.
    ends: Vec<(usize, Location, &'a Segment)>,
}

impl<'a> Keys<'a> {
    fn add(&mut self, key: &[u8], location: Location, segment: &'a Segment) {
        self.bytes.extend_from_slice(key);
        self.ends.push((self.bytes.len(), location, segment));
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], Location, &'a Segment)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, location, segment)| {
            let key = &self.bytes[start..end];
            start = end;
            (key, location, segment)
        })
    }
}
