//! The log of a node: its store, with what it changed in the pool, for when the pool is lost.
//!
//! ```text
//! k KEY         version u64, the key's record; nothing behind the version if it was removed
//! f, l, m, z …  an element, under the key that a server alone has it under: version u64, a byte,
//!               its value; nothing behind the version if it was removed
//! c             the number of the data, u64; the log's number, u64; 1 if it is whole, u64
//! ```
//!
//! The record of a hash, set or sorted set has its id, but neither the number of its elements nor
//! where in the pool they are. An id is of one key for as long as that is there, and of no other in
//! the log. Elements of an id count only if the key's record has that.
//!
//! Of a key in several logs, the record with the highest version counts, and so of an element.
//! What is removed leaves a record in the log if an older one may be in another log.

use timberline_store::{Batch, Error as StoreError, MAX_KEY, Store};

use super::keys::{Change, MapChange, SEVERAL};
use crate::keyspace::{Entry, Error, Kind, element_of_log, orphans_of};

/// The letter of keys' records.
pub(crate) const LOGGED: u8 = b'k';
/// The key of what names data and log.
const ABOUT: &[u8] = b"c";
/// Before the value of an element that was not removed.
const IS_THERE: u8 = 1;
/// Bytes of elements in one batch of the store.
const BATCH: usize = 1 << 20;

/// What names data and log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// The number of the data that the log is about.
    pub data: u64,
    pub log: u64,
    /// Whether all that its node changed was logged.
    pub is_whole: bool,
}

impl About {
    /// What a store is the log of, if it is one.
    pub async fn read(store: &Store) -> Result<Option<About>, Error> {
        let bytes = store.get(ABOUT).await?;
        Ok(bytes.and_then(|bytes| {
            Some(About {
                data: number(&bytes, 0)?,
                log: number(&bytes, 8)?,
                is_whole: number(&bytes, 16)? == 1,
            })
        }))
    }

    /// Writes it. What follows in the log is of no use without this.
    pub async fn write(self, store: &Store) -> Result<(), Error> {
        let numbers = [self.data, self.log, u64::from(self.is_whole)];
        store
            .put(ABOUT, &numbers.map(u64::to_le_bytes).concat())
            .await?;
        Ok(store.sync().await?)
    }
}

/// A number in bytes.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The key of a key's record.
pub(super) fn logged(key: &[u8]) -> Vec<u8> {
    [&[LOGGED], key].concat()
}

/// The version and the value of an element's record; no value if it was removed.
pub(super) fn element(record: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    let version = number(record, 0)?;
    Some((version, record.get(9..)))
}

/// The id of a key's record, if that is one of a hash, set or sorted set.
pub(super) fn id_of(record: &[u8]) -> Option<u64> {
    let entry = Entry::new(record.get(8..)?.to_vec());
    (entry.kind != Kind::String && record.len() > 8).then(|| entry.id())
}

/// A change that was done in the pool.
pub(super) struct Logged<'a> {
    pub key: &'a [u8],
    pub change: &'a Change,
    pub version: u64,
    /// The number of the log that has all changes of the key, or [`SEVERAL`].
    pub log: u64,
    /// What the key was.
    pub before: Option<Entry>,
}

impl Logged<'_> {
    /// Writes it. Says whether there are elements to be removed from the log.
    pub async fn write(self, store: &Store) -> Result<bool, Error> {
        let logged = logged(self.key);
        let version = self.version.to_le_bytes();
        let mut batch = Batch::new();
        let is_alone = self.log != SEVERAL;
        let id = match self.change {
            Change::Remove if self.before.is_none() => return Ok(false),
            Change::Remove => {
                match is_alone {
                    true => batch.delete(&logged),
                    false => batch.put(&logged, &version),
                }
                None
            }
            Change::Put(record) => {
                let entry = Entry::new(record.clone());
                match entry.kind {
                    Kind::String => batch.put(&logged, &[&version[..], record].concat()),
                    _ => batch.put(&logged, &[&version[..], &head(&entry)].concat()),
                }
                (entry.kind != Kind::String).then(|| entry.id())
            }
            Change::Map(change) => {
                self.write_elements(store, change, &mut batch).await?;
                let id = change.id.to_le_bytes();
                let head = Entry::encode(change.kind, change.expires, &[&id]);
                batch.put(&logged, &[&version[..], &head].concat());
                Some(change.id)
            }
        };
        let orphans = self
            .orphans(store, &logged)
            .await?
            .filter(|it| id != Some(*it));
        if let Some(id) = orphans {
            batch.put(&orphans_of(id), &[]);
        }
        store.write(&batch).await?;
        Ok(orphans.is_some())
    }

    /// Adds changes of elements to a batch. Those that are too many for one are written: nothing
    /// says yet that they count, or they are there anew.
    async fn write_elements(
        &self,
        store: &Store,
        change: &MapChange,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let version = self.version.to_le_bytes();
        let mut bytes = 0;
        for (name, value) in &change.elements {
            let key = element_of_log(change.id, name);
            match value {
                Some(value) => batch.put_parts(&[&key], &[&version, &[IS_THERE], value]),
                None if self.log != SEVERAL => batch.delete(&key),
                None => batch.put(&key, &version),
            }
            bytes += key.len() + value.as_ref().map_or(0, Vec::len) + 32;
            if bytes > BATCH {
                store.write(&std::mem::replace(batch, Batch::new())).await?;
                bytes = 0;
            }
        }
        Ok(())
    }

    /// The id of the elements that the log has of what the key was.
    async fn orphans(&self, store: &Store, logged: &[u8]) -> Result<Option<u64>, Error> {
        let before = self.before.as_ref();
        let aggregate = before.filter(|it| it.kind != Kind::String);
        match (before, aggregate) {
            (_, Some(before)) if self.log != SEVERAL => Ok(Some(before.id())),
            // Strings are not followed: what is left of an earlier time here is only space.
            (Some(_), None) => Ok(None),
            _ if !store.contains_key(logged) => Ok(None),
            _ => Ok(store.get(logged).await?.and_then(|it| id_of(&it))),
        }
    }
}

/// What the log has of the record of a hash, set or sorted set.
fn head(entry: &Entry) -> Vec<u8> {
    Entry::encode(entry.kind, entry.expires, &[&entry.id().to_le_bytes()])
}

/// Whether the store would take a change. It is asked before the pool is.
pub(super) fn check(key: &[u8], change: &Change) -> Result<(), StoreError> {
    let too_long = |len: usize| Err(StoreError::KeyTooLong(len, MAX_KEY));
    if key.len() >= MAX_KEY {
        return too_long(key.len());
    }
    if let Change::Map(change) = change {
        let longest = change.elements.keys().map(Vec::len).max().unwrap_or(0);
        // An id goes before it.
        if longest + 8 > MAX_KEY {
            return too_long(longest);
        }
    }
    Ok(())
}
