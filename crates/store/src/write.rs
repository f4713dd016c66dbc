//! Writing: records are appended and the index follows, under the locks of their keys.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard};
use std::task::Poll;

use smallvec::SmallVec;
use timberline_tree::Held;

use crate::index::Found;
use crate::location::Location;
use crate::log::{Appended, NewRecord};
use crate::pieces::{Descriptor, Pending, Value, is_large};
use crate::record::{Kind, NEVER, bytes_of, key_at};
use crate::segment::Segment;
use crate::store::{Inner, PENDING, location_of, stripe_of};
use crate::{Durability, Error, MAX_EXPIRING_KEY, MAX_KEY, MAX_VALUE};

/// Bytes of keys, and of values, that are short enough for all stores: a record of both is shorter
/// than an eighth of the least segment.
const SHORT: usize = 3 << 10;

impl Inner {
    /// Appends records as a batch and changes the index, if `allowed` says so when no other write
    /// of these keys can come between; waits until they are durable as the options say. Values that
    /// are too long for a record are written in pieces first. Returns whether it was allowed.
    pub async fn write(
        &self,
        entries: &[NewRecord<'_>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<bool, Error> {
        let longest = self.check(entries)?;
        let options = self.log.options();
        let is_large = |it: &NewRecord| is_large(it, options, longest);
        if !entries.iter().any(is_large) {
            return self.write_records(entries, allowed).await;
        }
        let mut values = Vec::new();
        for entry in entries {
            let mut value = Pending::new(self);
            if is_large(entry) {
                value.append_all(entry.key, entry.value).await?;
            }
            values.push(value);
        }
        let about = |it: &Pending<_>| it.value().map(|it| it.descriptor().encode());
        let abouts: Vec<_> = values.iter().map(about).collect();
        let records = entries.iter().zip(&values).zip(&abouts);
        let records = records.map(|((entry, value), about)| match (value.value(), about) {
            (Some(value), Some(about)) => NewRecord::large(entry.key, value, about, entry.expires),
            _ => *entry,
        });
        let records: Vec<NewRecord> = records.collect();
        let is_done = self.write_records(&records, allowed).await?;
        if is_done {
            values.iter_mut().for_each(Pending::keep);
        }
        Ok(is_done)
    }

    /// The same for records of which each is short enough.
    pub async fn write_records(
        &self,
        entries: &[NewRecord<'_>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<bool, Error> {
        let sequence = self.append(entries, allowed).await?;
        if let Some(sequence) = sequence
            && self.log.options().durability == Durability::Each
        {
            self.commit(sequence).await?;
        }
        Ok(sequence.is_some())
    }

    /// The same, without waiting until they are durable. The number of the last record; `None` if
    /// it was not allowed.
    pub async fn append(
        &self,
        entries: &[NewRecord<'_>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<Option<u64>, Error> {
        // The paths of several are read at the same time anyway.
        if let [entry] = entries {
            self.approach(entry.key).await;
        }
        loop {
            match self.try_append(entries, &allowed)? {
                Appended::At(sequence) => return Ok(Some(sequence)),
                Appended::NotNow(changes) => self.log.wait_for_change(changes).await,
                Appended::Refused => return Ok(None),
            }
        }
    }

    /// Appends records as a batch and changes the index, if that need wait for neither the disk nor
    /// slow memory, and no value is in pieces. Says whether there was what they are to replace.
    pub fn write_now(&self, entries: &[NewRecord<'_>]) -> Poll<Result<bool, Error>> {
        let options = self.log.options();
        if options.durability == Durability::Each || self.index.is_tiered() {
            return Poll::Pending;
        }
        let longest = self.check(entries)?;
        if entries.iter().any(|it| is_large(it, options, longest)) {
            return Poll::Pending;
        }
        match self.try_append(entries, |_| true)? {
            Appended::At(_) => Poll::Ready(Ok(true)),
            Appended::Refused => Poll::Ready(Ok(false)),
            Appended::NotNow(_) => Poll::Pending,
        }
    }

    /// The longest values that are not put in pieces, so that the records of all fit into a batch;
    /// or why there can be no such batch.
    fn check(&self, entries: &[NewRecord]) -> Result<usize, Error> {
        // Most are short, whatever the options say.
        if let [entry] = entries
            && entry.key.len() <= SHORT
            && entry.value.len() <= SHORT
        {
            return Ok(usize::MAX);
        }
        let options = self.log.options();
        let (most, mut all) = (options.largest(), 0);
        for entry in entries {
            let expires = entry.expires != NEVER;
            if entry.value.len() > MAX_VALUE {
                return Err(Error::ValueTooLong(entry.value.len(), MAX_VALUE));
            }
            let value = match is_large(entry, options, usize::MAX) {
                true => Descriptor::BYTES,
                false => entry.value.len(),
            };
            self.check_key(entry.key, value, expires)?;
            all += bytes_of(entry.key.len(), value, expires);
        }
        if all <= most {
            return Ok(usize::MAX);
        }
        // Lengths, and what it saves if a value is put in pieces.
        let saved = |it: &NewRecord| {
            let about = bytes_of(it.key.len(), Descriptor::BYTES, it.expires != NEVER);
            (it.value.len(), it.bytes().saturating_sub(about))
        };
        let others = entries
            .iter()
            .filter(|it| !is_large(it, options, usize::MAX));
        let mut others: Vec<_> = others.map(saved).collect();
        others.sort_unstable();
        while let Some((len, saved)) = others.pop().filter(|it| it.1 > 0) {
            all -= saved;
            if all <= most {
                return Ok(len - 1);
            }
        }
        Err(Error::BatchTooLong(all, most))
    }

    /// Whether a record with this key and a value of so many bytes can be.
    pub fn check_key(&self, key: &[u8], value: usize, expires: bool) -> Result<(), Error> {
        let longest = if expires { MAX_EXPIRING_KEY } else { MAX_KEY };
        let others = key_at(expires) + value;
        let longest = longest.min(self.log.options().largest().saturating_sub(others));
        match key.len() > longest {
            true => Err(Error::KeyTooLong(key.len(), longest)),
            false => Ok(()),
        }
    }

    /// The same as [`append`](Self::append), without waiting at all.
    fn try_append<'a>(
        &self,
        entries: &[NewRecord<'a>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<Appended<u64>, Error> {
        let locks = self.lock_keys(entries);
        if !allowed(self) {
            return Ok(Appended::Refused);
        }
        // One alone needs no places, and in slow memory none are looked for.
        let are_held = entries.len() > 1 && !self.index.is_tiered();
        let held = are_held.then(|| self.index.hold());
        let mut known = SmallVec::<[Found<'_>; 16]>::new();
        let new = match self.reserve(entries, held.as_ref(), &mut known) {
            Ok(Some(new)) => new,
            Ok(None) => return Ok(Appended::Refused),
            Err(error) => return self.no_place(error),
        };
        let timed = entries.iter().filter(|it| it.expires != NEVER);
        let reserved = timed.clone().try_for_each(|it| self.reserve_time(it));
        // Then what is known of the second one depends on the first.
        let is_twice = locks.len() < entries.len() && has_twice(entries);
        let is_later = !is_twice && are_all_there(entries, &known);
        let mut words = SmallVec::<[u64; 16]>::with_capacity(entries.len());
        let mut founds = known.iter();
        // Times that records of these keys had before, and their keys.
        let mut times = SmallVec::<[_; 1]>::new();
        // Records that no key has any more.
        let mut gone = SmallVec::<[Location; 4]>::new();
        // Whether the index took a key that it had no place for.
        let mut is_new = false;
        let appended = reserved.and_then(|()| {
            let fresh = |entry: &NewRecord| self.is_fresh(entry);
            self.log
                .append(entries, fresh, |entry, (location, segment), sequence| {
                    self.moments.note(&*self.index, &self.log, entry.key);
                    if let Some(value) = entry.large {
                        value.commit(sequence);
                    }
                    let (word, found) = (location.to_word(), founds.next().copied().flatten());
                    let is_put = entry.kind == Kind::Put;
                    let old = match entry.kind {
                        _ if is_later => {
                            words.push(word);
                            found.map(|it| it.0)
                        }
                        Kind::Put => {
                            let is_there =
                                found.is_some() || entry.spot.is_some() || entry.replaces;
                            let update = || self.update(entry, found, word);
                            match is_there.then(update).flatten() {
                                None if entry.replaces => return Ok(false),
                                // It has a place, or is the first record.
                                None => self.index.insert(entry.key, word)?,
                                old => old,
                            }
                        }
                        // What follows in the batch may need the place.
                        _ if is_twice => self.index.update(entry.key, PENDING),
                        _ => self.index.remove(entry.key),
                    };
                    is_new |= is_put && old.is_none();
                    let new = is_put.then_some((location, entry.large));
                    if let Some(old) = self.changed(entry.key, old, new, Some(segment)) {
                        if old.expires() {
                            times.push((self.deadlines.get(entry.key), entry.key));
                        }
                        gone.push(old);
                    }
                    if entry.expires != NEVER {
                        self.deadlines.place(entry.key, entry.expires);
                    }
                    Ok(true)
                })
        });
        let is_done = matches!(appended, Ok(Appended::At(_)));
        if is_done {
            // Others need not wait for this with the log's lock.
            for ((entry, &found), word) in entries.iter().zip(&known).zip(words) {
                let before = match entry.kind {
                    Kind::Delete => self.index.remove(entry.key),
                    _ => self.update(entry, found, word),
                };
                assert_eq!(before.is_some(), found.is_some(), "its key is locked");
            }
        }
        // Nor for this.
        for old in gone {
            self.forget_value(old);
        }
        if is_new {
            self.look_at_index();
        }
        if !is_done {
            for key in new {
                self.index.remove(key);
            }
        } else if is_twice {
            for entry in entries.iter().filter(|it| it.kind == Kind::Delete) {
                self.index.remove_if(entry.key, PENDING);
            }
        }
        for entry in timed {
            times.push((entry.expires, entry.key));
        }
        for (at, key) in times {
            self.settle(key, at);
        }
        self.bound_snapshots();
        match appended {
            Err(error) => self.no_place(error),
            appended => appended,
        }
    }

    /// What becomes of a write that there is no memory for: in a cache it waits until keys are gone
    /// from the index, as long as some can go.
    pub fn no_place<T>(&self, error: Error) -> Result<Appended<T>, Error> {
        let is_short = matches!(error, Error::OutOfMemory) && self.log.options().evict;
        let gone = is_short.then(|| self.log.wait_for_eviction()).flatten();
        gone.map(Appended::NotNow).ok_or(error)
    }

    /// The locks of all keys.
    fn lock_keys(&self, entries: &[NewRecord]) -> SmallVec<[MutexGuard<'_, ()>; 4]> {
        let mut locks = SmallVec::new();
        if let [entry] = entries {
            locks.push(self.stripe(entry.key));
            return locks;
        }
        // In ascending order, so that no two batches wait for one another.
        let stripes = entries.iter().map(|it| stripe_of(it.key));
        let mut stripes: SmallVec<[usize; 16]> = stripes.collect();
        stripes.sort_unstable();
        stripes.dedup();
        locks.extend(stripes.into_iter().map(|it| self.lock_stripe(it)));
        locks
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
    fn is_fresh(&self, entry: &NewRecord) -> bool {
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
    fn reserve_time(&self, entry: &NewRecord) -> Result<(), Error> {
        // A key that expires already needs no more than it has.
        if self.deadlines.get(entry.key) == NEVER && self.is_index_full() {
            return Err(Error::OutOfMemory);
        }
        self.deadlines.reserve(entry.key, entry.expires)
    }

    /// Has the index know a word of a key that has a place there, which was found there if it was.
    /// The previous one; `None` if it has no place.
    fn update(&self, entry: &NewRecord, found: Found<'_>, word: u64) -> Option<u64> {
        let spot = found.and_then(|it| it.1).or(entry.spot);
        let updated = spot.and_then(|spot| self.index.update_at(spot, entry.key, word));
        updated.or_else(|| self.index.update(entry.key, word))
    }

    /// Looks for the keys of which nothing is known, for all at the same time: so their paths
    /// through the index are near when it changes, too.
    fn find_unknown<'h>(
        &'h self,
        entries: &[NewRecord<'_>],
        held: Option<&'h Held<'_>>,
        known: &mut [Found<'h>],
    ) {
        let unknown = entries.iter().zip(&*known).filter(|it| it.1.is_none());
        let keys: SmallVec<[&[u8]; 16]> = unknown.map(|it| it.0.key).collect();
        let found: SmallVec<[Found<'_>; 16]> = match held {
            Some(held) => self.find_many(held, &keys),
            None => {
                let words = self.words(&keys).into_iter();
                words.map(|it| Some((it?, None))).collect()
            }
        };
        for (known, found) in known.iter_mut().filter(|it| it.is_none()).zip(found) {
            *known = found;
        }
    }

    /// Makes places in the index for keys that are not there, as that can fail: afterwards nothing
    /// can but the log. Returns these keys; `None` if one is not there that is to be replaced. The
    /// first record needs no place in advance: where the index does not take its key, nothing has
    /// happened yet. `known` gets what the index says of each key before, with the places of
    /// several as long as those are held; nothing where that need not be looked for.
    fn reserve<'a: 'h, 'h>(
        &'h self,
        entries: &[NewRecord<'a>],
        held: Option<&'h Held<'_>>,
        known: &mut SmallVec<[Found<'h>; 16]>,
    ) -> Result<Option<Vec<&'a [u8]>>, Error> {
        let mut new = Vec::new();
        known.extend(entries.iter().map(|entry| {
            let spot = entry.spot?;
            let word = self.index.get_at(spot, entry.key)?;
            Some((word, Some(spot)))
        }));
        if known.iter().all(Option::is_some) {
            return Ok(Some(new));
        }
        let needs_place = |entry: &NewRecord| {
            let is_full = !entry.replaces && self.was_index_full.load(Relaxed);
            is_full || entry.expires != NEVER || entry.large.is_some()
        };
        let is_first_placed = entries.first().is_some_and(needs_place);
        let others = entries.iter().zip(&*known);
        let mut others = others.skip(usize::from(!is_first_placed));
        if others.all(|(entry, found)| found.is_some() || entry.kind == Kind::Delete) {
            known.clear();
            return Ok(Some(new));
        }
        self.find_unknown(entries, held, known);
        let found = entries
            .iter()
            .zip(&*known)
            .skip(usize::from(!is_first_placed));
        for (entry, found) in found {
            if found.is_some() || entry.kind != Kind::Put {
                continue;
            }
            if entry.replaces {
                return Ok(None);
            }
            let reserved = match self.look_at_index() {
                true => None,
                false => self.index.insert(entry.key, PENDING).ok(),
            };
            match reserved {
                Some(None) => new.push(entry.key),
                // A batch may have a key twice.
                Some(Some(_)) => {}
                None => {
                    for key in new {
                        self.index.remove(key);
                    }
                    return Err(Error::OutOfMemory);
                }
            }
        }
        Ok(Some(new))
    }

    /// Whether the index has all the memory that it may, as those know then who do not ask.
    pub fn look_at_index(&self) -> bool {
        let is_full = self.is_index_full();
        self.was_index_full.store(is_full, Relaxed);
        is_full
    }
}

/// Whether the index may change after the log, as each key that is put has a place that is known. A
/// value in pieces changes together with its key.
fn are_all_there(entries: &[NewRecord], known: &[Found<'_>]) -> bool {
    let is_large = |word| location_of(Some(word)).is_some_and(Location::is_large);
    let is_there = |(entry, found): (&NewRecord, &Found)| match found {
        Some((word, _)) => entry.large.is_none() && !is_large(*word),
        None => entry.kind == Kind::Delete,
    };
    entries.len() == known.len() && entries.iter().zip(known).all(is_there)
}

/// Whether a batch has a key twice.
fn has_twice(entries: &[NewRecord]) -> bool {
    let mut keys: SmallVec<[&[u8]; 16]> = entries.iter().map(|it| it.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|it| it[0] == it[1])
}
