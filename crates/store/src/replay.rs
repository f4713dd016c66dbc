//! Replay: opening applies the records that the checkpoint does not know to what it does.
//!
//! Of each key the record with the greatest sequence number counts. A damaged record that was on
//! the disk, as the one that seals its segment or a mark behind it says, is an accident of the disk
//! and costs that record. Any other is where the store was when it ended: everything from there on
//! was not acknowledged as durable and is dropped, whatever it is, so that what is visible ends at
//! one record. A batch of which a part is missing there is dropped whole.
//!
//! A segment's records are read in order by one thread. Then all cores apply them, each those of
//! its share of the keys, so that records of one key stay in order.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::checkpoint::Loaded;
use crate::cores::{cores, on_cores};
use crate::index::{GROUP, Spot};
use crate::location::{Location, SegmentId};
use crate::pieces::{self, Descriptor, Value, piece_of};
use crate::record::{Kind, NEVER, Record};
use crate::records::{Damaged, Records, Seeming};
use crate::recovery::Table;
use crate::segment::{START, Segment, path};
use crate::sequences::Sequences;
use crate::store::PENDING;
use crate::{Dropped, Error, Report, Shortened};

/// Records for which another thread is worth it.
const MANY: usize = 1024;

/// The records of a segment that were read.
#[derive(Default)]
struct Read {
    records: Vec<Found>,
    /// Their keys, one behind the other.
    keys: Vec<u8>,
}

impl Read {
    fn key(&self, found: &Found) -> &[u8] {
        &self.keys[found.key.clone()]
    }
}

/// A record in a segment.
struct Found {
    location: Location,
    kind: Kind,
    sequence: u64,
    expires: u64,
    hides: bool,
    key: Range<usize>,
    goes_on: bool,
    /// Of a piece: the id of its value, and its number.
    piece: Option<(u64, u32)>,
    /// Of one whose value is in pieces.
    large: Option<Descriptor>,
    /// Where it ends.
    end: u64,
}

impl Found {
    /// Of a record of this kind, whose key is there.
    fn new(location: Location, record: &Record<'_>, key: Range<usize>) -> Found {
        let descriptor = || Descriptor::decode(record.value);
        Found {
            location,
            kind: record.kind,
            sequence: record.sequence,
            expires: record.expires,
            hides: record.hides(),
            key,
            goes_on: record.goes_on,
            piece: piece_of(record),
            large: record.large.then(descriptor).flatten(),
            end: location.offset() + record.bytes() as u64,
        }
    }
}

/// A damaged place of a segment.
struct Damage {
    damaged: Damaged,
    /// How many records are in front of it.
    in_front: usize,
    /// Where the next record is.
    end: u64,
}

/// Keys that are deleted, with the sequence numbers of the deletes.
type Deleted = HashMap<Vec<u8>, u64>;

pub(crate) struct Replay<'a> {
    table: &'a Table<'a>,
    /// The index so far, and what is known of the segments.
    pub loaded: Loaded,
    /// What expires by then counts as a delete.
    now: u64,
    /// Those of the records that were read, by segment.
    sequences: HashMap<SegmentId, Sequences>,
    /// For each share of the keys.
    deleted: Vec<Deleted>,
    /// What seems to have been at damaged places, in the order of the report's.
    damaged: Vec<Vec<Seeming>>,
    /// The greatest sequence number of all.
    pub last: u64,
    /// Whether there are records that the checkpoint does not know.
    is_behind: bool,
    pub report: Report,
}

