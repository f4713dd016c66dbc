//! Opening: the index is made of the records on the disk.
//!
//! Of each key the record with the greatest sequence number counts. In a segment that was sealed, a
//! damaged record is an accident of the disk and costs that record. In one that was not, it is
//! where the store was when it ended: everything from there on was not acknowledged as durable and
//! is dropped, whatever it is, so that what is visible ends at one record. A batch of which a part
//! is missing there is dropped whole.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer, Disk, Mode};
use timberline_tree::Art;

use crate::cleaning::Records;
use crate::location::{Location, SegmentId};
use crate::log::{Log, State};
use crate::record::Kind;
use crate::segment::{self, Header, START, Segment};
use crate::{Error, Options};

/// What was found when a store was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Keys that have a value.
    pub keys: usize,
    /// Segments with records.
    pub segments: usize,
    /// Damaged places in segments that were sealed: file, byte, as far as they are not more than
    /// 100. Records there are lost.
    pub damaged: Vec<(PathBuf, u64)>,
    /// Ends of segments that were dropped because they were never complete: file, byte.
    pub incomplete: Vec<(PathBuf, u64)>,
}

/// An open store.
pub(crate) struct Recovered {
    pub store: u64,
    pub log: Log,
    pub index: Art<[u8], u64>,
    pub report: Report,
}

pub(crate) async fn recover(
    disk: &Disk,
    folder: &Path,
    options: &Options,
) -> Result<Recovered, Error> {
    disk.create_folder(folder).map_err(Error::disk(folder))?;
    let mut recovery = Recovery::default();
    let segments = open_segments(disk, folder, options).await?;
    let store = segments
        .values()
        .next()
        .map_or_else(new_store, |it| it.header.store);
    let next = segments.keys().next_back().map_or(0, |id| id.0 + 1);
    for segment in segments.values() {
        if segment.header.store != store {
            let reason = "it belongs to another store than the files before it".into();
            return Err(Error::Format(segment.path.clone(), reason));
        }
        recovery.read(segment).await?;
    }
    let (index, last) = (recovery.index, recovery.last);
    for (_, word) in index.iter() {
        let location = Location::from_word(word);
        segments[&location.segment()].revive(location);
    }
    let report = Report {
        keys: index.len(),
        segments: segments.len(),
        ..recovery.report
    };

    let mut segments = segments;
    let mut heads = Vec::new();
    for id in [next, next + 1] {
        let header = Header {
            id: SegmentId(id),
            store,
            sequence: last,
        };
        let head = Arc::new(Segment::create(disk, folder, header, options).await?);
        segments.insert(head.id(), Arc::clone(&head));
        heads.push(head);
    }
    let (cold, hot) = (heads.remove(1), heads.remove(0));
    let state = State::new(hot, cold, SegmentId(next + 2), last);
    let log = Log::new(options.clone(), state, segments);
    Ok(Recovered {
        store,
        log,
        index,
        report,
    })
}

/// Opens all segments in a folder, and removes files that were never finished.
async fn open_segments(
    disk: &Disk,
    folder: &Path,
    options: &Options,
) -> Result<BTreeMap<SegmentId, Arc<Segment>>, Error> {
    let mut segments = BTreeMap::new();
    let files = disk.list(folder).map_err(Error::disk(folder))?;
    for path in files.into_iter().filter(|it| segment::is_segment(it)) {
        let mode = Mode {
            direct: options.direct,
            ..Mode::create()
        };
        let file = disk.open_file(&path, mode).map_err(Error::disk(&path))?;
        let bytes = file.len().map_err(Error::disk(&path))?;
        let mut header = None;
        if bytes >= START {
            let buffer = Buffer::zeroed(BLOCK).map_err(|_| Error::OutOfMemory)?;
            let (buffer, read) = file.read_exact(buffer, 0..BLOCK, 0).await;
            read.map_err(Error::disk(&path))?;
            header = Header::decode(&path, &buffer)?;
        }
        let Some(header) = header else {
            disk.remove(&path).map_err(Error::disk(&path))?;
            continue;
        };
        if segment::path(folder, header.id) != path {
            return Err(Error::Format(
                path,
                format!("it is segment {:06x}", header.id.0),
            ));
        }
        // A process that was killed may have left bytes that only the page cache has.
        file.sync().await.map_err(Error::disk(&path))?;
        let segment = Segment::opened(header, path, file);
        segment.set_written(bytes);
        segments.insert(header.id, Arc::new(segment));
    }
    Ok(segments)
}

