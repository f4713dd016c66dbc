//! Opening: the index is made of a checkpoint and of the records behind it, or of all records.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer, Disk, File, Lock, Mode, SECTOR};

use crate::deadlines::Deadlines;
use crate::first_bytes::FirstBytes;
use crate::header::{Header, Unread};
use crate::index::Index;
use crate::location::SegmentId;
use crate::log::{Log, RESERVE, State};
use crate::read::{read, read_file};
use crate::records::{CHUNK, Records};
use crate::replay::Replay;
use crate::segment::{self, START, Segment};
use crate::{Error, Options, Report, checkpoint, pieces};

/// An open store.
pub(crate) struct Recovered {
    pub store: u64,
    pub lock: Lock,
    pub log: Log,
    pub index: Box<dyn Index>,
    pub deadlines: Deadlines,
    pub large: pieces::Table,
    pub first_bytes: FirstBytes,
    pub report: Report,
}

pub(crate) async fn recover(
    disk: &Disk,
    folder: &Path,
    options: &Options,
) -> Result<Recovered, Error> {
    disk.create_folder(folder).map_err(Error::disk(folder))?;
    let lock = lock(disk, folder)?;
    let files = disk.list(folder).map_err(Error::disk(folder))?;
    crate::backup::refuse_unfinished(&files)?;
    let found = open_segments(disk, &files, options).await?;
    let (store, segments) = (found.store, found.segments);
    let next = segments.keys().next_back().map_or(0, |id| id.0 + 1);
    let newest = files
        .iter()
        .filter_map(|it| checkpoint::number_of(it))
        .max();
    let next = next.max(newest.map_or(0, |number| number + 1));
    let table = Table::new(&segments);
    let find = |id| table.get(id);
    let loaded = checkpoint::load(disk, folder, &files, store, options, find).await?;
    let now = options.clock.now();
    loaded.deadlines.look(now);
    let whole_checkpoint = loaded.number;
    let mut replay = Replay::new(&table, loaded, now);
    for segment in segments.values() {
        replay.segment(segment).await?;
    }
    let large = replay.give_values();
    replay.name_dropped();
    let (loaded, last) = (replay.loaded, replay.last);
    let (index, deadlines, first_bytes) = (loaded.index, loaded.deadlines, loaded.first_bytes);
    let report = Report {
        keys: index.len(),
        segments: segments.len(),
        headers: found.damaged,
        ..replay.report
    };

    let mut segments = segments;
    // So that a full disk has space for the two that follow.
    let empty = segments.extract_if(.., |_, it| it.has_no_records());
    for (_, segment) in empty {
        remove(disk, &segment.path)?;
    }
    let synced = disk.sync_folder(folder).await;
    synced.map_err(Error::disk(folder))?;
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
    let mut state = State::new(hot, cold, SegmentId(next + 2), last);
    state.whole_checkpoint = whole_checkpoint;
    // Where no others can be made in advance, deletes and cleaning have these two.
    state.hot.is_of_reserve = segments.len() + RESERVE > options.segments();
    let log = Log::new(options.clone(), state, segments);
    Ok(Recovered {
        store,
        lock,
        log,
        index,
        deadlines,
        large,
        first_bytes,
        report,
    })
}

/// Two processes that write to one store would destroy it.
fn lock(disk: &Disk, folder: &Path) -> Result<Lock, Error> {
    let path = folder.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::InUse(folder.into()),
        _ => Error::disk(&path)(error),
    })
}

/// The segments of a folder.
struct Found {
    store: u64,
    segments: BTreeMap<SegmentId, Arc<Segment>>,
    /// Those whose headers are damaged.
    damaged: Vec<PathBuf>,
}