impl<'a> Replay<'a> {
    pub fn new(table: &'a Table<'a>, mut loaded: Loaded, now: u64) -> Replay<'a> {
        let report = Report {
            checkpoints: std::mem::take(&mut loaded.refused),
            shortened: std::mem::take(&mut loaded.shortened),
            ..Report::default()
        };
        Replay {
            table,
            last: loaded.sequence,
            is_behind: false,
            loaded,
            now,
            sequences: HashMap::new(),
            deleted: (0..cores()).map(|_| Deleted::new()).collect(),
            damaged: Vec::new(),
            report,
        }
    }

    /// Reads the records of a segment that the checkpoint does not know, and applies them.
    pub async fn segment(&mut self, segment: &Arc<Segment>) -> Result<(), Error> {
        // Those of a later start: whoever made it may have removed others.
        self.is_behind |= self.loaded.number.is_some_and(|it| segment.id().0 > it);
        let mut from = START;
        if let Some(covered) = self.loaded.covered(segment.id()) {
            segment.cover(covered);
            self.last = self.last.max(covered.newest);
            if covered.is_complete {
                segment.set_written(covered.end);
                self.report.unread += 1;
                return segment.trim();
            }
            from = covered.end;
        }
        let read = self.read(segment, from).await?;
        self.is_behind |= !read.records.is_empty();
        self.count(segment, &read);
        self.apply_all(segment, &read)
    }

    /// Reads the records of a segment from a byte on, and says where they end.
    async fn read(&mut self, segment: &Arc<Segment>, from: u64) -> Result<Read, Error> {
        let mut records = Records::new(segment, from);
        let mut read = Read::default();
        let found = &mut read.records;
        let mut damages: Vec<Damage> = Vec::new();
        // What is in front of this place was on the disk.
        let mut durable = 0;
        let mut sealed = false;
        while let Some(location) = records.next().await? {
            let record = records.record();
            let start = read.keys.len();
            read.keys.extend_from_slice(record.key);
            let this = Found::new(location, &record, start..read.keys.len());
            let place = record.value.try_into().map(u64::from_le_bytes);
            if let Some(damaged) = records.take_damage() {
                damages.push(Damage {
                    damaged,
                    in_front: found.len(),
                    end: location.offset(),
                });
            }
            match (this.kind, place) {
                (Kind::Seal, _) => {
                    segment.set_written(location.offset());
                    // Numbers of records that are damaged are not used again.
                    self.last = self.last.max(this.sequence);
                    (durable, sealed) = (location.offset(), true);
                    break;
                }
                (Kind::Mark, Ok(place)) if place <= location.offset() => {
                    durable = durable.max(place);
                }
                _ => {}
            }
            found.push(this);
        }
        if !records.are_readable() {
            // Records that may be readable another time would be lost for good: the next checkpoint
            // would know nothing of them.
            let reason = "the disk can't read all of it, and no checkpoint knows its records";
            return Err(Error::disk(&segment.path)(io::Error::other(reason)));
        }
        let torn = damages.iter().position(|it| it.end > durable);
        if let Some(torn) = torn {
            let first = &damages[torn];
            found.truncate(first.in_front);
            let is_lost = first.damaged.from < durable;
            damages.truncate(torn + usize::from(is_lost));
        }
        self.report_damages(segment, damages);
        if !sealed {
            let behind = records.take_damage();
            let is_blank = torn.is_none() && behind.is_none_or(|it| it.is_blank);
            self.end_unsealed(segment, found, from, is_blank)?;
        }
        found.retain(|it| it.kind != Kind::Mark);
        Ok(read)
    }

    /// Reports damaged places, which cost the records that were there.
    fn report_damages(&mut self, segment: &Segment, damages: Vec<Damage>) {
        for Damage { damaged, end, .. } in damages {
            self.report.damaged_bytes += end - damaged.from;
            if self.report.damaged.len() < 100 {
                self.report.damaged.push(Dropped {
                    path: segment.path.clone(),
                    offset: damaged.from,
                    keys: Vec::new(),
                });
                self.damaged.push(damaged.records);
            }
        }
    }

    /// Says where a segment ends that was not sealed: behind its records, without a batch whose end
    /// is missing. What is behind them is blank, or worth a look.
    fn end_unsealed(
        &mut self,
        segment: &Segment,
        found: &mut Vec<Found>,
        from: u64,
        mut is_blank: bool,
    ) -> Result<(), Error> {
        while found.last().is_some_and(|it| it.goes_on) {
            found.pop();
            is_blank = false;
        }
        let end = found.last().map_or(from, |it| it.end);
        segment.set_written(end);
        match is_blank {
            true => segment.trim(),
            false => {
                self.report.incomplete.push((segment.path.clone(), end));
                Ok(())
            }
        }
    }

    /// Notes what a segment's records are, whatever they say of keys.
    fn count(&mut self, segment: &Segment, read: &Read) {
        let sequences = self.sequences.entry(segment.id()).or_default();
        for found in &read.records {
            segment.add(found.location, found.sequence, found.kind, found.hides);
            self.last = self.last.max(found.sequence);
            match found.piece {
                Some(piece) => self.loaded.pieces.add(piece, found.location.to_word()),
                None => sequences.add(found.location, found.sequence),
            }
        }
    }

    /// Applies a segment's records to the index.
    fn apply_all(&mut self, segment: &Segment, read: &Read) -> Result<(), Error> {
        let shares = self.deleted.len();
        let application = Application {
            table: self.table,
            loaded: &self.loaded,
            now: self.now,
            sequences: &self.sequences,
            segment,
            read,
        };
        let most = read.records.len().div_ceil(MANY);
        on_cores(
            most,
            self.deleted.iter_mut().enumerate(),
            |(share, deleted)| {
                let is_of_share = |found: &&Found| {
                    found.piece.is_none() && share_of(read.key(found), shares) == share
                };
                application.apply(read.records.iter().filter(is_of_share), deleted)
            },
        )
    }

    /// Names the keys that damaged records cost, when all segments were read.
    pub fn name_dropped(&mut self) {
        for (at, records) in std::mem::take(&mut self.damaged).into_iter().enumerate() {
            let lost = records.into_iter().filter(|it| self.is_lost(it));
            let mut keys: Vec<_> = lost.map(|it| it.key).collect();
            keys.sort_unstable();
            keys.dedup();
            self.report.damaged[at].keys = keys;
        }
    }

    /// Names segments of the checkpoint that are missing. Cleaning removes some, but what was there
    /// is behind the checkpoint then.
    pub fn name_missing(&mut self, folder: &Path) {
        if self.is_behind {
            return;
        }
        let gone = std::mem::take(&mut *self.loaded.gone());
        let missing = gone.into_iter();
        let missing = missing.map(|(id, keys)| Shortened::Missing(path(folder, id), keys));
        self.report.shortened.extend(missing);
    }

    /// Whether a record that is damaged was the last change of its key, as far as it is known.
    fn is_lost(&self, record: &Seeming) -> bool {
        let of = self.loaded.index.get(&record.key).map(Location::from_word);
        let is_value = match record.kind {
            Kind::Put => record.expires > self.now,
            Kind::Delete => false,
            Kind::Seal | Kind::Piece | Kind::Mark => return false,
        };
        match of {
            // What is from the checkpoint is as old as that, or older.
            Some(of) => {
                let known = sequence_of(&self.sequences, of).unwrap_or(self.loaded.sequence);
                known < record.sequence
            }
            None => {
                let share = share_of(&record.key, self.deleted.len());
                let deleted = self.deleted[share].get(&record.key).copied();
                is_value && deleted.unwrap_or(0) < record.sequence
            }
        }
    }

    /// Gives keys their values that are in pieces. Pieces of others don't count.
    pub fn give_values(&mut self) -> pieces::Table {
        let table = pieces::Table::default();
        for (key, about) in self.loaded.take_large() {
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
}

/// The records of one segment, about to be applied by several threads.
struct Application<'a> {
    table: &'a Table<'a>,
    loaded: &'a Loaded,
    now: u64,
    sequences: &'a HashMap<SegmentId, Sequences>,
    segment: &'a Segment,
    read: &'a Read,
}

