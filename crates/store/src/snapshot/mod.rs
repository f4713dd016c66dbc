//! Snapshots: the records of one moment, while writes, cleaning and checkpoints go on.
//!
//! The index goes on as the one index of the store. A moment notes what the index said of a key
//! before it changes for the first time; what is not noted is as it was. A record that is noted, or
//! was there at the moment, may be in a segment that is cleaned since: its file is gone from the
//! folder, but stays open here.
//!
//! Invariants:
//! - A moment begins under the log's lock, and what a batch is about to change in the index is
//!   noted under it: so a batch is in front of the moment or behind it. Nobody looks at the index
//!   for a moment before it knows all batches in front.
//! - A value in pieces is noted, with where its pieces lie, before they do not count any more.
//! - A key is noted before the index changes. So who looks at the index first, and then at what is
//!   noted, finds the word of the moment, or the one of the same record that cleaning moved.
//! - Nobody waits for a snapshot. One that would hold more than the options allow is given up.

mod hold;
mod listing;
mod moment;
mod moments;

pub(crate) use hold::Hold;
pub(crate) use moment::Moment;
pub(crate) use moments::Moments;

use std::ops::Bound;
use std::sync::Arc;

use timberline_tree::{KeyRange, after_all_with};

use crate::location::Location;
use crate::read::Found;
use crate::scan::View;
use crate::{Error, Scan, Store, ValueReader};
use listing::Listing;

/// The records of a store as they were at one moment. Clones are the same snapshot, which is open
/// until the last of them and of their scans is dropped.
///
/// It shows what had been written, durable or not, and had not expired by the moment's time. A
/// batch is shown as a whole or not at all.
///
/// While it is open, the first change of each key takes memory: for the key and a word, about 60
/// bytes with keys of 16. Segments that are cleaned keep their space on the disk. Both are bounded:
/// see [`Options::snapshot_memory`](crate::Options::snapshot_memory) and
/// [`Options::snapshot_space`](crate::Options::snapshot_space). A snapshot that would hold more, or
/// gets no memory, is given up; from then on it holds nothing, and reads of it fail with
/// [`Error::SnapshotGivenUp`]. Writes never fail for a snapshot.
#[derive(Clone)]
pub struct Snapshot(Arc<Open>);

/// A moment for as long as something reads it.
pub(crate) struct Open {
    store: Store,
    moment: Arc<Moment>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.store.inner.moments.remove(&self.moment);
    }
}

impl Store {
    /// The records of this moment. O(segments); reads no record and waits for nothing but running
    /// writes, as long as those need not wait themselves.
    pub fn snapshot(&self) -> Snapshot {
        let inner = &self.inner;
        let moment = {
            let state = inner.log.lock();
            // The index knows nothing of the others.
            let segments = inner.log.segments().into_iter();
            let segments = segments.filter(|it| !it.is_empty());
            let moment = Arc::new(Moment::new(inner.now(), state.sequence, segments));
            inner.moments.add(Arc::clone(&moment));
            moment
        };
        inner.wait_for_index();
        Snapshot(Arc::new(Open {
            store: self.clone(),
            moment,
        }))
    }
}

impl Snapshot {
    /// The value that a key had.
    ///
    /// # Errors
    /// As [`Store::get`]; [`Error::SnapshotGivenUp`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.0.find(key).await? {
            Some(found) => self.0.whole(found).await,
            None => Ok(None),
        }
    }

    /// A reader of the value that a key had, as [`Store::reader`]. It needs the snapshot no more.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn reader(&self, key: &[u8]) -> Result<Option<ValueReader>, Error> {
        match self.0.find(key).await? {
            Some(found) => self.0.store.reader_of(found, Some(&self.0.moment)),
            None => Ok(None),
        }
    }

    /// The records whose keys lie within bounds, from either end. It reads up to 16 records ahead.
    /// Once the snapshot is given up it ends with [`Error::SnapshotGivenUp`].
    pub fn range(&self, bounds: impl KeyRange<[u8]>) -> Scan {
        let [low, high] = [bounds.low(), bounds.high()].map(|it| it.map(<[u8]>::to_vec));
        let keys = Listing::new(Arc::clone(&self.0), low, high);
        Scan::new(View::Then(Arc::clone(&self.0)), keys)
    }

    /// The records whose keys begin so, as [`range`](Self::range).
    pub fn prefix(&self, prefix: &[u8]) -> Scan {
        self.range((Bound::Included(prefix.to_vec()), after_all_with(prefix)))
    }
}

impl Open {
    /// Where a key's record lies; `None` if the key had none.
    fn word(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        self.moment.word(&*self.store.inner.index, key)
    }

    /// The record that a key had.
    async fn find(&self, key: &[u8]) -> Result<Option<Found>, Error> {
        match self.word(key)? {
            Some(word) => self.record(key, word).await,
            None => Ok(None),
        }
    }

    /// The whole value of a record that was found.
    pub async fn whole(&self, found: Found) -> Result<Option<Vec<u8>>, Error> {
        self.store.whole(found, Some(&self.moment)).await
    }

    /// The record of a key, which was listed with this word.
    pub async fn record(&self, key: &[u8], mut word: u64) -> Result<Option<Found>, Error> {
        let inner = &self.store.inner;
        loop {
            let segment = |id| {
                self.moment
                    .hold
                    .segment(id)
                    .or_else(|| inner.log.segment(id))
            };
            let read = inner.read_from(segment, Location::from_word(word), key);
            if let Some(found) = read.await? {
                return Ok(Some(found).filter(|it| self.shows(it.expires)));
            }
            // Cleaning moved it there and away again.
            match self.word(key)? {
                Some(now) => word = now,
                None => return Ok(None),
            }
        }
    }

    /// Whether a record with this time counted at the moment.
    pub fn shows(&self, expires: u64) -> bool {
        expires > self.moment.now
    }
}
