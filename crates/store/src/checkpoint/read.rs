//! Loading checkpoints.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use timberline_io::{BLOCK, Buffer, Disk, Mode};

use super::entry::Entries;
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
use crate::{Error, IndexMemory, Options, Shortened};

/// A checkpoint in memory. Without one: nothing.
pub(crate) struct Loaded {
    /// The number of its file.
    pub number: Option<u32>,
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
    /// Segments that are shorter than newer ones, or all, know them.
    pub shortened: Vec<Shortened>,
    /// Keys of it in each segment that is gone.
    gone: Mutex<BTreeMap<SegmentId, u64>>,
}

impl Loaded {
    /// Nothing, with an index in this memory.
    fn nothing(memory: &IndexMemory) -> Result<Loaded, Error> {
        Ok(Loaded {
            number: None,
            index: memory.make()?,
            deadlines: Deadlines::default(),
            first_bytes: FirstBytes::default(),
            large: Mutex::default(),
            pieces: Places::default(),
            covered: Vec::new(),
            sequence: 0,
            refused: Vec::new(),
            shortened: Vec::new(),
            gone: Mutex::default(),
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

    /// Keys of it in each segment that is gone.
    pub fn gone(&self) -> MutexGuard<'_, BTreeMap<SegmentId, u64>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
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
    let (mut refused, mut shortened) = (Vec::new(), Vec::new());
    for number in numbers.into_iter().rev() {
        let path = path(folder, number);
        let mut loading = Loading {
            segment: &segment,
            spare: Mutex::default(),
            now: options.clock.now(),
            loaded: Loaded::nothing(&options.index)?,
        };
        match loading.read(disk, &path, number, store, options).await {
            Ok(()) => {
                return Ok(Loaded {
                    number: Some(number),
                    refused,
                    shortened,
                    ..loading.loaded
                });
            }
            Err(Reason::OutOfMemory) => return Err(Error::OutOfMemory),
            Err(Reason::Unusable(reason)) => refused.push((path, reason)),
        }
        // An older one may know of the same.
        if shortened.is_empty() {
            shortened = loading.loaded.shortened;
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
        shortened,
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

struct Loading<'a, F> {
    segment: F,
    /// For the keys of the next pages: half a megabyte that would come from the system, and go
    /// back, with each page.
    spare: Mutex<Vec<Keys<'a>>>,
    /// What expires by then is passed over.
    now: u64,
    loaded: Loaded,
}

impl<'a, F: Fn(SegmentId) -> Option<&'a Arc<Segment>> + Sync> Loading<'a, F> {
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
        let mut part = Part::read(&file, 0, len, Buffer::default()).await?;
        let mut spare = Buffer::default();
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
                    Kind::Keys => keys.push(Entries::new(page.payload, page.version, number)),
                    Kind::End => ends = Some(first.sequence),
                }
                rest = &rest[page.bytes() as usize..];
                index += 1;
            }
            let inserted = async { self.insert_all(keys) };
            if let Some(sequence) = ends {
                inserted.await?;
                self.loaded.sequence = sequence;
                self.loaded.covered.sort_unstable_by_key(|it| it.id);
                return Ok(());
            }
            // The disk reads the next part while these keys go into the index.
            let next = Part::read(&file, part.file_end, len, spare);
            let (next, inserted) = join(next, inserted).await;
            inserted?;
            let next = next?.behind(rest);
            spare = std::mem::replace(&mut part, next).into_buffer();
        }
    }

    /// Inserts the keys of several pages.
    fn insert_all(&self, pages: Vec<Entries<'_>>) -> Result<(), Reason> {
        on_cores(pages.len(), pages.into_iter(), |page| {
            self.insert_keys(page)
        })
    }

    fn read_segments(&mut self, payload: &[u8]) -> Result<(), Reason> {
        let (all, rest) = payload.as_chunks::<{ Covered::BYTES }>();
        if !rest.is_empty() {
            return Err("its list of segments is damaged".to_string().into());
        }
        for covered in all.iter().map(Covered::decode) {
            let on_disk = (self.segment)(covered.id);
            if let Some(segment) = on_disk.filter(|it| it.written() < covered.end) {
                let (at, end) = (segment.written(), covered.end);
                let cut_off = Shortened::CutOff(segment.path.clone(), at, end);
                self.loaded.shortened.push(cut_off);
            }
            self.loaded.covered.push(covered);
        }
        match self.loaded.shortened.first() {
            None => Ok(()),
            Some(first) => {
                let name = first.path().file_name().unwrap_or_default().display();
                Err(format!("{name} is shorter than it says").into())
            }
        }
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
    fn insert_keys(&self, mut entries: Entries<'_>) -> Result<(), Reason> {
        let mut present = self.spare().pop().unwrap_or_default();
        let mut gone = BTreeMap::<SegmentId, u64>::new();
        while !entries.are_over() {
            let entry = entries.next();
            let entry = entry.ok_or_else(|| "its list of keys is damaged".to_string())?;
            let (key, expires) = (entries.key(), entry.expires);
            if expires <= self.now {
                continue;
            }
            // Where the segment is gone, the record was moved or replaced behind the checkpoint.
            let id = entry.location.segment();
            let Some(segment) = (self.segment)(id) else {
                *gone.entry(id).or_default() += 1;
                continue;
            };
            present.add(key, entry.location, segment);
            if expires != NEVER {
                let reserved = self.loaded.deadlines.reserve(key, expires);
                reserved.map_err(|_| Reason::OutOfMemory)?;
                self.loaded.deadlines.place(key, expires);
            }
            if let Some(about) = entry.about {
                self.loaded.large().insert(key.to_vec(), about);
            }
        }
        for (id, keys) in gone {
            *self.loaded.gone().entry(id).or_default() += keys;
        }
        let word = |(key, it, _): (_, Location, _)| (key, it.to_word());
        let loaded = self.loaded.index.load(&mut present.iter().map(word));
        loaded.map_err(|_| Reason::OutOfMemory)?;
        let mut first_bytes = self.loaded.first_bytes.run();
        present.iter().for_each(|(key, ..)| first_bytes.add(key));
        present.revive();
        present.clear();
        self.spare().push(present);
        Ok(())
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Keys<'a>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

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

    /// They are in the index. Each segment is told once: threads would wait for each other.
    fn revive(&self) {
        let numbers = || self.ends.iter().map(|it| it.1.segment().0);
        let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else {
            return;
        };
        let mut live = vec![(None, 0); (last - first) as usize + 1];
        for &(_, location, segment) in &self.ends {
            let (of, sectors) = &mut live[(location.segment().0 - first) as usize];
            *of = Some(segment);
            *sectors += location.touched();
        }
        for (segment, sectors) in live {
            if let Some(segment) = segment {
                segment.revive_sectors(sectors);
            }
        }
    }
}
