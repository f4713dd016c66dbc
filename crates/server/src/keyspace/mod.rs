//! The seam between commands and the store: typed keys that expire, on records of bytes.
//!
//! A key of a client is one record of the store, behind a letter that says what it is:
//!
//! ```text
//! s KEY               a string: header, bytes
//! a KEY               a hash, set, sorted set or list: header, id u64, elements u64, …; with the
//!                     id 0, its elements themselves
//! f ID FIELD          a field of a hash: its value; a member of a set: nothing
//! m ID MEMBER         a member of a sorted set: its score
//! z ID SCORE MEMBER   the same in order of scores: nothing
//! l ID PLACE          an element of a list
//! d ID                all elements of this id are to be removed
//! e TIME KEY          a key expires then, unless it says otherwise: nothing
//! i                   the first id that no key has had
//! ```
//!
//! A header is a byte for the type, and the time of expiry (ms since 1970, u64) if its high bit is
//! set. Ids are big-endian, other numbers little-endian. A key that is removed, overwritten or
//! expired loses its own record at once; its elements are removed later, by their id.
//!
//! In a cluster, keys are in the pool ([`PoolKeys`]): a record for each, and behind that of a hash,
//! set or sorted set a map of its elements, under the same letters. What is a batch of the store
//! here is one change of a key there. `elements.rs` and `changes.rs` know both; what they are used
//! by knows neither.
//!
//! Whoever reads and then writes keys holds their locks ([`KeyLocks`]), so commands are
//! atomic. An expired key is removed by the next command that looks at it, or by its timer.

mod aggregate;
mod changes;
mod elements;
mod entry;
mod error;
mod expiry;
mod list;
mod locks;
mod long;
mod member;
mod moving;
mod now;
mod orphans;
mod packed;
mod prepare;
mod together;
mod waiting;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;
use timberline_store::{Batch, Error as StoreError, Store};
use tokio::sync::{Mutex, Notify};

pub use aggregate::{score_of, sortable};
pub use elements::Elements;
pub(crate) use elements::{LETTERS, element_of_log, element_of_pool, orphans_of};
pub use entry::{Entry, Kind};
pub use error::Error;
pub use list::{List, Side};
pub use locks::{KeyLock, KeyLocks, Locks};
pub use long::{LONG, MAX_STRING, Text};
pub use member::Scored;
pub use prepare::{Hint, Hints, Known, Place};
pub use together::Fetched;
pub use waiting::{Wait, Waiting};
pub use watch::{Watched, Watches};

use crate::cluster::{Node, PoolKeys};
use crate::memory::Memory;

/// Ids that are reserved by each start of a server.
const IDS: u64 = 1 << 40;
/// Deletes in one batch when many keys are removed.
const AT_ONCE: usize = 256;

/// A key of the store.
pub type StoreKey = SmallVec<[u8; 64]>;

/// Typed keys that expire, in a store.
pub struct Keyspace {
    store: Store,
    /// Of which long values take some.
    memory: Arc<Memory>,
    /// In a cluster: keys and their elements are in the pool. The store is their log.
    pool: Option<PoolKeys>,
    pub locks: KeyLocks,
    /// Who wants to know of changes.
    pub watches: Watches,
    /// Who waits for elements of lists.
    pub waiting: Waiting,
    next_id: AtomicU64,
    /// From where on ids are the next start's, if the disk was too full to write that at this one:
    /// then whoever takes one does.
    unwritten: Option<u64>,
    /// Held while elements are removed whose keys nobody has locked.
    removing: Mutex<()>,
    /// Elements wait for their removal.
    orphans: Notify,
    /// Keys that were found expired.
    pub expired: AtomicU64,
}

