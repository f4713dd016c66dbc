//! Opening: the index is made of a checkpoint and of the records behind it, or of all records.
//!
//! Of each key the record with the greatest sequence number counts. In a segment that was sealed, a
//! damaged record is an accident of the disk and costs that record. In one that was not, it is
//! where the store was when it ended: everything from there on was not acknowledged as durable and
//! is dropped, whatever it is, so that what is visible ends at one record. A batch of which a part
//! is missing there is dropped whole.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use smallvec::SmallVec;
use timberline_io::{BLOCK, Buffer, Disk, Lock, Mode};

use crate::checkpoint::{self, Loaded};
use crate::deadlines::Deadlines;
use crate::first_bytes::FirstBytes;
use crate::index::Index;
use crate::location::{Location, SegmentId};
use crate::log::{Log, RESERVE, State};
use crate::pieces::{self, Descriptor, Value, piece_of};
use crate::record::{Kind, NEVER};
use crate::records::Records;
use crate::segment::{self, Header, START, Segment};
use crate::sequences::Sequences;
use crate::store::PENDING;
use crate::{Error, Options, Report};

/// Records whose paths through the index are read at the same time.
const GROUP: usize = 16;

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
    let mut recovery = Recovery::new(&table, loaded, now);
    for segment in segments.values() {
        recovery.read(segment).await?;
    }
    let large = recovery.give_values();
    let (loaded, last) = (recovery.loaded, recovery.last);
    let (index, deadlines, first_bytes) = (loaded.index, loaded.deadlines, loaded.first_bytes);
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
    let mut state = State::new(hot, cold, SegmentId(next + 2), last);
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

/// A record in a segment.
struct Found {
    location: Location,
    kind: Kind,
    sequence: u64,
    expires: u64,
    hides: bool,
    key: Vec<u8>,
    goes_on: bool,
    /// Of a piece: the id of its value, and its number.
    piece: Option<(u64, u32)>,
    /// Of one whose value is in pieces.
    large: Option<Descriptor>,
    /// Where it ends.
    end: u64,
}

/// The segments on the disk, found in O(1).
struct Table<'a> {
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

    fn get(&self, id: SegmentId) -> Option<&'a Arc<Segment>> {
        let at = id.0.checked_sub(self.first)?;
        *self.segments.get(at as usize)?
    }
}

struct Recovery<'a> {
    table: &'a Table<'a>,
    /// The index so far, and what is known of the segments.
    loaded: Loaded,
    /// What expires by then counts as a delete.
    now: u64,
    /// Those of the records that were read, by segment.
    sequences: HashMap<SegmentId, Sequences>,
    /// Those of keys that are deleted.
    deleted: HashMap<Vec<u8>, u64>,
    /// The greatest of all.
    last: u64,
    report: Report,
}

