//! The seam between commands and the store: typed keys that expire, on records of bytes.
//!
//! A key of a client is one record of the store, behind a letter that says what it is:
//!
//! ```text
//! s KEY               a string: header, bytes
//! a KEY               a hash, set, sorted set or list: header, id u64, elements u64, …
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
//! Whoever reads and then writes keys holds their locks ([`Keyspace::lock`]), so commands are
//! atomic. An expired key is removed by the next command that looks at it, or by its timer.

mod aggregate;
mod entry;
mod error;
mod expiry;
mod list;
mod now;
mod orphans;
mod pooled;
mod waiting;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;
use timberline_store::{Batch, Store};
use tokio::sync::{Mutex, MutexGuard, Notify};

pub use aggregate::{ELEMENT_NAME, score_of, sortable};
pub use entry::{Entry, Kind};
pub use error::Error;
pub use list::{List, Side};
pub use now::Place;
pub use waiting::{Wait, Waiting};
pub use watch::{Watched, Watches};

use crate::cluster::{Node, Strings};
use pooled::Pooled;

/// Locks of keys. A power of two.
const STRIPES: usize = 4096;
/// Ids that are reserved by each start of a server.
const IDS: u64 = 1 << 40;
/// Deletes in one batch when many keys are removed.
const AT_ONCE: usize = 256;

/// Locks of keys that a command holds.
pub type Locks<'a> = SmallVec<[MutexGuard<'a, ()>; 2]>;
/// A key of the store.
type StoreKey = SmallVec<[u8; 64]>;

