//! What changes with records that are appended: the index, and what follows it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::Error;
use crate::index::Found;
use crate::location::Location;
use crate::log::NewRecord;
use crate::pieces::Value;
use crate::record::{Kind, NEVER};
use crate::segment::Segment;
use crate::store::{Inner, location_of};

/// The changes of a batch whose keys are locked and differ.
pub(super) struct Changes<'a, 'b, 'h> {
    inner: &'h Inner,
    entries: &'b [NewRecord<'a>],
    /// What the index said of each key before; nothing where that was not looked for.
    known: &'b [Found<'h>],
    /// Whether the index follows when the log's lock is free.
    is_later: bool,
    /// How many are made.
    made: usize,
    /// The index's words of these, where it follows later.
    words: SmallVec<[u64; 16]>,
    /// Times that records of these keys had before, and their keys.
    times: SmallVec<[(u64, &'a [u8]); 1]>,
    /// Records that no key has any more.
    gone: SmallVec<[Location; 4]>,
    /// Whether the index took a key that it had no place for.
    is_new: bool,
}

impl<'a, 'b, 'h> Changes<'a, 'b, 'h> {
    pub fn new(inner: &'h Inner, entries: &'b [NewRecord<'a>], known: &'b [Found<'h>]) -> Self {
        Changes {
            inner,
            entries,
            known,
            is_later: have_places(entries, known),
            made: 0,
            words: SmallVec::with_capacity(entries.len()),
            times: SmallVec::new(),
            gone: SmallVec::new(),
            is_new: false,
        }
    }

    /// Makes those of the next record, which is about to be appended there with this number. The
    /// caller holds the log's lock. Says whether there was what it is to replace; that and an error
    /// are only of the first.
    pub fn make(
        &mut self,
        entry: &NewRecord<'a>,
        (location, segment): (Location, &Segment),
        sequence: u64,
    ) -> Result<bool, Error> {
        let inner = self.inner;
        inner.moments.note(&*inner.index, &inner.log, entry.key);
        if let Some(value) = entry.large {
            value.commit(sequence);
        }
        let found = self.known.get(self.made).copied().flatten();
        self.made += 1;
        let old = match entry.kind {
            _ if self.is_later => {
                self.words.push(location.to_word());
                found.map(|it| it.0)
            }
            Kind::Delete => inner.index.remove(entry.key),
            _ => {
                let old = inner.put(entry, found, location.to_word())?;
                if old.is_none() && entry.replaces {
                    return Ok(false);
                }
                self.is_new |= old.is_none();
                old
            }
        };
        let new = (entry.kind == Kind::Put).then_some((location, entry.large));
        if let Some(old) = inner.changed(entry.key, old, new, Some(segment)) {
            if old.expires() {
                let before = inner.deadlines.get(entry.key);
                self.times.push((before, entry.key));
            }
            self.gone.push(old);
        }
        if entry.expires != NEVER {
            inner.deadlines.place(entry.key, entry.expires);
        }
        Ok(true)
    }

    /// Has the index follow, if it does so later: others need not wait for it with the log's lock.
    pub fn follow(&mut self) {
        let records = self.entries.iter().zip(self.known);
        for ((entry, &found), word) in records.zip(self.words.drain(..)) {
            let was_there = match entry.kind {
                Kind::Delete => self.inner.index.remove(entry.key).is_some() == found.is_some(),
                _ => self.inner.update(entry, found, word).is_some(),
            };
            assert!(was_there, "its key is locked");
        }
    }

    /// Forgets what was there before.
    pub fn settle(self) {
        let inner = self.inner;
        self.gone.into_iter().for_each(|it| inner.forget_value(it));
        if self.is_new {
            inner.look_at_index();
        }
        self.times
            .into_iter()
            .for_each(|(at, key)| inner.settle(key, at));
    }
}

/// Whether the index may change after the log, as each key that is put has a place. A value in
/// pieces changes together with its key.
fn have_places(entries: &[NewRecord], known: &[Found<'_>]) -> bool {
    let is_large = |it: &Found| location_of(it.map(|it| it.0)).is_some_and(Location::is_large);
    let are_plain = !entries.iter().any(|it| it.large.is_some()) && !known.iter().any(is_large);
    entries.len() == known.len() && are_plain
}

impl Inner {
    /// Has the index know a word of a key, whatever was found of that. The previous one; `None` if
    /// there was none, and then it has the word only if that is not just to replace another.
    fn put(&self, entry: &NewRecord, found: Found<'_>, word: u64) -> Result<Option<u64>, Error> {
        let is_there = found.is_some() || entry.spot.is_some() || entry.replaces;
        let update = || self.update(entry, found, word);
        match is_there.then(update).flatten() {
            // It has a place, or is the first record.
            None if !entry.replaces => self.index.insert(entry.key, word),
            old => Ok(old),
        }
    }

    /// Has the index know a word of a key that has a place there, which was found there if it was.
    /// The previous one; `None` if it has no place.
    fn update(&self, entry: &NewRecord, found: Found<'_>, word: u64) -> Option<u64> {
        let spot = found.and_then(|it| it.1).or(entry.spot);
        self.index.update_found(spot, entry.key, word)
    }

    /// A key's word in the index was `old`, and its record lies at `new`, with its value if it is
    /// in pieces. The caller holds the log's lock, and that of the key until the index says so.
    /// `segment` is the one to which records are appended now, if that is known. Returns where the
    /// old record lies, to [forget its value](Self::forget_value).
    pub fn changed(
        &self,
        key: &[u8],
        old: Option<u64>,
        new: Option<(Location, Option<&Arc<Value>>)>,
        segment: Option<&Segment>,
    ) -> Option<Location> {
        let old = location_of(old);
        let large = new.and_then(|it| it.1);
        let was_large = old.is_some_and(Location::is_large);
        if (was_large || large.is_some())
            && let Some(gone) = self.large.set(key, large)
        {
            self.let_go(&gone);
        }
        match (old, new) {
            (None, Some(_)) => self.first_bytes.add(key),
            (Some(_), None) => self.first_bytes.remove(key),
            _ => {}
        }
        match segment {
            Some(segment) => self.log.count_in(segment, old, new.map(|it| it.0)),
            None => self.log.count(old, new.map(|it| it.0)),
        }
        old
    }

    /// Nobody will want the value of a record that no key has any more.
    pub fn forget_value(&self, old: Location) {
        if !self.window.is_young(old) {
            self.cache.remove(old);
        }
    }

    /// Whether a record that is to be appended is fresh: it expires, and its key has no record, so
    /// that a delete hides older ones if there are some; or has a fresh one that expires before.
    pub(super) fn is_fresh(&self, entry: &NewRecord) -> bool {
        entry.expires != NEVER
            && self
                .locate(entry.key)
                .is_none_or(|old| !old.hides() && self.deadlines.get(entry.key) <= entry.expires)
    }

    /// Forgets a time of a key, unless its record says that one.
    pub fn settle(&self, key: &[u8], at: u64) {
        let expires = self.locate(key).is_some_and(|it| it.expires());
        let current = match expires {
            true => self.deadlines.get(key),
            false => NEVER,
        };
        self.deadlines.settle(key, at, current);
    }

    /// Makes places for the time of a record, as that can fail.
    pub(super) fn reserve_time(&self, entry: &NewRecord) -> Result<(), Error> {
        // A key that expires already needs no more than it has.
        if self.deadlines.get(entry.key) == NEVER && self.is_index_full() {
            return Err(Error::OutOfMemory);
        }
        self.deadlines.reserve(entry.key, entry.expires)
    }
}
