//! What writers, flushes and cleaning share, under one lock that nobody holds while it waits.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::task::{Context, Poll, Waker};

use timberline_tree::art::Spot;

use crate::head::{Head, Heat, UNFLUSHED};
use crate::location::{Location, SegmentId};
use crate::pieces::Value;
use crate::record::{Kind, NEVER, Record, bytes_of};
use crate::segment::Segment;
use crate::{Error, KeyPlace, Options};

/// Segments that only deletes and cleaning may take, so that both go on when the store is full.
pub(crate) const RESERVE: usize = 2;
/// Segments that are made in advance.
pub(crate) const SPARES: usize = RESERVE + 1;

/// The log, as far as it is open.
pub(crate) struct Log {
    state: Mutex<State>,
    /// All segments with records, by number.
    segments: RwLock<BTreeMap<SegmentId, Arc<Segment>>>,
    options: Options,
}

pub(crate) struct State {
    pub hot: Head,
    pub cold: Head,
    /// Heads that are full, oldest first: they are flushed and sealed.
    pub full: Vec<Head>,
    pub spares: Vec<Arc<Segment>>,
    /// Memory of heads that were sealed, for the next: to map as much again costs more than to fill
    /// it.
    tails: Vec<Vec<u8>>,
    /// Why no segment could be made.
    pub no_segments: Option<Error>,
    /// The number of the last record when cleaning last looked for a segment. Without newer ones it
    /// would find no more.
    pub looked_at: u64,
    /// Whether to look for segments to clean.
    pub cleaning_wanted: bool,
    /// The store is a cache, and a put waits until keys are gone from its index.
    pub eviction_wanted: bool,
    /// Keys of a segment are going.
    pub is_evicting: bool,
    /// No segment had keys that could go while these were the hot and the cold one.
    pub no_victim: Option<[SegmentId; 2]>,
    /// Cleaners that are at work or look for it.
    pub cleaners: usize,
    /// The segments that they clean, the one that was begun first in front.
    pub victims: Vec<SegmentId>,
    /// The number of the next segment.
    pub next: SegmentId,
    /// The number of the last record.
    pub sequence: u64,
    /// All new records up to this number are on the disk.
    pub durable: u64,
    /// Writers wait until more is durable.
    pub commit_wanted: bool,
    /// Cleaning waits until everything is on the disk, for the time with this number.
    pub sync_wanted: u64,
    /// Everything was on the disk, for the time with this number.
    pub synced: u64,
    /// Whether a checkpoint is to be written, whenever the last one was.
    pub checkpoint_wanted: bool,
    /// The number of the next segment when the last checkpoint was begun.
    pub checkpointed: SegmentId,
    /// Checkpoints that were written, and why the last one was not.
    pub checkpoints: u64,
    pub checkpoint_failure: Option<Error>,
    /// Segments that were cleaned, and records that were moved for it.
    pub cleaned: u64,
    pub moved: u64,
    /// Records that were evicted.
    pub evicted: u64,
    /// Keys that were removed from the index since they had expired.
    pub expired: u64,
    /// Why there are no more writes.
    pub failed: Option<Arc<io::Error>>,
    pub closing: bool,
    /// Changes so far, of anything that a future may wait for.
    changes: u64,
    /// Futures to wake after the next one.
    waiting: Vec<Waker>,
}

/// How appending went.
pub(crate) enum Appended<T> {
    At(T),
    /// Not before there are more changes than this many.
    NotNow(u64),
    /// Not at all.
    Refused,
}

/// What is appended. Of the segments made in advance, it leaves some to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Put,
    /// Makes records obsolete, so that cleaning finds space.
    Delete,
    /// Makes space, when other segments that are cleaned have done so.
    CleaningBeside,
    /// Makes space. Nobody else does, so it can't wait for any.
    Cleaning,
}

impl Purpose {
    /// Segments made in advance that it leaves.
    fn leaves(self) -> usize {
        match self {
            Purpose::Put => RESERVE,
            // Records of a segment that is cleaned fit into one, whatever was there before.
            Purpose::Delete | Purpose::CleaningBeside => 1,
            Purpose::Cleaning => 0,
        }
    }
}

/// A record before it has a sequence number.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub kind: Kind,
    /// Whether it is only to replace another. All records of a batch are to, or none.
    pub replaces: bool,
    /// Whether it is a delete by which a cache makes space.
    pub evicts: bool,
    /// As [`Record::expires`].
    pub expires: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The value in pieces that the key is to have; then `value` says where it is.
    pub large: Option<&'a Arc<Value>>,
    /// Where the key was found in the index, if it was.
    pub spot: Option<Spot<'a>>,
}

