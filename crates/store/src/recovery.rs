//! Opening: the index is made of a checkpoint and of the records behind it, or of all records.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer, Disk, Lock, Mode};

use crate::deadlines::Deadlines;
use crate::first_bytes::FirstBytes;
use crate::index::Index;
use crate::location::SegmentId;
use crate::log::{Log, RESERVE, State};
use crate::replay::Replay;
use crate::segment::{self, Header, START, Segment};
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
    let segments = open_segments(disk, folder, &files, options).await?;
    let store = segments
        .values()
        .next()
        .map_or_else(new_store, |it| it.header.store);
    let next = segments.keys().next_back().map_or(0, |id| id.0 + 1);
    let newest = files
        .iter()
        .filter_map(|it| checkpoint::number_of(it))
        .max();
    let next = next.max(newest.map_or(0, |number| number + 1));
    for segment in segments.values() {
        if segment.header.store != store {
            let reason = "it belongs to another store than the files before it".into();
            return Err(Error::Format(segment.path.clone(), reason));
        }
    }
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
    let (loaded, last) = (replay.loaded, replay.last);
    let (index, deadlines, first_bytes) = (loaded.index, loaded.deadlines, loaded.first_bytes);
    let report = Report {
        keys: index.len(),
        segments: segments.len(),
        ..replay.report
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

/// Opens all segments in a folder, and removes files that were never finished.
async fn open_segments(
    disk: &Disk,
    folder: &Path,
    files: &[PathBuf],
    options: &Options,
) -> Result<BTreeMap<SegmentId, Arc<Segment>>, Error> {
    let mut segments = BTreeMap::new();
    for path in files.iter().filter(|it| segment::is_segment(it)) {
        let mode = Mode {
            direct: options.direct,
            ..Mode::create()
        };
        let file = disk.open_file(path, mode).map_err(Error::disk(path))?;
        let bytes = file.len().map_err(Error::disk(path))?;
        let mut header = None;
        if bytes >= START {
            let buffer = Buffer::zeroed(BLOCK).map_err(|_| Error::OutOfMemory)?;
            let (buffer, read) = file.read_exact(buffer, 0..BLOCK, 0).await;
            read.map_err(Error::disk(path))?;
            header = Header::decode(path, &buffer)?;
        }
        let Some(header) = header else {
            disk.remove_now(path).map_err(Error::disk(path))?;
            continue;
        };
        if segment::path(folder, header.id) != *path {
            return Err(Error::Format(
                path.clone(),
                format!("it is segment {:06x}", header.id.0),
            ));
        }
        // A process that was killed may have left bytes that only the page cache has.
        file.sync().await.map_err(Error::disk(path))?;
        let segment = Segment::found(header, path.clone(), file);
        segment.set_written(bytes);
        segments.insert(header.id, Arc::new(segment));
    }
    Ok(segments)
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
