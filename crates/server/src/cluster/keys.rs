//! Keys in the pool, with their log.
//!
//! A key's record there has, before the record that a server alone would have, the version of its
//! last change, and the number of the log that has all of the key's changes, or 0 if several may.
//! Behind the record of a hash, set or sorted set is the root of a map of its elements
//! ([`PagedMap`]): so one write changes a key, whatever it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use timberline_remote::Error as PoolError;
use timberline_remote::records::{Changed, MAX_RECORD, PagedMap, Walk};
use timberline_store::Store;

use super::Node;
use super::log::{About, Logged, check, logged, number};
use crate::keyspace::{Entry, Error, Kind};

/// Bits of a version that count a node's changes; the others are the version of the table of slots,
/// above that of lost pools.
pub(super) const COUNT_BITS: u32 = 40;
/// Bytes before a key's own record in the pool.
pub(super) const HEAD: usize = 16;
/// In the place of a log's number: there may be several.
pub(super) const SEVERAL: u64 = 0;

/// Keys of a node.
pub(crate) struct PoolKeys {
    pub node: Arc<Node>,
    /// The log's number, if there is one.
    log: Option<u64>,
}

/// A change of a key.
pub(crate) enum Change {
    Remove,
    /// Sets its record: a string's, or that of something else whose elements stay.
    Put(Vec<u8>),
    /// Changes elements.
    Map(MapChange),
}

/// A change of elements of a hash, set, sorted set or list, of which some are left.
pub(crate) struct MapChange {
    pub kind: Kind,
    pub expires: Option<i64>,
    pub id: u64,
    /// How many there are then.
    pub count: u64,
    /// What its record has beside that: the place of a list's first element.
    pub rest: Vec<u8>,
    /// The root before.
    pub map: PagedMap,
    /// Values behind letters and names; `None` removes one.
    pub elements: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl PoolKeys {
    /// Keys of a node, with a log that is about the same data, or empty; or without one, then that
    /// is no whole log any more.
    pub async fn open(node: Arc<Node>, store: &Store, logs: bool) -> Result<PoolKeys, Error> {
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
        Ok(PoolKeys { node, log })
    }

    /// A key's record.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let place = self.node.place_of(key);
        let found = self.node.records().get(place, key).await?;
        Ok(found.map(record_of))
    }

    /// The value of an element, of a letter and a name.
    pub async fn element(&self, entry: &Entry, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let map = map_of(entry);
        Ok(self.node.records().get_in(&map, name).await?)
    }

    /// Elements in order, from a letter and a name on and up to another.
    pub fn elements(&self, entry: &Entry, from: &[u8], to: &[u8], backwards: bool) -> Walk<'_> {
        let map = map_of(entry);
        let records = self.node.records();
        records.walk(&map, from, Some(to), backwards)
    }

    /// An id for the elements of a key, which has had none of this.
    pub fn new_id(&self) -> u64 {
        self.node.next_version()
    }

    /// Changes a key: in the pool, then in the log. The caller has the key's lock. Says whether
    /// elements are to be removed from the log.
    pub async fn set(&self, store: &Store, key: &[u8], change: &Change) -> Result<bool, Error> {
        check(key, change)?;
        if let Some(error) = store.failure() {
            return Err(error.into());
        }
        let (record, changed) = self.prepared(key, change).await?;
        let place = self.node.place_of(key);
        let version = self.node.next_version();
        // If it was removed here before, an older one may be elsewhere.
        let mut log = match self.log {
            Some(log) if !store.contains_key(&logged(key)) => log,
            _ => SEVERAL,
        };
        let records = self.node.records();
        let updated = records.update(place, key, |before| {
            if let Some(before) = before {
                let last = number(before, 8);
                log = self.log.filter(|_| last == self.log).unwrap_or(SEVERAL);
            }
            record.map(|record| {
                let expires = Entry::expiry(&record).is_some();
                (pooled(version, log, &record), expires)
            })
        });
        let before = match (updated.await, changed) {
            (Ok(before), changed) => {
                if let Some(changed) = changed {
                    records.accept(changed).await;
                }
                before.map(|it| Entry::new(record_of(it)))
            }
            (Err(error), changed) => {
                // After any other error, the new root may be there.
                if let PoolError::NotOwned(_) | PoolError::PoolFull(_) | PoolError::RecordTooLong(_) =
                    error
                    && let Some(changed) = changed
                {
                    records.give_up(changed).await;
                }
                return Err(error.into());
            }
        };
        if let Some(before) = &before
            && before.kind != Kind::String
            && change.id() != Some(before.id())
        {
            records.free_map(&map_of(before)).await;
        }
        if self.log.is_none() {
            return Ok(false);
        }
        let logged = Logged {
            key,
            change,
            version,
            log,
            before,
        };
        logged.write(store).await
    }

    /// The record that a change makes, and the map that it has.
    async fn prepared(
        &self,
        key: &[u8],
        change: &Change,
    ) -> Result<(Option<Vec<u8>>, Option<Changed>), Error> {
        // The store refuses longer ones, after the pool has taken them.
        let is_long = |bytes: usize| bytes + key.len() + 64 > MAX_RECORD;
        match change {
            Change::Remove => Ok((None, None)),
            Change::Put(record) if is_long(record.len()) => {
                Err(PoolError::RecordTooLong(record.len()).into())
            }
            Change::Put(record) => Ok((Some(record.clone()), None)),
            Change::Map(change) => {
                let values = change.elements.values().flatten();
                let longest = values.map(Vec::len).max().unwrap_or(0);
                if is_long(longest) {
                    return Err(PoolError::RecordTooLong(longest).into());
                }
                let elements = change.elements.iter();
                let elements: Vec<_> = elements.map(|(k, v)| (k.clone(), v.clone())).collect();
                let changed = self.node.records().change(&change.map, &elements).await?;
                let record = map_record(change, &changed.map);
                Ok((Some(record), Some(changed)))
            }
        }
    }
}

impl Change {
    /// The id of the elements that the key has then, if it has any.
    fn id(&self) -> Option<u64> {
        match self {
            Change::Remove => None,
            Change::Put(record) => {
                let entry = Entry::new(record.clone());
                (entry.kind != Kind::String).then(|| entry.id())
            }
            Change::Map(change) => Some(change.id),
        }
    }
}

/// The record of a hash, set or sorted set.
pub(super) fn map_record(change: &MapChange, map: &PagedMap) -> Vec<u8> {
    let (id, count) = (change.id.to_le_bytes(), change.count.to_le_bytes());
    let value = [&id[..], &count, &change.rest, map.bytes()];
    Entry::encode(change.kind, change.expires, &value)
}

/// The root of the elements of a key.
pub(crate) fn map_of(entry: &Entry) -> PagedMap {
    let before = match entry.kind {
        Kind::List => 24,
        _ => 16,
    };
    match entry.value().get(before..) {
        Some(root) if !root.is_empty() => PagedMap::of_bytes(root),
        _ => PagedMap::default(),
    }
}

/// A record of the pool, of these parts; that of a key that was removed has none of its own.
pub(super) fn pooled(version: u64, log: u64, record: &[u8]) -> Vec<u8> {
    let head = [version, log].map(u64::to_le_bytes).concat();
    [&head[..], record].concat()
}

/// The key's own record in one of the pool.
pub(crate) fn record_of(mut record: Vec<u8>) -> Vec<u8> {
    record.drain(..HEAD.min(record.len()));
    record
}
