//! Opening: the index is made of a checkpoint and of the records behind it, or of all records.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use timberline_io::{BLOCK, Disk, Lock};

use crate::deadlines::Deadlines;
use crate::first_bytes::FirstBytes;
use crate::found::Found;
use crate::header::Header;
use crate::index::Index;
use crate::location::SegmentId;
use crate::log::{Log, RESERVE, State};
use crate::replay::Replay;
use crate::segment::Segment;
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
    let found = Found::open(disk, &files, options).await?;
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
    replay.name_missing(folder);
    let (loaded, last) = (replay.loaded, replay.last);
    let (index, deadlines, first_bytes) = (loaded.index, loaded.deadlines, loaded.first_bytes);
    let report = Report {
        keys: index.len(),
        segments: segments.len(),
        headers: found.damaged,
        ..replay.report
    };

    let mut segments = segments;
    // So that a full disk has space for the two that follow. What was dropped stays for now: it may
    // be worth a look.
    let was_dropped = |it: &Segment| report.incomplete.iter().any(|(path, _)| *path == it.path);
    let empty = segments.extract_if(.., |_, it| it.has_no_records() && !was_dropped(it));
    let mut has_space = false;
    for (_, segment) in empty {
        segment.discard(disk)?;
        has_space = true;
    }
    if has_space {
        let synced = disk.sync_folder(folder).await;
        synced.map_err(Error::disk(folder))?;
    }
    let header = |id| Header {
        id: SegmentId(id),
        store,
        sequence: last,
    };
    let heads = create_heads(disk, folder, [next, next + 1].map(header), options).await?;
    let [hot, cold] = heads.map(Arc::new);
    segments.extend([&hot, &cold].map(|it| (it.id(), Arc::clone(it))));
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

/// The segments that records are appended to first. Where the disk is full they are as long as it
/// has space for: what the last ones had, less what was written to them.
async fn create_heads(
    disk: &Disk,
    folder: &Path,
    headers: [Header; 2],
    options: &Options,
) -> Result<[Segment; 2], Error> {
    let block = BLOCK as u64;
    let of = |eighths| options.segment_bytes * eighths / 8 / block * block;
    for eighths in (1..=8).rev() {
        match create_both(disk, folder, headers, of(eighths), options).await {
            Err(Error::Full) => {}
            made => return made,
        }
    }
    let least = of(1);
    let reason = format!("the disk has no space for two more files of {least} bytes: free some");
    Err(Error::Disk(
        folder.into(),
        Arc::new(io::Error::other(reason)),
    ))
}

async fn create_both(
    disk: &Disk,
    folder: &Path,
    [hot, cold]: [Header; 2],
    bytes: u64,
    options: &Options,
) -> Result<[Segment; 2], Error> {
    let hot = Segment::create(disk, folder, hot, bytes, options).await?;
    match Segment::create(disk, folder, cold, bytes, options).await {
        Ok(cold) => Ok([hot, cold]),
        Err(error) => {
            hot.discard(disk)?;
            Err(error)
        }
    }
}

/// Two processes that write to one store would destroy it.
pub(crate) fn lock(disk: &Disk, folder: &Path) -> Result<Lock, Error> {
    let path = folder.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::InUse(folder.into()),
        _ => Error::disk(&path)(error),
    })
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