/// A key of the store, behind its letter.
fn store_key(letter: u8, parts: &[&[u8]]) -> StoreKey {
    let mut key = StoreKey::new();
    key.push(letter);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

/// The key in the store of the id from which on none was used when it was written.
fn ids_key() -> StoreKey {
    store_key(b'i', &[])
}

/// The key in the store of a client's string.
pub fn string_key(key: &[u8]) -> StoreKey {
    store_key(b's', &[key])
}

/// The client's key of a string, of which this is the key in the store; others as they are there.
pub(crate) fn key_of(key: &[u8]) -> &[u8] {
    key.strip_prefix(b"s").unwrap_or(key)
}

impl Keyspace {
    /// The keys in a store.
    pub async fn open(
        store: Store,
        pool: Option<PoolKeys>,
        memory: Arc<Memory>,
    ) -> Result<Keyspace, Error> {
        let next = match store.get(&ids_key()).await {
            // Elements say as much.
            Err(StoreError::Corrupt(..)) => None,
            found => found?.and_then(|it| it.try_into().ok()),
        };
        let next = next
            .map_or(1, u64::from_le_bytes)
            .max(elements::last_id(&store) + 1);
        let others = next + IDS;
        let unwritten = match store.put(&ids_key(), &others.to_le_bytes()).await {
            Ok(()) => None,
            Err(StoreError::Full) => Some(others),
            Err(error) => return Err(error.into()),
        };
        Ok(Keyspace {
            locks: KeyLocks::default(),
            watches: Watches::default(),
            waiting: Waiting::default(),
            next_id: AtomicU64::new(next),
            unwritten,
            removing: Mutex::default(),
            orphans: Notify::new(),
            expired: AtomicU64::new(0),
            pool,
            memory,
            store,
        })
    }

    /// This node of a cluster, if it is one.
    pub fn node(&self) -> Option<&Node> {
        self.pool.as_ref().map(|it| &*it.node)
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Keys, those included that expired and that nobody has looked at since.
    pub fn len(&self) -> usize {
        self.store.starting_with(b's') + self.aggregates()
    }

    /// Keys that are hashes, sets, sorted sets or lists.
    pub fn aggregates(&self) -> usize {
        self.store.starting_with(b'a')
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A string; an error if the key is of another type.
    pub async fn string(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Failed> {
        match self.whole(key, now).await? {
            Some(entry) if entry.kind != Kind::String => Err(Failed::WrongType),
            found => Ok(found),
        }
    }

    /// A key of any type. Of a long string, it has no value.
    pub async fn find(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        match self.record(b's', key, now, false).await? {
            Some(entry) => Ok(Some(entry)),
            None => self.aggregate_record(key, now).await,
        }
    }

    /// A key of any type, with the whole value of a string.
    pub async fn whole(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        match self.record(b's', key, now, true).await? {
            Some(entry) => Ok(Some(entry)),
            None => self.aggregate_record(key, now).await,
        }
    }

    async fn aggregate_record(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        if self.aggregates() == 0 {
            return Ok(None);
        }
        self.record(b'a', key, now, true).await
    }

    async fn record(
        &self,
        letter: u8,
        key: &[u8],
        now: i64,
        whole: bool,
    ) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.entry(letter, key, whole).await? else {
            return Ok(None);
        };
        if entry.expires.is_some_and(|at| at <= now) {
            // Seldom, and large: not part of the future of all who look for a key.
            Box::pin(self.remove_expired(key, &entry)).await?;
            return Ok(None);
        }
        Ok(Some(entry))
    }

    async fn remove_expired(&self, key: &[u8], entry: &Entry) -> Result<(), Error> {
        let mut changes = self.changes();
        changes.remove_entry(key, entry);
        changes.commit().await?;
        self.expired.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A key's record behind a letter, which may have expired. In the pool, records of all types
    /// are behind that of strings.
    async fn entry(&self, letter: u8, key: &[u8], whole: bool) -> Result<Option<Entry>, Error> {
        match &self.pool {
            None => self.stored(&store_key(letter, &[key]), whole).await,
            // Its future is large, and part of those of all that look for a key.
            Some(keys) if letter == b's' => Ok(Box::pin(keys.get(key)).await?.map(Entry::new)),
            Some(_) => Ok(None),
        }
    }

    /// Sets a string, in place of anything that the key was.
    pub async fn set(&self, key: &[u8], value: &[u8], expires: Option<i64>) -> Result<(), Error> {
        if value.len() > LONG && self.may_be_long(key) {
            return self.splice(key, None, 0, value, expires).await;
        }
        if self.aggregates() > 0 || expires.is_some() || self.pool.is_some() {
            let mut changes = self.changes();
            changes.overwrite(key, value, expires).await?;
            return changes.commit().await;
        }
        let record = Entry::encode(Kind::String, expires, &[value]);
        self.store.put(&store_key(b's', &[key]), &record).await?;
        self.watches.touch(key);
        Ok(())
    }

    /// A key's record behind this letter, unless it expired; removes nothing, so needs no lock.
    pub async fn look(&self, key: &[u8], letter: u8, now: i64) -> Result<Option<Entry>, Error> {
        let entry = self.entry(letter, key, false).await?;
        Ok(entry.filter(|it| it.expires.is_none_or(|at| at > now)))
    }

    /// A key behind its letter, about at random: the one that follows a random place between the
    /// first and the last.
    pub fn random_key(&self) -> Option<Vec<u8>> {
        let strings = || self.store.keys(&b"s"[..]..&b"t"[..]);
        let aggregates = self.aggregates();
        let all = self.len();
        if aggregates > 0 && fastrand::usize(..all.max(aggregates)) < aggregates {
            return random_of(|from| self.store.keys(from..&b"b"[..]), b"a");
        }
        strings().next()?;
        random_of(|from| self.store.keys(from..&b"t"[..]), b"s")
    }

    /// Removes a key. Says whether it was there. A string whose record or value is damaged is
    /// removed, too.
    pub async fn remove(&self, key: &[u8], now: i64) -> Result<bool, Error> {
        let found = self.find(key, now).await;
        let mut changes = self.changes();
        match found {
            Ok(None) => return Ok(false),
            Ok(Some(entry)) => changes.remove_entry(key, &entry),
            Err(error) if error.is_damage() && self.has_string(key) => {
                changes.delete_record(b's', key);
                changes.touch(key);
            }
            Err(error) => return Err(error),
        }
        changes.commit().await?;
        Ok(true)
    }

    /// Whether the store has the record of a string, which may have expired.
    fn has_string(&self, key: &[u8]) -> bool {
        self.pool.is_none() && self.store.contains_key(&store_key(b's', &[key]))
    }

    /// Clients' keys in order, from behind a cursor on: strings first. A cursor is a key behind its
    /// letter, and empty at the start.
    pub fn keys(&self, cursor: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
        let from = |start: &'static [u8], end: &'static [u8]| {
            let mut begin = cursor.max(start).to_vec();
            if begin == cursor && !cursor.is_empty() && cursor >= start {
                begin.push(0);
            }
            let is_over = begin.as_slice() >= end;
            (!is_over).then(|| self.store.keys(&begin[..]..end))
        };
        let aggregates = from(b"a", b"b").into_iter().flatten();
        aggregates.chain(from(b"s", b"t").into_iter().flatten())
    }

    /// Removes all keys, whose locks the caller holds.
    pub async fn clear(&self) -> Result<(), Error> {
        let _removing = self.removing.lock().await;
        self.watches.touch_all();
        let keep = store_key(b'i', &[]);
        let mut keys = self.store.keys(..).filter(|key| key[..] != keep[..]);
        loop {
            let mut batch = Batch::new();
            let mut any = false;
            for key in keys.by_ref().take(AT_ONCE) {
                batch.delete(&key);
                any = true;
            }
            if !any {
                break;
            }
            self.store.write(&batch).await?;
        }
        Ok(())
    }
}

/// The key that follows a random place in a range.
fn random_of<'a, I: DoubleEndedIterator<Item = Vec<u8>>>(
    range: impl Fn(&[u8]) -> I + 'a,
    start: &[u8],
) -> Option<Vec<u8>> {
    let (first, last) = (range(start).next()?, range(start).next_back()?);
    let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let mut place = first[..shared].to_vec();
    let low = first.get(shared).copied().unwrap_or(0);
    let high = last.get(shared).copied().unwrap_or(low);
    place.push(fastrand::u8(low..=high));
    place.extend(fastrand::u64(..).to_be_bytes());
    range(&place).next().or(Some(first))
}

/// Why a key could not be read as what a command needs.
#[derive(Debug)]
pub enum Failed {
    /// It is of another type.
    WrongType,
    /// The store failed.
    Store(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}
