//! Changes of keys and elements, in the store or in the pool.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use timberline_store::Batch;

use super::{Entry, Error, Keyspace, Kind, ids_key, long, store_key};
use crate::cluster::{Change, MapChange, PoolKeys, map_of};

/// Changes that take effect together, or not at all; in a cluster, one key after the other.
pub struct Changes<'a> {
    pub(super) keyspace: &'a Keyspace,
    pub(super) batch: Batch,
    /// In a cluster: what becomes of keys, in the order in which that was asked for first.
    keys: Vec<(Box<[u8]>, Change)>,
    /// In a cluster: elements of the key that comes next.
    elements: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    touched: SmallVec<[Box<[u8]>; 2]>,
    /// Lists that may have got elements, while somebody waits for such.
    pub(super) filled: SmallVec<[Box<[u8]>; 1]>,
    /// Ids of the keys that are removed.
    pub(super) removed: SmallVec<[u64; 2]>,
    pub(super) orphans: bool,
}

/// A hash, set, sorted set or list whose elements are changed.
pub(super) struct Changed<'a> {
    pub kind: Kind,
    pub id: u64,
    pub expires: Option<i64>,
    /// What it was, unless it is new.
    pub entry: Option<&'a Entry>,
    /// How many elements it has then.
    pub count: u64,
    /// What its record has behind that.
    pub rest: Vec<u8>,
}

impl Keyspace {
    /// Changes that take effect together.
    pub fn changes(&self) -> Changes<'_> {
        Changes {
            keyspace: self,
            batch: Batch::new(),
            keys: Vec::new(),
            elements: BTreeMap::new(),
            touched: SmallVec::new(),
            filled: SmallVec::new(),
            removed: SmallVec::new(),
            orphans: false,
        }
    }
}

