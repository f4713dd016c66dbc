//! Which large values there are, and where their pieces lie.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Descriptor;
use crate::location::Location;
use crate::store::PENDING;

/// A value that is in pieces, or will be.
pub(crate) struct Value {
    pub id: u64,
    /// Of which it is or is to be the value.
    pub key: Box<[u8]>,
    /// Bytes of each piece but the last.
    pub piece: u32,
    /// Bytes of the value; complete once its key has it.
    len: AtomicU64,
    /// The sequence number of the first record that gave it to its key, in this process.
    since: AtomicU64,
    /// Words of its pieces' locations; [`PENDING`] for one that is lost.
    words: Mutex<Vec<u64>>,
}

/// Bytes of memory of a value without its key and its pieces, about: it is in two maps.
const VALUE: u64 = 256;
/// Bytes of memory for the place of a piece, at most: the list grows by doubling.
const PLACE: u64 = 16;

impl Value {
    /// One that has no piece yet.
    pub fn new(id: u64, key: &[u8], piece: usize) -> Value {
        Value {
            id,
            key: key.into(),
            piece: piece as u32,
            len: AtomicU64::new(0),
            since: AtomicU64::new(u64::MAX),
            words: Mutex::default(),
        }
    }

    /// One that a store had when it was opened.
    pub fn opened(key: &[u8], about: Descriptor, words: Vec<u64>) -> Value {
        Value {
            len: AtomicU64::new(about.len),
            since: AtomicU64::new(0),
            words: Mutex::new(words),
            ..Value::new(about.id, key, about.piece as usize)
        }
    }

    /// What the key's record says.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            id: self.id,
            len: self.len.load(Relaxed),
            piece: self.piece,
        }
    }

    /// Where its pieces lie, in words.
    pub fn words(&self) -> Vec<u64> {
        self.lock().clone()
    }

    /// Where those of its pieces lie that are not lost.
    pub fn places(&self) -> Vec<Location> {
        let words = self.words().into_iter().filter(|&it| it != PENDING);
        words.map(Location::from_word).collect()
    }

    /// Numbers of its pieces that are lost.
    pub fn missing(&self) -> Vec<u32> {
        let numbered = (0u32..).zip(self.words());
        numbered
            .filter(|it| it.1 == PENDING)
            .map(|it| it.0)
            .collect()
    }

    /// Whether a piece lies there.
    pub fn has(&self, number: u32, location: Location) -> bool {
        self.lock().get(number as usize) == Some(&location.to_word())
    }

    /// A piece that lies at `old` lies at `new`; `false` if it does not.
    pub fn relocate(&self, number: u32, old: Location, new: Location) -> bool {
        let mut words = self.lock();
        let word = words.get_mut(number as usize);
        match word.filter(|it| **it == old.to_word()) {
            Some(word) => {
                *word = new.to_word();
                true
            }
            None => false,
        }
    }

    /// A record with this number gives it to its key.
    pub fn commit(&self, sequence: u64) {
        self.since.fetch_min(sequence, Relaxed);
    }

    /// Whether its key had it behind the record with this number, if it has it now.
    pub fn was_there(&self, sequence: u64) -> bool {
        self.since.load(Relaxed) <= sequence
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        VALUE + 2 * self.key.len() as u64 + PLACE * self.lock().len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The values that keys have, and those that are being written.
#[derive(Default)]
pub(crate) struct Table {
    values: Mutex<Values>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Values {
    by_id: BTreeMap<u64, Arc<Value>>,
    by_key: BTreeMap<Box<[u8]>, Arc<Value>>,
}

impl Table {
    /// The value with this id.
    pub fn get(&self, id: u64) -> Option<Arc<Value>> {
        self.lock().by_id.get(&id).cloned()
    }

    /// The value that a key has.
    pub fn of(&self, key: &[u8]) -> Option<Arc<Value>> {
        self.lock().by_key.get(key).cloned()
    }

    /// All of them, also those that are being written.
    pub fn all(&self) -> Vec<Arc<Value>> {
        self.lock().by_id.values().cloned().collect()
    }

    /// A value is being written from now on.
    pub fn begin(&self, value: Arc<Value>) {
        self.bytes.fetch_add(value.bytes(), Relaxed);
        self.lock().by_id.insert(value.id, value);
    }

    /// The next piece of a value that is being written, of this many bytes, lies there.
    pub fn add(&self, value: &Value, location: Location, bytes: usize) {
        value.lock().push(location.to_word());
        value.len.fetch_add(bytes as u64, Relaxed);
        self.bytes.fetch_add(PLACE, Relaxed);
    }

    /// A key has this value from now on, which was begun. Returns the one that no key has any more.
    pub fn set(&self, key: &[u8], value: Option<&Arc<Value>>) -> Option<Arc<Value>> {
        let mut values = self.lock();
        let old = match value {
            Some(value) => values.by_key.insert(key.into(), Arc::clone(value)),
            None => values.by_key.remove(key),
        };
        let old = old.filter(|old| value.is_none_or(|it| it.id != old.id))?;
        self.forget(&mut values, old.id)
    }

    /// A value will not be written. Returns it.
    pub fn give_up(&self, id: u64) -> Option<Arc<Value>> {
        self.forget(&mut self.lock(), id)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn forget(&self, values: &mut Values, id: u64) -> Option<Arc<Value>> {
        let value = values.by_id.remove(&id)?;
        self.bytes.fetch_sub(value.bytes(), Relaxed);
        Some(value)
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
