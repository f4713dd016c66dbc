//! The store: an index in memory over records on disk.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use timberline_io::{Disk, Lock};
use timberline_tree::Art;

use crate::cache::Values;
use crate::first_bytes::FirstBytes;
use crate::location::Location;
use crate::log::{Appended, Log, NewRecord, State};
use crate::record::{Kind, bytes_of};
use crate::threads::Threads;
use crate::window::Window;
use crate::{Batch, Durability, Error, MAX_KEY, Options, Report};

/// Locks of keys. A power of two.
const STRIPES: usize = 256;

/// An ordered map of byte strings on disk. Clones are the same store.
///
/// All operations take `&self`, on any thread. They are futures, which any executor can run;
/// [`blocking`](Self::blocking) has them for threads that wait.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
    /// Its own threads, if it has some. They end with the last clone.
    pub(crate) threads: Option<Arc<Threads>>,
}

pub(crate) struct Inner {
    pub disk: Disk,
    pub folder: std::path::PathBuf,
    /// Draws of this store, in all its segments.
    pub id: u64,
    pub log: Log,
    /// Where each key's record lies: a [`Location`], or [`PENDING`].
    pub index: Art<[u8], u64>,
    /// Whoever changes a key's record in the index and in the log holds its lock, so that both
    /// change in the same order. Nobody waits for anything else meanwhile.
    stripes: Box<[Mutex<()>]>,
    pub values: Values,
    pub window: Window,
    /// Bytes of the index when the cache got the others.
    pub fitted: AtomicU64,
    first_bytes: FirstBytes,
    /// Keeps others out of the folder.
    _lock: Lock,
}

/// In the index, a key whose first record is about to be appended. No record lies there.
pub(crate) const PENDING: u64 = 0;

/// What a store holds and has done since it was opened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stats {
    /// Keys that have a value.
    pub keys: usize,
    /// Segments on the disk, those made in advance too.
    pub segments: usize,
    /// Mean over the segments with records: fraction of their records that still count.
    pub live: f64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Records that cleaning moved.
    pub moved: u64,
    /// Records that were deleted because the store is a cache and was full.
    pub evicted: u64,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Bytes of values that are cached in memory, and of the log's end that is kept there.
    pub cached_bytes: u64,
}

impl Store {
    /// As [`open`](Self::open), on a disk that the caller drives: with an executor of its own, or
    /// on a simulated one. [`maintain`](Self::maintain) has to run beside all other operations, and
    /// [`begin_commit`](Self::begin_commit) is called by the clock if
    /// [`Durability::Interval`] was promised.
    ///
    /// # Errors
    /// As there.
    pub async fn open_on(
        disk: &Disk,
        folder: &Path,
        options: Options,
    ) -> Result<(Store, Report), Error> {
        options.check()?;
        let recovered = crate::recovery::recover(disk, folder, &options).await?;
        let inner = Inner {
            disk: disk.clone(),
            folder: folder.into(),
            id: recovered.store,
            log: recovered.log,
            index: recovered.index,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            values: Values::new(options.cache_bytes.min(options.index_bytes())),
            window: Window::new(),
            fitted: AtomicU64::new(0),
            first_bytes: recovered.first_bytes,
            _lock: recovered.lock,
        };
        inner.fit_cache();
        let store = Store {
            inner: Arc::new(inner),
            threads: None,
        };
        Ok((store, recovered.report))
    }

    /// Whether a folder has a store, which [`open`](Self::open) would make otherwise.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn is_in(disk: &Disk, folder: &Path) -> Result<bool, Error> {
        let files = disk.list(folder).map_err(Error::disk(folder))?;
        Ok(files.iter().any(|file| crate::segment::is_segment(file)))
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &Disk {
        &self.inner.disk
    }

    /// Keys in the store.
    pub fn len(&self) -> usize {
        self.inner.index.len()
    }

