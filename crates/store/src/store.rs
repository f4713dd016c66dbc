//! The store: an index in memory over records on disk.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard};

use smallvec::SmallVec;
use timberline_io::{Disk, Lock, Mode};
use timberline_tree::Held;

use crate::cache::Cache;
use crate::deadlines::Deadlines;
use crate::fetched::Fetches;
use crate::first_bytes::FirstBytes;
use crate::index::{Found, Index};
use crate::location::Location;
use crate::log::{Log, NewRecord};
use crate::most_keys::MostKeys;
use crate::pieces::Table;
use crate::reads::Reads;
use crate::record::NEVER;
use crate::snapshot::Moments;
use crate::threads::Threads;
use crate::window::Window;
use crate::{Batch, Dropped, Error, Options, Report};

/// Locks of keys. A power of two. So many that two batches seldom share one: of pairs with ten keys
/// each, one in forty does; of pairs with fifty, as many scores of a sorted set have, two in five.
const STRIPES: usize = 4096;

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
    pub index: Box<dyn Index>,
    /// When keys expire. Changes with the index.
    pub deadlines: Deadlines,
    /// Values in pieces. Changes with the index.
    pub large: Table,
    /// Those of snapshots that are open.
    pub moments: Moments,
    /// Whoever changes a key's record in the index and in the log holds its lock, so that both
    /// change in the same order. Nobody waits for anything else meanwhile.
    stripes: Box<[Mutex<()>]>,
    pub cache: Cache,
    pub window: Window,
    /// The most bytes of memory for all that the store keeps.
    pub memory_bytes: AtomicU64,
    /// Bytes of the index when the cache got the others.
    pub fitted: AtomicU64,
    /// Whether the index had all the memory that it may when a key came last.
    pub was_index_full: AtomicBool,
    /// In a cache: how many keys there may be.
    pub most_keys: MostKeys,
    pub first_bytes: FirstBytes,
    /// What opening found damaged.
    pub dropped: Vec<Dropped>,
    pub reads: Reads,
    pub fetches: Fetches,
    /// Keeps others out of the folder.
    _lock: Lock,
}

/// In the index, a key whose first record is about to be appended. No record lies there.
pub(crate) const PENDING: u64 = 0;

/// Where the record of a key lies that has this word in the index.
pub(crate) fn location_of(word: Option<u64>) -> Option<Location> {
    word.filter(|&word| word != PENDING)
        .map(Location::from_word)
}

/// What a store holds and has done since it was opened.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stats {
    /// Keys in memory: those that have a value, and those that have expired since maintenance
    /// looked for them.
    pub keys: usize,
    /// Segments on the disk, those made in advance too.
    pub segments: usize,
    /// Mean over the segments with records: fraction of their records that still count.
    pub live: f64,
    /// New records that were ever appended: the number of the last one.
    pub appended: u64,
    /// Of these, the first so many are on the disk, for sure.
    pub durable: u64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Segments that were cleaned.
    pub cleaned: u64,
    /// Records that cleaning moved.
    pub moved: u64,
    /// Records that were in memory when they were read. Where more than 63 threads read, a few may
    /// be missing.
    pub found_in_memory: u64,
    /// Records that were read from the disk, counted likewise.
    pub read_from_disk: u64,
    /// Records that were deleted because the store is a cache and was full.
    pub evicted: u64,
    /// Records that had expired when maintenance removed their keys from memory.
    pub expired: u64,
    /// Bytes of memory that the index takes, with the times at which keys expire.
    pub index_bytes: u64,
    /// Bytes of values that are cached in memory, and of the log's end that is kept there.
    pub cached_bytes: u64,
    /// Snapshots that are open.
    pub snapshots: usize,
    /// Bytes of memory that they take.
    pub snapshot_bytes: u64,
    /// Segments that were cleaned, and whose space on the disk they hold.
    pub held: usize,
}