/// Opens all segments in a folder, and removes files that were never finished.
async fn open_segments(disk: &Disk, files: &[PathBuf], options: &Options) -> Result<Found, Error> {
    let mut opened = BTreeMap::new();
    for path in files.iter().filter(|it| segment::is_segment(it)) {
        if let Some((segment, is_whole)) = open_segment(disk, path, options).await? {
            opened.insert(segment.id(), (segment, is_whole));
        }
    }
    let mut whole = opened.values().filter(|it| it.1);
    let store = match (whole.next(), opened.values().next()) {
        (Some(whole), _) => whole.0.header.store,
        (None, None) => new_store(),
        (None, Some(damaged)) => {
            let reason = "no segment has a whole header, so nobody knows which store it is";
            return Err(Error::Format(damaged.0.path.clone(), reason.into()));
        }
    };
    let (mut segments, mut damaged) = (BTreeMap::new(), Vec::new());
    for (id, (mut segment, is_whole)) in opened {
        if !is_whole {
            segment.header.store = store;
            damaged.push(segment.path.clone());
        }
        if segment.header.store != store {
            let reason = "it belongs to another store than the files before it".into();
            return Err(Error::Format(segment.path, reason));
        }
        segments.insert(id, Arc::new(segment));
    }
    Ok(Found {
        store,
        segments,
        damaged,
    })
}

/// Opens a segment, and says whether its header is whole: otherwise it does not tell its store.
/// `None` if the file was never finished; it is removed.
async fn open_segment(
    disk: &Disk,
    path: &Path,
    options: &Options,
) -> Result<Option<(Segment, bool)>, Error> {
    let wrong = |reason: String| Error::Format(path.into(), reason);
    let mode = Mode {
        direct: options.direct,
        ..Mode::create()
    };
    let file = disk.open_file(path, mode).map_err(Error::disk(path))?;
    let sectors = file.len().map_err(Error::disk(path))? / SECTOR as u64;
    if sectors * (SECTOR as u64) < START {
        remove(disk, path)?;
        return Ok(None);
    }
    // A process that was killed may have left bytes that only the page cache has.
    file.sync().await.map_err(Error::disk(path))?;
    let named = segment::number_of(path);
    let header = match read_header(path, &file).await? {
        Ok(header) if named == Some(header.id) => Some(header),
        Ok(header) => return Err(wrong(format!("it is segment {:06x}", header.id.0))),
        Err(Unread::Version(reason)) => return Err(wrong(reason)),
        Err(Unread::Damaged) => None,
    };
    let no_segment = || wrong("this is no segment of a store".into());
    let unknown = Header {
        id: named.ok_or_else(no_segment)?,
        store: 0,
        sequence: 0,
    };
    let segment = Segment::found(header.unwrap_or(unknown), path.into(), file);
    segment.set_written(sectors * SECTOR as u64);
    if header.is_none() {
        // What is behind it tells whether there was one.
        if is_blank(&segment).await? {
            remove(disk, path)?;
            return Ok(None);
        }
        if Records::new(&segment, START).next().await?.is_none() {
            return Err(no_segment());
        }
    }
    Ok(Some((segment, header.is_some())))
}

async fn read_header(path: &Path, file: &File) -> Result<Result<Header, Unread>, Error> {
    let buffer = Buffer::zeroed(BLOCK).map_err(|_| Error::OutOfMemory)?;
    let read = read_file(file, buffer, 0..START).await;
    Ok(Header::decode(&read.map_err(Error::disk(path))?.0))
}

/// Whether nothing was ever written to a segment whose header is damaged: nothing behind the
/// header, as the header comes first; where no record fits, no header either.
async fn is_blank(segment: &Segment) -> Result<bool, Error> {
    let end = segment.written();
    let first = if end > START { START } else { 0 };
    for start in (first..end).step_by(CHUNK as usize) {
        let bytes = read(segment, start..(start + CHUNK).min(end)).await?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn remove(disk: &Disk, path: &Path) -> Result<(), Error> {
    disk.remove_now(path).map_err(Error::disk(path))
}

/// The segments on the disk, found in O(1).
pub(crate) struct Table<'a> {
    first: u32,
    segments: Vec<Option<&'a Arc<Segment>>>,
}

impl<'a> Table<'a> {
    fn new(all: &'a BTreeMap<SegmentId, Arc<Segment>>) -> Table<'a> {
        let first = all.keys().next().map_or(0, |id| id.0);
        let numbers = all.keys().next_back().map_or(0, |id| id.0 - first + 1);
        let mut segments = vec![None; numbers as usize];
        for segment in all.values() {
            segments[(segment.id().0 - first) as usize] = Some(segment);
        }
        Table { first, segments }
    }

    pub fn get(&self, id: SegmentId) -> Option<&'a Arc<Segment>> {
        let at = id.0.checked_sub(self.first)?;
        *self.segments.get(at as usize)?
    }
}

/// A number that hardly another store has: the keys of `RandomState` come from the system.
fn new_store() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