impl<'a> NewRecord<'a> {
    pub fn put(key: &'a [u8], value: &'a [u8], expires: u64) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Put,
            replaces: false,
            evicts: false,
            expires,
            key,
            value,
            large: None,
            spot: None,
        }
    }

    /// The same of a key that was found in the index there, if it was.
    pub fn at(self, place: Option<KeyPlace<'a>>) -> NewRecord<'a> {
        let spot = place.map(|it| it.spot);
        NewRecord { spot, ..self }
    }

    /// A put of a value in pieces; `about` is its [`Descriptor`](crate::pieces::Descriptor).
    pub fn large(
        key: &'a [u8],
        value: &'a Arc<Value>,
        about: &'a [u8],
        expires: u64,
    ) -> NewRecord<'a> {
        NewRecord {
            large: Some(value),
            ..NewRecord::put(key, about, expires)
        }
    }

    pub fn piece(key: &'a [u8], value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Piece,
            ..NewRecord::put(key, value, NEVER)
        }
    }

    pub fn delete(key: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Delete,
            ..NewRecord::put(key, &[], NEVER)
        }
    }

    pub fn evict(key: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            evicts: true,
            ..NewRecord::delete(key)
        }
    }

    /// Bytes of its record.
    pub fn bytes(&self) -> usize {
        bytes_of(self.key.len(), self.value.len(), self.expires != NEVER)
    }
}

impl Log {
    pub fn new(options: Options, state: State, segments: BTreeMap<SegmentId, Arc<Segment>>) -> Log {
        Log {
            state: Mutex::new(state),
            segments: RwLock::new(segments),
            options,
        }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// A segment with records; `None` if it was erased.
    pub fn segment(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.segments
            .read()
            .unwrap_or_else(|it| it.into_inner())
            .get(&id)
            .cloned()
    }

    /// As [`count`](Self::count), where the new record is in this segment: then probably the old
    /// one is, too.
    pub fn count_in(&self, segment: &Segment, old: Option<Location>, new: Option<Location>) {
        let elsewhere = |it: &Location| it.segment() != segment.id();
        if let Some(new) = new.filter(|it| !elsewhere(it)) {
            segment.revive(new);
        }
        if let Some(old) = old.filter(|it| !elsewhere(it)) {
            segment.kill(old);
        }
        let (old, new) = (old.filter(elsewhere), new.filter(elsewhere));
        if old.is_some() || new.is_some() {
            self.count(old, new);
        }
    }

    /// The index knows the record at `new` now, and the one at `old` no more.
    pub fn count(&self, old: Option<Location>, new: Option<Location>) {
        let segments = self.segments.read().unwrap_or_else(|it| it.into_inner());
        let of = |location: Location| Some((segments.get(&location.segment())?, location));
        if let Some((segment, location)) = new.and_then(of) {
            segment.revive(location);
        }
        if let Some((segment, location)) = old.and_then(of) {
            segment.kill(location);
        }
    }

    /// All segments with records.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments
            .read()
            .unwrap_or_else(|it| it.into_inner())
            .values()
            .cloned()
            .collect()
    }

    /// Segments with records.
    pub fn len(&self) -> usize {
        self.segments
            .read()
            .unwrap_or_else(|it| it.into_inner())
            .len()
    }

    /// A segment is erased, and its name is gone for good.
    pub fn forget(&self, id: SegmentId) {
        self.segments
            .write()
            .unwrap_or_else(|it| it.into_inner())
            .remove(&id);
    }