    /// Keys that begin with this byte, at a time at which a batch may have changed a part of its
    /// keys. O(1).
    pub fn starting_with(&self, first: u8) -> usize {
        self.inner.first_bytes.get(first)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.inner.find(key).await?.map(|found| found.1))
    }

    /// Whether a key has a value. Reads no record.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.inner.locate(key).is_some()
    }

    /// Sets the value of a key.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let entry = NewRecord {
            kind: Kind::Put,
            key,
            value,
        };
        self.inner.write(&[entry], |_| true).await.map(|_| ())
    }

    /// Removes a key. Says whether it was there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let entry = NewRecord {
            kind: Kind::Delete,
            key,
            value: &[],
        };
        // A delete of what is not there writes nothing.
        self.inner
            .write(&[entry], |inner| inner.locate(key).is_some())
            .await
    }

    /// Sets or removes a key's value if it is the expected one. `None` is no value. Otherwise
    /// returns the value that it has.
    pub async fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), Option<Vec<u8>>>, Error> {
        let (kind, value) = match new {
            Some(value) => (Kind::Put, value),
            None => (Kind::Delete, &[][..]),
        };
        loop {
            let found = self.inner.find(key).await?;
            if found.as_ref().map(|it| &it.1[..]) != expected {
                return Ok(Err(found.map(|it| it.1)));
            }
            let location = found.map(|it| it.0);
            if location.is_none() && new.is_none() {
                return Ok(Ok(()));
            }
            let entry = NewRecord { kind, key, value };
            // The same location is the same record: the log does not use a place twice.
            if self
                .inner
                .write(&[entry], |inner| inner.locate(key) == location)
                .await?
            {
                return Ok(Ok(()));
            }
        }
    }

    /// Does all writes of a batch at once.
    pub async fn write(&self, batch: &Batch) -> Result<(), Error> {
        let entries: Vec<NewRecord> = batch
            .0
            .iter()
            .map(|(key, value)| match value {
                Some(value) => NewRecord {
                    kind: Kind::Put,
                    key,
                    value,
                },
                None => NewRecord {
                    kind: Kind::Delete,
                    key,
                    value: &[],
                },
            })
            .collect();
        if entries.is_empty() {
            return Ok(());
        }
        self.inner.write(&entries, |_| true).await.map(|_| ())
    }

    /// What the store holds and has done.
    pub fn stats(&self) -> Stats {
        let segments = self.inner.log.segments();
        let live: f64 = segments.iter().map(|it| it.utilization()).sum();
        let state = self.inner.log.lock();
        Stats {
            keys: self.len(),
            segments: segments.len() + state.spares.len(),
            live: live / segments.len() as f64,
            checkpoints: state.checkpoints,
            cleaned: state.cleaned,
            moved: state.moved,
            evicted: state.evicted,
            index_bytes: self.inner.index_bytes(),
            cached_bytes: self.inner.values.bytes() + self.inner.window.bytes(),
        }
    }

    /// Why the store takes no more writes, if it doesn't: [`Error::ReadOnly`].
    pub fn failure(&self) -> Option<Error> {
        self.inner.log.lock().failed.clone().map(Error::ReadOnly)
    }

    /// Waits until all writes that were acknowledged are on the disk.
    pub async fn sync(&self) -> Result<(), Error> {
        let sequence = self.inner.log.lock().sequence;
        self.inner.commit(sequence).await
    }
}

impl Inner {
    /// Where the record of a key lies.
    pub fn locate(&self, key: &[u8]) -> Option<Location> {
        let word = self.index.get(key).filter(|&word| word != PENDING)?;
        Some(Location::from_word(word))
    }

    /// What the index has for some keys. Their paths through it are read at the same time.
    pub fn words(&self, keys: &[&[u8]]) -> SmallVec<[Option<u64>; 16]> {
        let mut words = SmallVec::from_elem(None, keys.len());
        self.index.get_many(keys, &mut words);
        words
    }

    /// The lock of a key.
    pub fn stripe(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.lock_stripe(stripe_of(key))
    }

    fn lock_stripe(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.stripes[stripe]
            .lock()
            .unwrap_or_else(|it| it.into_inner())
    }