/// A record in a segment.
struct Found {
    location: Location,
    kind: Kind,
    sequence: u64,
    key: Vec<u8>,
    goes_on: bool,
    /// Where it ends.
    end: u64,
}

#[derive(Default)]
struct Recovery {
    index: Art<[u8], u64>,
    /// Sequence numbers of the records that the index knows, by segment: ascending by offset.
    sequences: HashMap<SegmentId, Vec<(u32, u64)>>,
    /// Those of keys that are deleted.
    deleted: HashMap<Vec<u8>, u64>,
    /// The greatest of all.
    last: u64,
    report: Report,
}

impl Recovery {
    async fn read(&mut self, segment: &Arc<Segment>) -> Result<(), Error> {
        let mut records = Records::new(segment);
        let mut found = Vec::new();
        let mut damages = Vec::new();
        // Records in front of the first damage.
        let mut whole = None;
        let mut sealed = false;
        while let Some(location) = records.next().await? {
            let record = records.record();
            let (kind, sequence, goes_on) = (record.kind, record.sequence, record.goes_on);
            let (key, end) = (
                record.key.to_vec(),
                location.offset() + record.bytes() as u64,
            );
            if let Some(damage) = records.take_damage() {
                whole.get_or_insert(found.len());
                damages.push(damage);
            }
            if kind == Kind::Seal {
                segment.set_written(location.offset());
                sealed = true;
                break;
            }
            found.push(Found {
                location,
                kind,
                sequence,
                key,
                goes_on,
                end,
            });
        }
        if sealed {
            let room = 100 - self.report.damaged.len();
            let damaged = damages.into_iter().take(room);
            self.report
                .damaged
                .extend(damaged.map(|at| (segment.path.clone(), at)));
        } else {
            found.truncate(whole.unwrap_or(found.len()));
            // A batch whose end is missing.
            while found.last().is_some_and(|it| it.goes_on) {
                found.pop();
            }
            let end = found.last().map_or(START, |it| it.end);
            if !records.is_blank(end).await? {
                self.report.incomplete.push((segment.path.clone(), end));
            }
            segment.set_written(end);
        }
        for found in found {
            self.apply(segment, found)?;
        }
        Ok(())
    }

    fn apply(&mut self, segment: &Segment, found: Found) -> Result<(), Error> {
        let Found {
            location,
            kind,
            sequence,
            key,
            ..
        } = found;
        segment.add(location, sequence, kind == Kind::Delete);
        let place = (location.offset() / crate::location::GRAIN) as u32;
        self.sequences
            .entry(location.segment())
            .or_default()
            .push((place, sequence));
        self.last = self.last.max(sequence);
        let known = match self.index.get(&key) {
            Some(word) => self.sequence_of(Location::from_word(word)),
            None => self.deleted.get(&key).copied().unwrap_or(0),
        };
        // A record that was moved and its copy have the same number, and either will do.
        if sequence <= known {
            return Ok(());
        }
        if kind == Kind::Put {
            self.deleted.remove(&key);
            let inserted = self.index.insert(&key, location.to_word());
            inserted.map_err(|_| Error::OutOfMemory)?;
        } else {
            self.index.remove(&key);
            self.deleted.insert(key, sequence);
        }
        Ok(())
    }

    fn sequence_of(&self, location: Location) -> u64 {
        let place = (location.offset() / crate::location::GRAIN) as u32;
        let sequences = &self.sequences[&location.segment()];
        let at = sequences.binary_search_by_key(&place, |it| it.0);
        sequences[at.expect("every record was noted")].1
    }
}

/// A number that hardly another store has: the keys of `RandomState` come from the system.
fn new_store() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