    /// Appends new records as one batch, if it is possible at once. For each, `fresh` says whether
    /// it is, and then `placed` learns where it will lie, in which segment, and its number. It may
    /// refuse the first record, or fail at it, and nothing is appended then.
    pub fn append<'a>(
        &self,
        entries: &[NewRecord<'a>],
        fresh: impl Fn(&NewRecord) -> bool,
        mut placed: impl FnMut(&NewRecord<'a>, (Location, &Segment), u64) -> Result<bool, Error>,
    ) -> Result<Appended<u64>, Error> {
        let bytes = entries.iter().map(NewRecord::bytes).sum();
        let purpose = self.purpose(entries);
        let mut state = self.lock();
        if !self.make_space(&mut state, Heat::Hot, bytes, purpose)? {
            return Ok(Appended::NotNow(state.changes));
        }
        let was_due = state.hot.is_due();
        for (index, entry) in entries.iter().enumerate() {
            let record = Record {
                kind: entry.kind,
                sequence: state.sequence + 1,
                expires: entry.expires,
                fresh: fresh(entry),
                large: entry.large.is_some(),
                key: entry.key,
                value: entry.value,
                goes_on: index + 1 < entries.len(),
            };
            let location = state.hot.place_of(&record);
            if !placed(entry, (location, &state.hot.segment), record.sequence)? {
                return Ok(Appended::Refused);
            }
            state.sequence = record.sequence;
            state.hot.append_at(location, &record);
        }
        let sequence = state.sequence;
        state.became_due(Heat::Hot, was_due);
        Ok(Appended::At(sequence))
    }

    /// Appends a record that cleaning moves out of a segment, if it is possible at once; `placed`
    /// learns where it lies.
    pub fn append_moved(
        &self,
        victim: SegmentId,
        record: &Record,
        placed: impl FnOnce(Location),
    ) -> Result<Appended<()>, Error> {
        let mut state = self.lock();
        let purpose = match state.victims.first() == Some(&victim) {
            true => Purpose::Cleaning,
            false => Purpose::CleaningBeside,
        };
        if !self.make_space(&mut state, Heat::Cold, record.bytes(), purpose)? {
            return Ok(Appended::NotNow(state.changes));
        }
        let was_due = state.cold.is_due();
        placed(state.cold.append(record));
        state.moved += 1;
        state.became_due(Heat::Cold, was_due);
        Ok(Appended::At(()))
    }

    fn purpose(&self, entries: &[NewRecord]) -> Purpose {
        if entries.iter().all(|it| it.evicts) {
            return Purpose::Cleaning;
        }
        // A cache makes space whatever it has, for which it needs all of the reserve: it writes
        // deletes and moves records at the same time.
        let deletes = entries.iter().all(|it| it.kind == Kind::Delete);
        match deletes && !self.options.evict {
            true => Purpose::Delete,
            false => Purpose::Put,
        }
    }

    /// Whether this many bytes can be appended to a head at once. Begins a new segment for them if
    /// need be.
    fn make_space(
        &self,
        state: &mut State,
        heat: Heat,
        bytes: usize,
        purpose: Purpose,
    ) -> Result<bool, Error> {
        state.check()?;
        let spares = state.spares.len();
        let head = state.head(heat);
        let begins = !head.has_space(bytes, &self.options);
        // Otherwise puts would fill what a delete began, and nothing were left for the next one, or
        // for cleaning, which would wait for the space that it alone can make.
        let is_kept = match begins {
            true => spares <= purpose.leaves(),
            false => match purpose {
                Purpose::Put => head.is_of_reserve && spares < RESERVE,
                // The rest of the head is for what was begun before.
                Purpose::CleaningBeside => spares < purpose.leaves(),
                Purpose::Delete | Purpose::Cleaning => false,
            },
        };
        if is_kept {
            return state.wait_for_segment(purpose);
        }
        if begins {
            let segment = state.spares.remove(0);
            let mut segments = self.segments.write().unwrap_or_else(|it| it.into_inner());
            segments.insert(segment.id(), Arc::clone(&segment));
            let tail = state.tails.pop().unwrap_or_default();
            let mut head = Head::new(heat, segment, tail);
            head.is_of_reserve = spares <= RESERVE;
            let full = std::mem::replace(state.head(heat), head);
            state.full.push(full);
            state.changed();
            if segments.len() + state.spares.len() >= self.options.segments() {
                // So that cleaning need not wait until it has been tried.
                state.has_no_space(Error::Full);
            }
        }
        if state.is_behind() {
            // The flush that was due before that is under way.
            return Ok(false);
        }
        let sequence = state.sequence;
        let head = state.head(heat);
        head.reserve(bytes)?;
        if head.segment.has_no_records() {
            head.segment.begin(sequence);
        }
        Ok(true)
    }

    /// What a put waits for whose key the index of a cache has no place for: keys that go. `None`
    /// if none can.
    pub fn wait_for_eviction(&self) -> Option<u64> {
        let mut state = self.lock();
        // The next one that asks has another attempt made.
        let is_over = state.no_victim.take() == Some(state.open());
        if is_over || state.check().is_err() {
            return None;
        }
        if !state.is_evicting && !state.eviction_wanted {
            state.eviction_wanted = true;
            state.cleaning_wanted = true;
            state.changed();
        }
        Some(state.changes)
    }

    /// Waits until `ready` says something. It is asked again after every change.
    pub async fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        std::future::poll_fn(|context| self.poll(context, &mut ready)).await
    }