impl Store {
    /// As [`open`](Self::open), on a disk that the caller drives: with an executor of its own, or
    /// on a simulated one. [`maintain`](Self::maintain) has to run beside all other operations, and
    /// [`begin_commit`](Self::begin_commit) is called by the clock if
    /// [`Durability::Interval`](crate::Durability::Interval) was promised, as is
    /// [`begin_expiry`](Self::begin_expiry) if keys expire.
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
            deadlines: recovered.deadlines,
            large: recovered.large,
            moments: Moments::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            cache: Cache::new(
                &options.caching,
                options
                    .cache_bytes
                    .min(Options::index_bytes(options.memory_bytes)),
            )?,
            window: Window::new(),
            memory_bytes: AtomicU64::new(options.memory_bytes),
            fitted: AtomicU64::new(0),
            was_index_full: AtomicBool::new(false),
            most_keys: MostKeys::default(),
            first_bytes: recovered.first_bytes,
            dropped: recovered.report.damaged.clone(),
            reads: Reads::default(),
            fetches: Fetches::default(),
            _lock: recovered.lock,
        };
        inner.fit_cache();
        inner.look_at_index();
        let store = Store {
            inner: Arc::new(inner),
            threads: None,
        };
        Ok((store, recovered.report))
    }

    /// The default options for the store in a folder, with segments as long as the ones that it
    /// has: with longer ones, opening it would take more space, and cleaning would think little of
    /// those that are there. `None` if the folder has no store.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn options_of(disk: &Disk, folder: &Path) -> Result<Option<Options>, Error> {
        let mut longest = None;
        for path in disk.list(folder).map_err(Error::disk(folder))? {
            if crate::segment::is_segment(&path) {
                let file = disk.open_file(&path, Mode::read());
                match file.and_then(|it| it.len()) {
                    Ok(bytes) => longest = longest.max(Some(bytes)),
                    // Whoever has it open has cleaned it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(Error::disk(&path)(error)),
                }
            }
        }
        Ok(longest.map(Options::with_segments))
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &Disk {
        &self.inner.disk
    }

    /// Whether the index may be in slow memory, so that nothing is done without waiting.
    pub fn is_index_slow(&self) -> bool {
        self.inner.index.is_tiered()
    }

    /// Keys in the store, those included that expired and that maintenance did not remove yet.
    pub fn len(&self) -> usize {
        self.inner.index.len()
    }

    /// Keys that begin with this byte, counted as by [`len`](Self::len), at a time at which a batch
    /// may have changed a part of its keys. O(1).
    pub fn starting_with(&self, first: u8) -> usize {
        self.inner.first_bytes.get(first)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. One in pieces gets a buffer of its size; [`reader`](Self::reader) needs
    /// none.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        while let Some(found) = self.inner.find(key).await? {
            if let Some(value) = self.whole(found, None).await? {
                return Ok(Some(value));
            }
            // It was replaced meanwhile.
        }
        Ok(None)
    }

    /// Whether a key has a value. Reads no record.
    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.inner.present(key).is_some()
    }

    /// Sets the value of a key, which does not expire then. A value has at most
    /// [`MAX_VALUE`](crate::MAX_VALUE) bytes. One of more than 1 MiB is written in pieces;
    /// [`writer`](Self::writer) takes it so.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let entry = NewRecord::put(key, value, NEVER);
        self.inner.write(&[entry], |_| true).await.map(|_| ())
    }

    /// Removes a key. Says whether it was there.
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        // A delete of what is not there writes nothing.
        self.inner
            .write(&[NewRecord::delete(key)], |it| it.current(key).is_some())
            .await
    }

    /// Sets or removes a key's value if it is the expected one. `None` is no value. A value that is
    /// set does not expire. Otherwise returns the value that the key has.
    pub async fn compare_and_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<(), Option<Vec<u8>>>, Error> {
        let entry = match new {
            Some(value) => NewRecord::put(key, value, NEVER),
            None => NewRecord::delete(key),
        };
        loop {
            let found = self.inner.find(key).await?;
            let location = found.as_ref().map(|it| it.location);
            let value = match found {
                Some(found) => match self.whole(found, None).await? {
                    Some(value) => Some(value),
                    // It was replaced meanwhile.
                    None => continue,
                },
                None => None,
            };
            if value.as_deref() != expected {
                return Ok(Err(value));
            }
            if location.is_none() && new.is_none() {
                return Ok(Ok(()));
            }
            let is_same = |inner: &Inner| inner.is_current(key, location);
            if self.inner.write(&[entry], is_same).await? {
                return Ok(Ok(()));
            }
        }
    }

    /// Does all writes of a batch at once.
    pub async fn write(&self, batch: &Batch) -> Result<(), Error> {
        let entries = self.entries(batch);
        if entries.is_empty() {
            return Ok(());
        }
        self.inner.write(&entries, |_| true).await.map(|_| ())
    }

    fn entries<'b>(&self, batch: &'b Batch) -> SmallVec<[NewRecord<'b>; 4]> {
        let entries = batch.iter().map(|(key, value)| match value {
            Some((value, expiry)) => NewRecord::put(key, value, self.inner.time_of(expiry)),
            None => NewRecord::delete(key),
        });
        entries.collect()
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
            appended: state.sequence,
            durable: state.durable,
            checkpoints: state.checkpoints,
            cleaned: state.cleaned,
            moved: state.moved,
            found_in_memory: self.inner.reads.found_in_memory(),
            read_from_disk: self.inner.reads.read_from_disk(),
            evicted: state.evicted,
            expired: state.expired,
            index_bytes: self.inner.index_bytes(),
            cached_bytes: self.inner.cache.bytes() + self.inner.window.bytes(),
            snapshots: self.inner.moments.len(),
            snapshot_bytes: self.inner.moments.bytes(),
            held: self.inner.moments.held(),
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
    /// Where the record of a key lies, which may have expired.
    pub fn locate(&self, key: &[u8]) -> Option<Location> {
        location_of(self.index.get(key))
    }

    /// The same. Where the index is in slow memory, other operations go on meanwhile.
    pub async fn locate_async(&self, key: &[u8]) -> Option<Location> {
        if !self.index.is_tiered() {
            return self.locate(key);
        }
        location_of(self.index.get_async(key).await)
    }

    /// Has a key's path through a slow index read while other operations go on, for those who will
    /// look at it with locks held.
    pub async fn approach(&self, key: &[u8]) {
        if self.index.is_tiered() {
            self.index.get_async(key).await;
        }
    }

    /// What the index has for some keys. Their paths through it are read at the same time.
    pub fn words(&self, keys: &[&[u8]]) -> SmallVec<[Option<u64>; 16]> {
        let mut words = SmallVec::from_elem(None, keys.len());
        self.index.get_many(keys, &mut words);
        words
    }

    /// The same, with their places in it.
    pub fn find_many<'h>(
        &'h self,
        held: &'h Held<'_>,
        keys: &[&[u8]],
    ) -> SmallVec<[Found<'h>; 16]> {
        let mut found = SmallVec::from_elem(None, keys.len());
        self.index.find_many(held, keys, &mut found);
        found
    }

    /// The lock of a key.
    pub fn stripe(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.lock_stripe(stripe_of(key))
    }

    pub fn lock_stripe(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.stripes[stripe]
            .lock()
            .unwrap_or_else(|it| it.into_inner())
    }

    /// Waits until the index knows what has been appended so far: it follows a moment later, and
    /// until then the locks of the keys are held.
    pub fn wait_for_index(&self) {
        (0..STRIPES).for_each(|it| drop(self.lock_stripe(it)));
    }
}

pub(crate) fn stripe_of(key: &[u8]) -> usize {
    crate::spread(key) as usize % STRIPES
}