    /// Appends records as a batch and changes the index, if `allowed` says so when no other write
    /// of these keys can come between; waits until they are durable as the options say. Returns
    /// whether it was allowed.
    async fn write(
        &self,
        entries: &[NewRecord<'_>],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<bool, Error> {
        self.check(entries)?;
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
        loop {
            match self.try_append(entries, &allowed)? {
                Some(Appended::At(sequence)) => return Ok(Some(sequence)),
                Some(Appended::NotNow(changes)) => self.log.wait_for_change(changes).await,
                None => return Ok(None),
            }
        }
    }

    fn check(&self, entries: &[NewRecord]) -> Result<(), Error> {
        let most = self.log.options().largest();
        for entry in entries {
            if entry.key.len() > MAX_KEY {
                return Err(Error::KeyTooLong(entry.key.len()));
            }
            let others = bytes_of(entry.key.len(), 0);
            if entry.bytes() > most {
                return Err(Error::ValueTooLong(
                    entry.value.len(),
                    most.saturating_sub(others),
                ));
            }
        }
        let bytes = entries.iter().map(NewRecord::bytes).sum();
        if bytes > most {
            Err(Error::BatchTooLong(bytes, most))
        } else {
            Ok(())
        }
    }

    /// The same, without waiting at all.
    fn try_append(
        &self,
        entries: &[NewRecord],
        allowed: impl Fn(&Inner) -> bool,
    ) -> Result<Option<Appended<u64>>, Error> {
        // In ascending order, so that no two batches wait for one another.
        let mut stripes: SmallVec<[usize; 1]> =
            entries.iter().map(|it| stripe_of(it.key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let locks = stripes.into_iter().map(|it| self.lock_stripe(it));
        let _locks: SmallVec<[_; 1]> = locks.collect();
        if !allowed(self) {
            return Ok(None);
        }
        let new = self.reserve(entries)?;
        let appended = self.log.append(entries, |entry, location| {
            let old = match entry.kind {
                Kind::Put => self
                    .index
                    .insert(entry.key, location.to_word())
                    .ok()
                    .flatten(),
                _ => self.index.remove(entry.key),
            };
            if entry.kind == Kind::Put {
                self.revive(location);
                if old.is_none_or(|word| word == PENDING) {
                    self.first_bytes.add(entry.key);
                }
            } else if old.is_some() {
                self.first_bytes.remove(entry.key);
            }
            if let Some(old) = old.filter(|&word| word != PENDING) {
                let old = Location::from_word(old);
                self.kill(old);
                self.values.remove(old);
            }
        });
        if !matches!(appended, Ok(Appended::At(_))) {
            for key in new {
                self.index.remove(key);
            }
        }
        appended.map(Some)
    }

    /// Makes places in the index for keys that are not there, as that can fail: afterwards nothing
    /// can but the log. Returns these keys.
    fn reserve<'a>(&self, entries: &[NewRecord<'a>]) -> Result<Vec<&'a [u8]>, Error> {
        let mut new = Vec::new();
        let puts = entries.iter().filter(|it| it.kind == Kind::Put);
        let keys: SmallVec<[&[u8]; 16]> = puts.map(|it| it.key).collect();
        for (key, word) in keys.iter().zip(self.words(&keys)) {
            if word.is_some() {
                continue;
            }
            let reserved = match self.is_index_full() {
                true => None,
                false => self.index.insert(key, PENDING).ok(),
            };
            match reserved {
                Some(None) => new.push(*key),
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
        Ok(new)
    }

    /// The index knows this record now.
    pub fn revive(&self, location: Location) {
        if let Some(segment) = self.log.segment(location.segment()) {
            segment.revive(location);
        }
    }

    /// The index knows this record no more.
    pub fn kill(&self, location: Location) {
        if let Some(segment) = self.log.segment(location.segment()) {
            segment.kill(location);
        }
    }

    /// Waits until all records up to this number are on the disk.
    async fn commit(&self, sequence: u64) -> Result<(), Error> {
        let committed = |state: &mut State| {
            if state.durable >= sequence {
                return Some(Ok(()));
            }
            if let Some(error) = &state.failed {
                return Some(Err(Error::ReadOnly(Arc::clone(error))));
            }
            if !state.commit_wanted {
                state.commit_wanted = true;
                state.changed();
            }
            None
        };
        self.log.wait(committed).await
    }

    /// Waits until all that was appended so far is on the disk, what cleaning moved too.
    pub async fn sync_all(&self) -> Result<(), Error> {
        let wanted = self.log.lock().want_sync();
        self.synced(wanted).await
    }

    /// Waits until the sync with this number is done.
    pub async fn synced(&self, wanted: u64) -> Result<(), Error> {
        let synced = self.log.wait(|state| {
            if state.synced >= wanted {
                return Some(Ok(()));
            }
            let failed = state.failed.clone();
            failed.map(|error| Err(Error::ReadOnly(error)))
        });
        synced.await
    }
}

fn stripe_of(key: &[u8]) -> usize {
    crc32c::crc32c(key) as usize % STRIPES
}