/// Typed keys that expire, in a store.
pub struct Keyspace {
    store: Store,
    /// In a cluster: strings are in the pool, and there are no other types. The store is their log.
    pool: Option<Strings>,
    stripes: Box<[Mutex<()>]>,
    /// Who wants to know of changes.
    pub watches: Watches,
    /// Who waits for elements of lists.
    pub waiting: Waiting,
    next_id: AtomicU64,
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

impl Keyspace {
    /// The keys in a store.
    pub async fn open(store: Store, pool: Option<Strings>) -> Result<Keyspace, Error> {
        let ids = store_key(b'i', &[]);
        let next = store.get(&ids).await?;
        let next = next
            .and_then(|it| it.try_into().ok())
            .map_or(1, u64::from_le_bytes);
        store.put(&ids, &(next + IDS).to_le_bytes()).await?;
        Ok(Keyspace {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            watches: Watches::default(),
            waiting: Waiting::default(),
            next_id: AtomicU64::new(next),
            removing: Mutex::default(),
            orphans: Notify::new(),
            expired: AtomicU64::new(0),
            pool,
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
    fn aggregates(&self) -> usize {
        self.store.starting_with(b'a')
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks keys, in an order in which no two commands wait for one another.
    pub async fn lock<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Locks<'_> {
        let mut stripes: SmallVec<[usize; 8]> = keys.map(stripe_of).collect();
        if stripes.len() > 1 {
            stripes.sort_unstable();
            stripes.dedup();
        }
        let mut locks = Locks::new();
        for stripe in stripes {
            locks.push(self.stripes[stripe].lock().await);
        }
        locks
    }

    /// Locks all keys, those too that are not there.
    pub async fn lock_all(&self) -> Locks<'_> {
        let mut locks = Locks::new();
        for stripe in &self.stripes {
            locks.push(stripe.lock().await);
        }
        locks
    }

    /// A string; an error if the key is of another type.
    pub async fn string(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Failed> {
        if let Some(entry) = self.record(b's', key, now).await? {
            return Ok(Some(entry));
        }
        match self.aggregate_record(key, now).await? {
            Some(_) => Err(Failed::WrongType),
            None => Ok(None),
        }
    }

    /// A key of any type.
    pub async fn find(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        match self.record(b's', key, now).await? {
            Some(entry) => Ok(Some(entry)),
            None => self.aggregate_record(key, now).await,
        }
    }

    async fn aggregate_record(&self, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        if self.aggregates() == 0 {
            return Ok(None);
        }
        self.record(b'a', key, now).await
    }

    async fn record(&self, letter: u8, key: &[u8], now: i64) -> Result<Option<Entry>, Error> {
        let Some(bytes) = self.bytes(letter, key).await? else {
            return Ok(None);
        };
        let entry = Entry::new(bytes);
        if entry.expires.is_some_and(|at| at <= now) {
            let mut changes = self.changes();
            changes.remove_entry(key, &entry);
            changes.commit().await?;
            self.expired.fetch_add(1, Relaxed);
            return Ok(None);
        }
        Ok(Some(entry))
    }

    /// The bytes of a key's record behind a letter.
    async fn bytes(&self, letter: u8, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match &self.pool {
            None => Ok(self.store.get(&store_key(letter, &[key])).await?),
            Some(strings) if letter == b's' => strings.get(key).await,
            Some(_) => Ok(None),
        }
    }

    /// Sets a string, in place of anything that the key was.
    pub async fn set(&self, key: &[u8], value: &[u8], expires: Option<i64>) -> Result<(), Error> {
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
        let bytes = self.bytes(letter, key).await?;
        let entry = bytes.map(Entry::new);
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

    /// Removes a key. Says whether it was there.
    pub async fn remove(&self, key: &[u8], now: i64) -> Result<bool, Error> {
        let Some(entry) = self.find(key, now).await? else {
            return Ok(false);
        };
        let mut changes = self.changes();
        changes.remove_entry(key, &entry);
        changes.commit().await?;
        Ok(true)
    }

    /// Changes that take effect together.
    pub fn changes(&self) -> Changes<'_> {
        Changes {
            keyspace: self,
            batch: Batch::new(),
            pooled: Vec::new(),
            touched: SmallVec::new(),
            filled: SmallVec::new(),
            removed: SmallVec::new(),
            orphans: false,
        }
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

    /// An id that no key has had.
    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
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

fn stripe_of(key: &[u8]) -> usize {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash as usize % STRIPES
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

/// Changes that take effect together, or not at all; in a cluster, one after the other.
pub struct Changes<'a> {
    keyspace: &'a Keyspace,
    batch: Batch,
    pooled: Vec<Pooled>,
    touched: SmallVec<[Box<[u8]>; 2]>,
    /// Lists that may have got elements, while somebody waits for such.
    filled: SmallVec<[Box<[u8]>; 1]>,
    /// Ids of the keys that are removed.
    removed: SmallVec<[u64; 2]>,
    orphans: bool,
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
        if entry.kind == Kind::String {
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
        let letter = if entry.kind == Kind::String {
            b's'
        } else {
            b'a'
        };
        let record = Entry::encode(entry.kind, expires, &[entry.value()]);
        self.put_record(letter, key, &record);
        if entry.kind == Kind::List {
            self.fill(key);
        }
    }

    /// Sets a key's record, and a timer if it expires.
    fn put_record(&mut self, letter: u8, key: &[u8], record: &[u8]) {
        if self.keyspace.pool.is_some() {
            self.change_pooled(key, Some(record.into()));
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
        let letter = if entry.kind == Kind::String {
            b's'
        } else {
            b'a'
        };
        self.delete_record(letter, key);
        self.touch(key);
    }

    /// Removes a key's record.
    fn delete_record(&mut self, letter: u8, key: &[u8]) {
        match self.keyspace.pool {
            Some(_) => self.change_pooled(key, None),
            None => self.batch.delete(&store_key(letter, &[key])),
        }
    }

    fn touch(&mut self, key: &[u8]) {
        if self.keyspace.watches.any() {
            self.touched.push(key.into());
        }
    }

    /// Does them.
    pub async fn commit(self) -> Result<(), Error> {
        let keyspace = self.keyspace;
        match &keyspace.pool {
            None => keyspace.store.write(&self.batch).await?,
            Some(strings) => self.commit_pooled(strings).await?,
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
}