impl<'a> Recovery<'a> {
    fn new(table: &'a Table<'a>, mut loaded: Loaded, now: u64) -> Recovery<'a> {
        let report = Report {
            checkpoints: std::mem::take(&mut loaded.refused),
            ..Report::default()
        };
        Recovery {
            table,
            last: loaded.sequence,
            loaded,
            now,
            sequences: HashMap::new(),
            deleted: HashMap::new(),
            report,
        }
    }

    /// Reads the records of a segment that the checkpoint does not know.
    async fn read(&mut self, segment: &Arc<Segment>) -> Result<(), Error> {
        let mut from = START;
        if let Some(covered) = self.loaded.covered(segment.id()) {
            segment.cover(covered);
            self.last = self.last.max(covered.newest);
            if covered.is_complete {
                segment.set_written(covered.end);
                self.report.unread += 1;
                return Ok(());
            }
            from = covered.end;
        }
        let mut records = Records::new(segment, from);
        let mut found = Vec::new();
        let mut damages = Vec::new();
        // Records in front of the first damage.
        let mut whole = None;
        let mut sealed = false;
        while let Some(location) = records.next().await? {
            let record = records.record();
            let this = Found {
                location,
                kind: record.kind,
                sequence: record.sequence,
                expires: record.expires,
                hides: record.hides(),
                key: record.key.to_vec(),
                goes_on: record.goes_on,
                piece: piece_of(&record),
                large: record
                    .large
                    .then(|| Descriptor::decode(record.value))
                    .flatten(),
                end: location.offset() + record.bytes() as u64,
            };
            if let Some(damage) = records.take_damage() {
                whole.get_or_insert(found.len());
                damages.push(damage);
            }
            if this.kind == Kind::Seal {
                segment.set_written(location.offset());
                sealed = true;
                break;
            }
            found.push(this);
        }
        if sealed {
            let room = 100 - self.report.damaged.len();
            self.report.damaged_bytes += records.damaged_bytes();
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
            let end = found.last().map_or(from, |it| it.end);
            if !records.is_blank(end).await? {
                self.report.incomplete.push((segment.path.clone(), end));
            }
            segment.set_written(end);
        }
        let mut found = found.into_iter();
        loop {
            let group: SmallVec<[Found; GROUP]> = found.by_ref().take(GROUP).collect();
            if group.is_empty() {
                return Ok(());
            }
            self.approach(&group);
            for found in group {
                self.apply(segment, found)?;
            }
        }
    }

    /// Reads what the index has for some records at the same time, so that it is in the processor's
    /// caches when each is looked up.
    fn approach(&self, group: &[Found]) {
        let keys: SmallVec<[&[u8]; GROUP]> = group.iter().map(|it| &it.key[..]).collect();
        let mut words = [None; GROUP];
        self.loaded.index.get_many(&keys, &mut words[..keys.len()]);
    }

    fn apply(&mut self, segment: &Segment, found: Found) -> Result<(), Error> {
        let Found {
            location,
            kind,
            sequence,
            expires,
            hides,
            key,
            piece,
            large,
            ..
        } = found;
        segment.add(location, sequence, kind, hides);
        if let Some(piece) = piece {
            self.last = self.last.max(sequence);
            self.loaded.pieces.add(piece, location.to_word());
            return Ok(());
        }
        let sequences = self.sequences.entry(location.segment()).or_default();
        sequences.add(location, sequence);
        self.last = self.last.max(sequence);
        let is_value = kind == Kind::Put && expires > self.now;
        let known = match self.loaded.index.get(&key) {
            Some(word) => match self.sequence_of(Location::from_word(word)) {
                Some(sequence) => sequence,
                // It is from the checkpoint, and was not read. A value that is read is no older.
                None if is_value => 0,
                // But a delete may be, which cleaning has moved since.
                None => self.loaded.sequence,
            },
            None => self.deleted.get(&key).copied().unwrap_or(0),
        };
        // A record that was moved and its copy have the same number, and either will do.
        if sequence <= known {
            return Ok(());
        }
        let time = self.loaded.deadlines.get(&key);
        let current = if is_value { expires } else { NEVER };
        if current != NEVER {
            self.loaded.deadlines.reserve(&key, expires)?;
            self.loaded.deadlines.place(&key, expires);
        }
        if time != NEVER {
            self.loaded.deadlines.settle(&key, time, current);
        }
        match large.filter(|_| is_value) {
            Some(about) => drop(self.loaded.large.insert(key.clone(), about)),
            None => drop(self.loaded.large.remove(&key)),
        }
        let old = if is_value {
            self.deleted.remove(&key);
            segment.revive(location);
            let inserted = self.loaded.index.insert(&key, location.to_word());
            let old = inserted.map_err(|_| Error::OutOfMemory)?;
            if old.is_none() {
                self.loaded.first_bytes.add(&key);
            }
            old
        } else {
            let removed = self.loaded.index.remove(&key);
            if removed.is_some() {
                self.loaded.first_bytes.remove(&key);
            }
            self.deleted.insert(key, sequence);
            removed
        };
        if let Some(old) = old.map(Location::from_word)
            && let Some(segment) = self.table.get(old.segment())
        {
            segment.kill(old);
        }
        Ok(())
    }

    /// Gives keys their values that are in pieces. Pieces of others don't count.
    fn give_values(&mut self) -> pieces::Table {
        let table = pieces::Table::default();
        for (key, about) in std::mem::take(&mut self.loaded.large) {
            let words = self.loaded.pieces.take(about);
            if words.contains(&PENDING) {
                if self.take_for_expired(&key) {
                    continue;
                }
                self.report.lost.push(key.clone());
            }
            let value = Arc::new(Value::opened(&key, about, words));
            for location in value.places() {
                if let Some(segment) = self.table.get(location.segment()) {
                    segment.revive(location);
                }
            }
            table.begin(Arc::clone(&value));
            table.set(&key, Some(&value));
        }
        self.report.lost.sort_unstable();
        table
    }

    /// A value of which pieces are missing has expired before, if it expires and the clock was set
    /// back since: then its pieces did not count any more. Whether it is so, as far as that can be
    /// told.
    fn take_for_expired(&mut self, key: &[u8]) -> bool {
        let loaded = &self.loaded;
        let location = loaded.index.get(key).map(Location::from_word);
        let Some(location) = location.filter(|it| it.expires()) else {
            return false;
        };
        let at = loaded.deadlines.get(key);
        // So that it hides what it hid.
        loaded.deadlines.look(at);
        loaded.deadlines.settle(key, at, NEVER);
        loaded.index.remove(key);
        loaded.first_bytes.remove(key);
        if let Some(segment) = self.table.get(location.segment()) {
            segment.kill(location);
        }
        true
    }

    /// The sequence number of a record that the index knows, if it was read.
    fn sequence_of(&self, location: Location) -> Option<u64> {
        self.sequences.get(&location.segment())?.of(location)
    }
}

/// A number that hardly another store has: the keys of `RandomState` come from the system.
fn new_store() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
