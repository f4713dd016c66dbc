//! Writing: records are appended and the index follows, under the locks of their keys.

mod changes;
mod keys;
mod places;

use std::task::Poll;

use changes::Changes;
use keys::last_of_each;

use crate::log::{Appended, NewRecord};
use crate::pieces::{Descriptor, Pending, is_large};
use crate::record::{NEVER, bytes_of, key_at};
use crate::store::Inner;
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
        // Nobody would have the pieces of the others.
        let entries = &last_of_each(entries)[..];
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
    fn try_append(
        &self,
        entries: &[NewRecord<'_>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<Appended<u64>, Error> {
        let (_locks, is_twice) = self.lock_keys(entries);
        if !allowed(self) {
            return Ok(Appended::Refused);
        }
        let different;
        let entries = match is_twice {
            true => {
                different = last_of_each(entries);
                &different
            }
            false => entries,
        };
        // One alone needs no places, and in slow memory none are looked for.
        let are_held = entries.len() > 1 && !self.index.is_tiered();
        let held = are_held.then(|| self.index.hold());
        let places = match self.reserve(entries, held.as_ref()) {
            Ok(Some(places)) => places,
            Ok(None) => return Ok(Appended::Refused),
            Err(error) => return self.no_place(error),
        };
        let timed = entries.iter().filter(|it| it.expires != NEVER);
        let reserved = timed.clone().try_for_each(|it| self.reserve_time(it));
        let mut changes = Changes::new(self, entries, &places.known);
        let appended = reserved.and_then(|()| {
            let fresh = |entry: &NewRecord| self.is_fresh(entry);
            self.log.append(entries, fresh, |entry, place, sequence| {
                changes.make(entry, place, sequence)
            })
        });
        let is_done = matches!(appended, Ok(Appended::At(_)));
        if is_done {
            changes.follow();
        }
        changes.settle();
        if !is_done {
            self.give_up(places);
        }
        timed.for_each(|it| self.settle(it.key, it.expires));
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
}