    /// Waits until there were more changes than this many.
    pub async fn wait_for_change(&self, changes: u64) {
        self.wait(|state| (state.changes != changes).then_some(()))
            .await;
    }

    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        ready: &mut impl FnMut(&mut State) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.lock();
        match ready(&mut state) {
            Some(result) => Poll::Ready(result),
            None => {
                let waker = context.waker();
                if !state.waiting.iter().any(|it| it.will_wake(waker)) {
                    state.waiting.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }
}

impl State {
    /// With two segments that are empty. `last` is the number of the last record.
    pub fn new(hot: Arc<Segment>, cold: Arc<Segment>, next: SegmentId, last: u64) -> State {
        State {
            hot: Head::new(Heat::Hot, hot, Vec::new()),
            cold: Head::new(Heat::Cold, cold, Vec::new()),
            full: Vec::new(),
            spares: Vec::new(),
            tails: Vec::new(),
            no_segments: None,
            looked_at: last,
            cleaning_wanted: false,
            eviction_wanted: false,
            is_evicting: false,
            no_victim: None,
            cleaners: 0,
            victims: Vec::new(),
            next,
            sequence: last,
            durable: last,
            commit_wanted: false,
            sync_wanted: 0,
            synced: 0,
            checkpoint_wanted: false,
            checkpointed: next,
            checkpoints: 0,
            checkpoint_failure: None,
            cleaned: 0,
            moved: 0,
            evicted: 0,
            expired: 0,
            failed: None,
            closing: false,
            changes: 0,
            waiting: Vec::new(),
        }
    }

    /// Whether there are writes.
    pub fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some(error) => Err(Error::ReadOnly(Arc::clone(error))),
            None if self.closing => Err(Error::Closed),
            None => Ok(()),
        }
    }

    /// No segment can be made, unless cleaning removes one.
    pub fn has_no_space(&mut self, reason: Error) {
        self.no_segments.get_or_insert(reason);
        self.cleaning_wanted = true;
        self.changed();
    }

    /// `Ok(false)` as long as a segment may come; otherwise why none does.
    fn wait_for_segment(&mut self, purpose: Purpose) -> Result<bool, Error> {
        if self.no_segments.is_none() {
            // One is being made.
            return Ok(false);
        }
        if purpose == Purpose::Cleaning {
            return Err(Error::Full);
        }
        // As long as cleaning may find space, waiting helps.
        if self.cleaning_wanted {
            return Ok(false);
        }
        if self.looked_at != self.sequence {
            // What was written since has made others obsolete. A second cleaner may be free.
            self.cleaning_wanted = true;
            self.changed();
            return Ok(false);
        }
        if self.cleaners > 0 {
            return Ok(false);
        }
        // The next one that asks has another attempt made to find space.
        let refused = self.no_segments.take();
        self.changed();
        refused.map_or(Ok(false), Err)
    }

    pub fn head(&mut self, heat: Heat) -> &mut Head {
        match heat {
            Heat::Hot => &mut self.hot,
            Heat::Cold => &mut self.cold,
        }
    }

    /// The segments that are written to.
    pub fn open(&self) -> [SegmentId; 2] {
        [self.hot.segment.id(), self.cold.segment.id()]
    }

    /// The oldest full head is sealed.
    pub fn sealed(&mut self) {
        let tail = self.full.remove(0).into_tail();
        let kept: usize = self.tails.iter().map(Vec::capacity).sum();
        if (kept + tail.capacity()) as u64 <= UNFLUSHED {
            self.tails.push(tail);
        }
        self.changed();
    }

    /// All heads with records that may be in memory only.
    pub fn heads(&mut self) -> impl Iterator<Item = &mut Head> {
        self.full.iter_mut().chain([&mut self.hot, &mut self.cold])
    }

    /// Wakes who flushes a head when it becomes due, not at each append until it is flushed: all
    /// who wait would look in vain.
    fn became_due(&mut self, heat: Heat, was_due: bool) {
        if !was_due && self.head(heat).is_due() {
            self.changed();
        }
    }

    /// Whether appending has to wait for a flush.
    fn is_behind(&mut self) -> bool {
        self.heads().map(|it| it.unflushed()).sum::<u64>() >= UNFLUSHED
    }

    /// Asks for a sync of both heads. Returns its number.
    pub fn want_sync(&mut self) -> u64 {
        self.sync_wanted += 1;
        self.changed();
        self.sync_wanted
    }

    /// Wakes all that wait for a change.
    pub fn changed(&mut self) {
        self.changes += 1;
        for waker in self.waiting.drain(..) {
            waker.wake();
        }
    }
}
