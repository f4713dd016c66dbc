//! What writers, flushes and cleaning share, under one lock that nobody holds while it waits.

mod new_record;
mod state;

pub(crate) use new_record::NewRecord;
pub(crate) use state::State;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use crossbeam_utils::sync::ShardedLock;

use crate::head::{Head, Heat};
use crate::location::{Location, SegmentId};
use crate::record::{Kind, Moved, Record};
use crate::segment::Segment;
use crate::{Error, Options};

/// Segments that only deletes and cleaning may take, so that both go on when the store is full.
pub(crate) const RESERVE: usize = 2;
/// Segments that are made in advance.
pub(crate) const SPARES: usize = RESERVE + 1;

/// The log, as far as it is open.
pub(crate) struct Log {
    state: Mutex<State>,
    /// All segments with records, by number.
    segments: ShardedLock<BTreeMap<SegmentId, Arc<Segment>>>,
    options: Options,
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

impl Log {
    pub fn new(options: Options, state: State, segments: BTreeMap<SegmentId, Arc<Segment>>) -> Log {
        Log {
            state: Mutex::new(state),
            segments: ShardedLock::new(segments),
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
        let here = |it: Option<Location>| it.filter(|it| !elsewhere(it));
        match (here(old), here(new)) {
            (Some(old), Some(new)) => segment.replace(old, new),
            (Some(old), None) => segment.kill(old),
            (None, Some(new)) => segment.revive(new),
            (None, None) => {}
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
        record: &Moved,
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
        placed(state.cold.append_moved(record));
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
        let begins = !head.has_space(bytes);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use timberline_io::{Disk, Simulation};

    use super::*;
    use crate::header::Header;

    /// A log whose cold head has no space left, with one segment made in advance, while two others
    /// are cleaned.
    fn log(victims: [SegmentId; 2]) -> Log {
        let options = Options {
            segment_bytes: 64 << 10,
            ..Options::default()
        };
        let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
        let folder = Path::new("store");
        disk.create_folder(folder).expect("it is made");
        let [hot, cold, spare] = [0, 1, 2].map(|number| {
            let header = Header {
                id: SegmentId(number),
                store: 1,
                sequence: 0,
            };
            let made = Segment::create(&disk, folder, header, options.segment_bytes, &options);
            Arc::new(driver.block_on(made).expect("it is made"))
        });
        let mut state = State::new(hot, cold, SegmentId(3), 0);
        state.spares.push(spare);
        state.victims = victims.to_vec();
        let log = Log::new(options, state, BTreeMap::new());
        while log.lock().cold.has_space(record().bytes()) {
            assert!(moves(&log, victims[0]));
        }
        log
    }

    fn record() -> Record<'static> {
        Record::new(Kind::Put, 1, b"key", &[0; 8000])
    }

    /// Whether a record can be moved out of this segment at once.
    fn moves(log: &Log, victim: SegmentId) -> bool {
        let moved = log.append_moved(victim, &Moved::instead(record()), |_| {});
        matches!(moved.expect("it is no failure"), Appended::At(()))
    }

    /// Otherwise the first one would wait for space that it alone can make.
    #[test]
    fn the_second_segment_that_is_cleaned_takes_no_space_that_the_first_needs() {
        let [first, second] = [SegmentId(7), SegmentId(8)];
        let log = log([first, second]);
        assert!(!moves(&log, second), "the last segment is the first one's");
        assert!(moves(&log, first));
        assert!(!moves(&log, second), "and all of it");
        assert!(moves(&log, first));
        log.lock().victims.remove(0);
        assert!(moves(&log, second), "now it is the first");
    }
}