impl Application<'_> {
    /// Applies the records of a share of the keys, in order.
    fn apply<'f>(
        &self,
        mut records: impl Iterator<Item = &'f Found>,
        deleted: &mut Deleted,
    ) -> Result<(), Error> {
        loop {
            let group: SmallVec<[&Found; GROUP]> = records.by_ref().take(GROUP).collect();
            if group.is_empty() {
                return Ok(());
            }
            // All are searched for at the same time.
            let keys: SmallVec<[&[u8]; GROUP]> = group.iter().map(|it| self.read.key(it)).collect();
            let index = &self.loaded.index;
            let (held, mut places) = (index.hold(), [None; GROUP]);
            index.find_many(&held, &keys, &mut places[..keys.len()]);
            for (found, place) in group.into_iter().zip(places) {
                self.apply_one(found, place.and_then(|it| it.1), deleted)?;
            }
        }
    }

    /// Applies a record whose key may have been at a place in the index.
    fn apply_one(
        &self,
        found: &Found,
        spot: Option<Spot<'_>>,
        deleted: &mut Deleted,
    ) -> Result<(), Error> {
        let &Found {
            location,
            kind,
            sequence,
            expires,
            large,
            ..
        } = found;
        let key = self.read.key(found);
        let is_value = kind == Kind::Put && expires > self.now;
        let index = &self.loaded.index;
        let word = spot.and_then(|spot| index.get_at(spot, key));
        let word = word.or_else(|| index.get(key));
        let known = match word.map(Location::from_word) {
            // Of most values, that is all there is to know.
            Some(word) if is_value && self.is_older(word, sequence) => 0,
            Some(word) => match sequence_of(self.sequences, word) {
                Some(sequence) => sequence,
                // It is from the checkpoint, and was not read. A value that is read is no older.
                None if is_value => 0,
                // But a delete may be, which cleaning has moved since.
                None => self.loaded.sequence,
            },
            None => deleted.get(key).copied().unwrap_or(0),
        };
        // A record that was moved and its copy have the same number, and either will do.
        if sequence <= known {
            return Ok(());
        }
        let time = self.loaded.deadlines.get(key);
        let current = if is_value { expires } else { NEVER };
        if current != NEVER {
            self.loaded.deadlines.reserve(key, expires)?;
            self.loaded.deadlines.place(key, expires);
        }
        if time != NEVER {
            self.loaded.deadlines.settle(key, time, current);
        }
        let old = if is_value {
            deleted.remove(key);
            self.segment.revive(location);
            let word = location.to_word();
            let old = match spot.and_then(|spot| index.update_at(spot, key, word)) {
                None => index.insert(key, word).map_err(|_| Error::OutOfMemory)?,
                old => old,
            };
            if old.is_none() {
                self.loaded.first_bytes.add(key);
            }
            old
        } else {
            let removed = index.remove(key);
            if removed.is_some() {
                self.loaded.first_bytes.remove(key);
            }
            deleted.insert(key.to_vec(), sequence);
            removed
        };
        let old = old.map(Location::from_word);
        match large.filter(|_| is_value) {
            Some(about) => drop(self.loaded.large().insert(key.to_vec(), about)),
            None if old.is_some_and(Location::is_large) => drop(self.loaded.large().remove(key)),
            None => {}
        }
        if let Some(old) = old
            && let Some(segment) = self.table.get(old.segment())
        {
            segment.kill(old);
        }
        Ok(())
    }

    /// Whether a record that the index knows is older than this number, as its segment tells.
    fn is_older(&self, location: Location, sequence: u64) -> bool {
        let segment = self.table.get(location.segment());
        segment.is_some_and(|it| it.newest() < sequence)
    }
}

/// Which of so many shares of the keys has this one.
fn share_of(key: &[u8], shares: usize) -> usize {
    crate::spread(key) as usize % shares
}

/// The sequence number of a record that the index knows, if it was read.
fn sequence_of(sequences: &HashMap<SegmentId, Sequences>, location: Location) -> Option<u64> {
    sequences.get(&location.segment())?.of(location)
}