impl Changes<'_> {
    /// Sets a string's record.
    pub fn put(&mut self, key: &[u8], record: &[u8]) {
        self.put_record(b's', key, record);
    }

    /// Sets a string, in place of anything that the key was.
    pub async fn overwrite(
        &mut self,
        key: &[u8],
        value: &[u8],
        expires: Option<i64>,
    ) -> Result<(), Error> {
        long::check(value.len() as u64)?;
        if self.keyspace.aggregates() > 0
            && let Some(old) = self.keyspace.store.get(&store_key(b'a', &[key])).await?
        {
            self.remove_entry(key, &Entry::new(old));
        }
        if expires.is_some() || self.keyspace.pool.is_some() {
            self.put(key, &Entry::encode(Kind::String, expires, &[value]));
        } else {
            self.batch
                .put_parts(&[b"s", key], &[&[Kind::String as u8], value]);
            self.touch(key);
        }
        Ok(())
    }

    /// Removes a key that has this entry.
    pub fn remove_entry(&mut self, key: &[u8], entry: &Entry) {
        if entry.kind == Kind::String || self.keyspace.pool.is_some() {
            self.delete_record(b's', key);
        } else if entry.id() == 0 {
            self.batch.delete(&store_key(b'a', &[key]));
        } else if !self.removed.contains(&entry.id()) {
            self.batch.delete(&store_key(b'a', &[key]));
            self.remove_elements(entry.id());
        }
        self.touch(key);
    }

    /// Gives a key that has this entry another time of expiry, or another key this entry. The
    /// elements of an aggregate stay where they are.
    pub fn put_entry(&mut self, key: &[u8], entry: &Entry, expires: Option<i64>) {
        let record = Entry::encode(entry.kind, expires, &[entry.value()]);
        self.put_record(entry.kind.letter(), key, &record);
        if entry.kind == Kind::List {
            self.fill(key);
        }
    }

    /// Sets a key's record, and a timer if it expires.
    pub(super) fn put_record(&mut self, letter: u8, key: &[u8], record: &[u8]) {
        if self.keyspace.pool.is_some() {
            self.change(key, Change::Put(record.into()));
            return self.touch(key);
        }
        self.batch.put(&store_key(letter, &[key]), record);
        if let Some(timer) = self.keyspace.new_timer(key, record) {
            self.batch.put(&timer, &[]);
        }
        self.touch(key);
    }

    /// Removes a key's record only: its elements now are another's.
    pub fn detach_entry(&mut self, key: &[u8], entry: &Entry) {
        self.delete_record(entry.kind.letter(), key);
        self.touch(key);
    }

    /// Removes a key's record.
    pub(super) fn delete_record(&mut self, letter: u8, key: &[u8]) {
        match self.keyspace.pool {
            Some(_) => self.change(key, Change::Remove),
            None => self.batch.delete(&store_key(letter, &[key])),
        }
    }

    /// An id for elements that no key has had, as far as they lie together.
    pub(super) fn new_id(&mut self) -> u64 {
        let keyspace = self.keyspace;
        if let Some(keys) = &keyspace.pool {
            return keys.new_id();
        }
        if let Some(others) = keyspace.unwritten {
            self.batch.put(&ids_key(), &others.to_le_bytes());
        }
        keyspace.next_id.fetch_add(1, Relaxed)
    }

    /// Sets an element behind a letter, or removes it, for [`put_changed`](Self::put_changed).
    pub(super) fn element(&mut self, letter: u8, id: u64, name: &[&[u8]], value: Option<&[u8]>) {
        if self.keyspace.pool.is_some() {
            let name = [&[&[letter][..]], name].concat().concat();
            self.elements.insert(name, value.map(Into::into));
            return;
        }
        let mut key = store_key(letter, &[&id.to_be_bytes()]);
        name.iter().for_each(|it| key.extend_from_slice(it));
        match value {
            Some(value) => self.batch.put(&key, value),
            None => self.batch.delete(&key),
        }
    }

    /// Sets the record of a key whose elements were changed; without any, removes it.
    pub(super) fn put_changed(&mut self, key: &[u8], changed: &Changed) {
        let Changed { kind, expires, .. } = *changed;
        if self.keyspace.pool.is_some() {
            let elements = std::mem::take(&mut self.elements);
            let change = match (changed.count, elements.is_empty()) {
                (_, true) => return,
                (0, false) => Change::Remove,
                (count, false) => Change::Map(MapChange {
                    kind,
                    expires,
                    id: changed.id,
                    count,
                    rest: changed.rest.clone(),
                    map: changed.entry.map(map_of).unwrap_or_default(),
                    elements,
                }),
            };
            return self.change(key, change);
        }
        if changed.count == 0 {
            return self.delete_record(b'a', key);
        }
        let (id, count) = (changed.id.to_le_bytes(), changed.count.to_le_bytes());
        let value = [&id[..], &count, &changed.rest].concat();
        if changed.entry.is_none_or(|it| it.value() != value) {
            self.put_record(b'a', key, &Entry::encode(kind, expires, &[&value]));
        }
    }

    /// What becomes of a key in the pool. Only the last of its changes is done.
    fn change(&mut self, key: &[u8], change: Change) {
        match self.keys.iter_mut().find(|it| *it.0 == *key) {
            Some((_, last)) => *last = change,
            None => self.keys.push((key.into(), change)),
        }
    }

    pub(super) fn touch(&mut self, key: &[u8]) {
        if self.keyspace.watches.any() {
            self.touched.push(key.into());
        }
    }

    /// Does them.
    pub async fn commit(mut self) -> Result<(), Error> {
        let keyspace = self.keyspace;
        match &keyspace.pool {
            None => keyspace.store.write(&self.batch).await?,
            // Its future is large, and part of those of all commands that change something.
            Some(keys) => Box::pin(self.commit_in(keys)).await?,
        }
        for key in &self.touched {
            keyspace.watches.touch(key);
        }
        for key in &self.filled {
            keyspace.waiting.wake(key);
        }
        if self.orphans {
            keyspace.orphans.notify_one();
        }
        Ok(())
    }

    /// Does the changes in the pool, one key after the other.
    async fn commit_in(&mut self, keys: &PoolKeys) -> Result<(), Error> {
        for (key, change) in &self.keys {
            self.orphans |= keys.set(&self.keyspace.store, key, change).await?;
        }
        Ok(())
    }
}
