//! Operations that do not wait, and the places of keys that were found together.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_tree::Held;

use crate::index::{Found, Spot};
use crate::log::NewRecord;
use crate::record::NEVER;
use crate::store::location_of;
use crate::window::ChunkNumber;
use crate::{Error, Store};

/// Where a key is in the index: for those who will look at it, or change it, without a search.
#[derive(Clone, Copy, Debug)]
pub struct KeyPlace<'h> {
    pub(crate) spot: Option<Spot<'h>>,
    /// Where in the log's window its record was.
    chunk: ChunkNumber,
    waits: bool,
}

impl KeyPlace<'_> {
    /// Whether whoever reads the value waits for the disk or for slow memory, unless it is
    /// [fetched](crate::Fetched). Of a value that was not to be near, it does not say so.
    pub fn waits(&self) -> bool {
        self.waits
    }
}

/// A write that takes effect together with others, and borrows what it writes.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    key: &'a [u8],
    /// A delete has none.
    value: Option<&'a [u8]>,
    place: Option<KeyPlace<'a>>,
}

impl<'a> Change<'a> {
    /// A put of a value that does not expire.
    pub fn put(key: &'a [u8], value: &'a [u8]) -> Change<'a> {
        Change {
            key,
            value: Some(value),
            place: None,
        }
    }

    /// A delete.
    pub fn delete(key: &'a [u8]) -> Change<'a> {
        Change {
            key,
            value: None,
            place: None,
        }
    }

    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The same of a key that may have been found somewhere.
    pub fn at(self, place: Option<KeyPlace<'a>>) -> Change<'a> {
        Change { place, ..self }
    }

    fn record(&self, replaces: bool) -> NewRecord<'a> {
        let record = match self.value {
            Some(value) => NewRecord::put(self.key, value, NEVER),
            None => NewRecord::delete(self.key),
        };
        NewRecord {
            replaces,
            ..record.at(self.place)
        }
    }
}

/// Keeps the places that [`Store::prepare`] finds, on its thread. The store frees no memory of its
/// index meanwhile, so it has to be brief.
#[must_use = "places are lost with it"]
pub struct Places<'s>(Held<'s>);

impl Store {
    /// What `read` makes of a key's value, if that is in memory; `Ready(None)` if there is none.
    /// Where it is on the disk, [`get`](Self::get) has to be asked. A writer may wait for `read`,
    /// so it must not call the store.
    pub fn get_now<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Poll<Option<T>> {
        self.inner.find_now(key, read)
    }

    /// Keeps the places of records that are found from now on.
    pub fn places(&self) -> Places<'_> {
        Places(self.inner.index.hold())
    }

    /// Has the processor bring what is in memory of these keys near, for all at the same time. So
    /// the operations on them that follow do not wait one by one. `is_read` says of a key, by its
    /// place in `keys`, whether its value is to be near, too: who sets it does not look at it.
    /// Returns where each key that has a value is, as far as that is known so; it is not where the
    /// index is in slow memory.
    pub fn prepare<'h>(
        &'h self,
        places: &'h Places<'_>,
        keys: &[&[u8]],
        is_read: impl Fn(usize) -> bool,
    ) -> SmallVec<[Option<KeyPlace<'h>>; 16]> {
        // In slow memory, others are to go on meanwhile.
        if self.inner.index.is_tiered() {
            return SmallVec::from_elem(None, keys.len());
        }
        let found = self.inner.find_many(&places.0, keys);
        let wanted = found.iter().enumerate().filter_map(|(index, it)| {
            let word = it.filter(|_| is_read(index)).map(|it| it.0);
            Some((index, location_of(word)?))
        });
        let place = |it: &Found<'h>| {
            Some(KeyPlace {
                spot: (*it)?.1,
                chunk: ChunkNumber::default(),
                waits: false,
            })
        };
        let mut places: SmallVec<[_; 16]> = found.iter().map(place).collect();
        let waiting = self.inner.look(wanted, |index, chunk| {
            if let Some(place) = &mut places[index] {
                place.chunk = chunk;
            }
        });
        for (index, _) in waiting {
            if let Some(place) = &mut places[index] {
                place.waits = true;
            }
        }
        places
    }

    /// As [`get_now`](Self::get_now) of a key that [`prepare`](Self::prepare) found there. Never
    /// says that there is no value.
    pub fn get_now_at<T>(
        &self,
        place: KeyPlace<'_>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Poll<T> {
        let word = self.inner.index.word_found(place.spot, key);
        let Some(location) = location_of(word) else {
            return Poll::Pending;
        };
        match self.inner.find_now_at(location, place.chunk, key, read) {
            Poll::Ready(Some(found)) => Poll::Ready(found),
            // It may have expired, or been moved: who asks the index will know.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// As [`put`](Self::put) if that need not wait; otherwise does nothing.
    pub fn put_now(&self, key: &[u8], value: &[u8]) -> Poll<Result<(), Error>> {
        self.put_now_at(key, value, None)
    }

    /// The same, where [`prepare`](Self::prepare) may have said where the key's record was: then
    /// the index is not searched for it again, if it still is there.
    pub fn put_now_at(
        &self,
        key: &[u8],
        value: &[u8],
        place: Option<KeyPlace<'_>>,
    ) -> Poll<Result<(), Error>> {
        let entry = NewRecord::put(key, value, NEVER).at(place);
        self.inner.write_now(&[entry]).map_ok(|_| ())
    }

    /// As [`put_now`](Self::put_now) if the key has a value, maybe one that expired and that
    /// maintenance did not remove yet. Says whether it has.
    pub fn replace_now(&self, key: &[u8], value: &[u8]) -> Poll<Result<bool, Error>> {
        self.replace_now_at(key, value, None)
    }

    /// The same, as [`put_now_at`](Self::put_now_at).
    pub fn replace_now_at(
        &self,
        key: &[u8],
        value: &[u8],
        place: Option<KeyPlace<'_>>,
    ) -> Poll<Result<bool, Error>> {
        let entry = NewRecord {
            replaces: true,
            ..NewRecord::put(key, value, NEVER).at(place)
        };
        self.inner.write_now(&[entry])
    }

    /// As [`write_now`](Self::write_now) if each key has a value, maybe one that expired, as for
    /// [`replace_now`](Self::replace_now). Says whether that is so; otherwise nothing is done.
    pub fn replace_all_now(&self, changes: &[Change]) -> Poll<Result<bool, Error>> {
        self.change_now(changes, true)
    }

    /// Does all of these writes at once, if that need not wait; otherwise does nothing.
    pub fn write_now(&self, changes: &[Change]) -> Poll<Result<(), Error>> {
        self.change_now(changes, false).map_ok(|_| ())
    }

    fn change_now(&self, changes: &[Change], replace: bool) -> Poll<Result<bool, Error>> {
        let mut entries = SmallVec::<[NewRecord; 16]>::new();
        entries.extend(changes.iter().map(|it| it.record(replace)));
        match entries.is_empty() {
            true => Poll::Ready(Ok(true)),
            false => self.inner.write_now(&entries),
        }
    }
}
