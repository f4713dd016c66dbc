//! Strings in the pool, and their log: the store of the node that wrote them last.
//!
//! A record of the pool has, before the string's own record, the version of its last change, and
//! the number of the log that has all of the key's changes, or 0 if several may. The log has a
//! record for each key that this node changed:
//!
//! ```text
//! l KEY   version u64, the string's record; nothing behind the version if it was removed
//! c       the number of the data, u64; the log's number, u64; 1 if it is whole, u64
//! ```
//!
//! Of a key in several logs, the record with the highest version counts. A key that is removed
//! leaves a record in the log if an older one may be in another log.

use std::sync::Arc;

use timberline_remote::Error as PoolError;
use timberline_remote::records::MAX_RECORD;
use timberline_store::Store;

use super::Node;
use crate::keyspace::{Entry, Error};

/// The letter of the log's records.
pub(crate) const LOGGED: u8 = b'l';
/// The key of what names data and log.
const ABOUT: &[u8] = b"c";
/// Bits of a version that count a node's changes; the others are the version of the table of slots,
/// above that of lost pools.
pub(super) const COUNT_BITS: u32 = 40;
/// Bytes before a string's record in the pool.
pub(super) const HEAD: usize = 16;
/// In the place of a log's number: there may be several.
pub(super) const SEVERAL: u64 = 0;

/// Strings of a node.
pub(crate) struct Strings {
    pub node: Arc<Node>,
    /// The log's number, if there is one.
    log: Option<u64>,
}

/// What names data and log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct About {
    /// The number of the data that the log is about.
    pub data: u64,
    log: u64,
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
    async fn write(self, store: &Store) -> Result<(), Error> {
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

/// A key of the log.
fn logged(key: &[u8]) -> Vec<u8> {
    [&[LOGGED], key].concat()
}

impl Strings {
    /// Strings of a node, with a log that is about the same data, or empty; or without one, then
    /// that is no whole log any more.
    pub async fn open(node: Arc<Node>, store: &Store, logs: bool) -> Result<Strings, Error> {
        let before = About::read(store).await?;
        let about = About {
            data: node.origin().data,
            log: before.map_or_else(|| fastrand::u64(1..), |it| it.log),
            is_whole: logs && before.is_none_or(|it| it.is_whole),
        };
        if before != Some(about) {
            about.write(store).await?;
        }
        let log = logs.then_some(about.log);
        Ok(Strings { node, log })
    }

    /// A string's record.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let place = self.node.place_of(key);
        let found = self.node.records().get(place, key).await?;
        Ok(found.map(string_of))
    }

    /// Sets a string's record, or removes it: in the pool, then in the log. The caller has the
    /// key's lock.
    pub async fn set(&self, store: &Store, key: &[u8], record: Option<&[u8]>) -> Result<(), Error> {
        // The store refuses longer ones, after the pool has taken them.
        if let Some(record) = record
            && record.len() + key.len() + 64 > MAX_RECORD
        {
            return Err(PoolError::RecordTooLong(record.len()).into());
        }
        if let Some(error) = store.failure() {
            return Err(error.into());
        }
        let place = self.node.place_of(key);
        let logged = logged(key);
        let version = self.node.next_version();
        // If it was removed here before, an older one may be elsewhere.
        let mut log = match self.log {
            Some(log) if !store.contains_key(&logged) => log,
            _ => SEVERAL,
        };
        let before = self.node.records().update(place, key, |before| {
            if let Some(before) = before {
                let last = number(before, 8);
                log = self.log.filter(|_| last == self.log).unwrap_or(SEVERAL);
            }
            record.map(|record| {
                let expires = Entry::expiry(record).is_some();
                (pooled(version, log, record), expires)
            })
        });
        let before = before.await?;
        if self.log.is_none() {
            return Ok(());
        }
        let version = version.to_le_bytes();
        match record {
            Some(record) => store.put(&logged, &[&version[..], record].concat()).await?,
            None if before.is_none() => {}
            None if log != SEVERAL => {
                store.delete(&logged).await?;
            }
            None => store.put(&logged, &version).await?,
        }
        Ok(())
    }
}

/// A record of the pool, of these parts; that of a string that was removed has none of its own.
pub(super) fn pooled(version: u64, log: u64, record: &[u8]) -> Vec<u8> {
    let head = [version, log].map(u64::to_le_bytes).concat();
    [&head[..], record].concat()
}

/// The string's own record in one of the pool.
pub(crate) fn string_of(mut record: Vec<u8>) -> Vec<u8> {
    record.drain(..HEAD.min(record.len()));
    record
}
