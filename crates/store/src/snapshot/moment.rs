//! What a snapshot holds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use timberline_tree::Art;

use super::Hold;
use crate::Error;
use crate::index::Index;
use crate::location::{Location, SegmentId};
use crate::pieces::Value;
use crate::segment::Segment;
use crate::store::PENDING;

/// Keys that are listed at once.
const BATCH: usize = 64;

/// A key and its word.
pub type Entry = (Vec<u8>, u64);
/// Where keys begin or end.
pub type End = Bound<Vec<u8>>;

fn as_slice(end: &End) -> Bound<&[u8]> {
    end.as_ref().map(Vec::as_slice)
}

/// From which end keys are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

/// A moment of a store.
pub struct Moment {
    /// The time then.
    pub now: u64,
    /// The number of the last record then.
    sequence: u64,
    /// The words of keys that changed since; [`PENDING`] where there was no record. `None` once it
    /// is given up.
    noted: RwLock<Option<Art<[u8], u64>>>,
    /// Values in pieces that keys had then, and have no more.
    values: Mutex<BTreeMap<u64, Arc<Value>>>,
    /// Segments that may have records of the moment, those too that are erased.
    pub hold: Hold,
}

impl Moment {
    /// `sequence` is the number of the last record, and `segments` are those that have records of
    /// it.
    pub fn new(now: u64, sequence: u64, segments: impl Iterator<Item = Arc<Segment>>) -> Moment {
        Moment {
            now,
            sequence,
            noted: RwLock::new(Some(Art::new())),
            values: Mutex::default(),
            hold: Hold::new(segments),
        }
    }

    /// Does something with what is noted, unless it is given up.
    fn with_noted<T>(&self, act: impl FnOnce(&Art<[u8], u64>) -> T) -> Option<T> {
        let noted = self.noted.read().unwrap_or_else(PoisonError::into_inner);
        noted.as_ref().map(act)
    }

    /// The index is about to change a key's word for the first time since, or another time. Whether
    /// there is memory. `segment` finds the one of the word.
    pub fn note(
        &self,
        key: &[u8],
        word: u64,
        segment: impl FnOnce(SegmentId) -> Option<Arc<Segment>>,
    ) -> bool {
        let noted = self.with_noted(|noted| {
            if noted.contains_key(key) {
                return true;
            }
            let id = Location::from_word(word).segment();
            if word != PENDING && !self.hold.has(id) {
                // Cleaning moved the record there.
                self.hold.extend(segment(id));
            }
            noted.insert(key, word).is_ok()
        });
        noted.unwrap_or(true)
    }

    /// A key is about to have this value no more.
    pub fn note_value(
        &self,
        value: &Arc<Value>,
        segment: impl Fn(SegmentId) -> Option<Arc<Segment>>,
    ) {
        if !value.was_there(self.sequence) {
            return;
        }
        self.with_noted(|_| {
            let places = value.places();
            let ids = places.iter().map(|it| it.segment());
            // Cleaning may have moved pieces.
            self.hold
                .extend(ids.filter(|&id| !self.hold.has(id)).filter_map(segment));
            self.lock_values().insert(value.id, Arc::clone(value));
        });
    }

    /// A value that a key had then and has no more.
    pub fn value(&self, id: u64) -> Option<Arc<Value>> {
        self.lock_values().get(&id).cloned()
    }

    fn lock_values(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Value>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key's word at the moment, or that of the same record where it lies now.
    pub fn word(&self, index: &dyn Index, key: &[u8]) -> Result<Option<u64>, Error> {
        let word = self.with_noted(|noted| {
            // In this order.
            let now = index.get(key);
            noted.get(key).or(now)
        });
        let word = word.ok_or(Error::SnapshotGivenUp)?;
        Ok(word.filter(|&it| it != PENDING))
    }

    /// Some keys at one end of a range in order, with words as [`word`](Self::word) has them; and
    /// the last key that was looked at, unless that were all.
    pub fn list(
        &self,
        index: &dyn Index,
        way: Way,
        (low, high): (&End, &End),
    ) -> Result<(Vec<Entry>, Option<Vec<u8>>), Error> {
        let some = |map: &dyn Index| -> Vec<Entry> {
            let range = map.range(as_slice(low), as_slice(high));
            match way {
                Way::Up => range.take(BATCH).collect(),
                Way::Down => range.rev().take(BATCH).collect(),
            }
        };
        // In this order: a key that the index does not have any more is noted.
        let both = self.with_noted(|noted| (some(index), some(noted)));
        let (now, noted) = both.ok_or(Error::SnapshotGivenUp)?;
        let ends = [&now, &noted].map(|it| it.get(BATCH - 1).map(|last| last.0.clone()));
        let ends = ends.into_iter().flatten();
        // Up to there both lists are complete.
        let end = match way {
            Way::Up => ends.min(),
            Way::Down => ends.max(),
        };
        let mut all: BTreeMap<Vec<u8>, u64> = now.into_iter().chain(noted).collect();
        all.retain(|key, word| {
            let is_listed = end.as_ref().is_none_or(|end| match way {
                Way::Up => key <= end,
                Way::Down => key >= end,
            });
            is_listed && *word != PENDING
        });
        Ok((all.into_iter().collect(), end))
    }

    /// Bytes of memory for what is noted.
    pub fn bytes(&self) -> u64 {
        let committed = self.with_noted(Art::committed);
        let words = committed.map_or(0, |(fast, slow)| (fast + slow) as u64);
        let values = self.lock_values();
        words + values.values().map(|it| it.bytes()).sum::<u64>()
    }

    /// Reads fail from now on, and it holds nothing.
    pub fn give_up(&self) {
        *self.noted.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.lock_values().clear();
        self.hold.give_up();
    }
}
