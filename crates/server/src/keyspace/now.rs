//! What can be read and done without waiting: most commands find all that they need in memory.

use std::task::Poll;

use smallvec::SmallVec;

use super::aggregate::letter_of;
use super::elements::element_key;
use super::{Entry, Error, Keyspace, Kind, Locks, StoreKey, store_key, stripe_of};

/// What a command is going to look at.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A key, probably a string.
    Key(&'a [u8]),
    /// An element of a hash, set or sorted set.
    Element(&'a [u8], &'a [u8]),
}

/// Whose elements: the kind and the id of a key.
type Elements = (Kind, u64);

impl Keyspace {
    /// Locks a key, if it is not locked.
    pub fn lock_now(&self, key: &[u8]) -> Option<Locks<'_>> {
        let lock = self.stripes[stripe_of(key)].try_lock().ok()?;
        Some(SmallVec::from_iter([lock]))
    }

    /// Has the processor bring what is in memory of these keys and elements near, for all at the
    /// same time.
    pub fn prepare(&self, places: &[Place]) {
        // A cluster's strings are elsewhere.
        if self.node().is_some() {
            return;
        }
        let mut bytes = SmallVec::<[u8; 1024]>::new();
        let mut ends = SmallVec::<[usize; 32]>::new();
        // The last key that has elements, and whose they are.
        let mut last: Option<(&[u8], Option<Elements>)> = None;
        for place in places {
            let mut add = |key: StoreKey| {
                bytes.extend_from_slice(&key);
                ends.push(bytes.len());
            };
            let (key, name) = match *place {
                Place::Element(key, name) => (key, name),
                Place::Key(key) => {
                    add(store_key(b's', &[key]));
                    continue;
                }
            };
            if last.is_none_or(|it| it.0 != key) {
                let key_of_record = store_key(b'a', &[key]);
                let entry = |record: &[u8]| {
                    let entry = Entry::new(record.to_vec());
                    (entry.kind, entry.id())
                };
                last = match self.store.get_now(&key_of_record, entry) {
                    Poll::Ready(found) => Some((key, found)),
                    Poll::Pending => Some((key, None)),
                };
            }
            if let Some((_, Some((kind, id)))) = last {
                add(element_key(letter_of(kind), id, name));
            }
        }
        let starts = [0].into_iter().chain(ends.iter().copied());
        let keys = starts.zip(&ends).map(|(start, &end)| &bytes[start..end]);
        self.store.prepare(&keys.collect::<SmallVec<[_; 32]>>());
    }

    /// What `read` makes of a string's value and of its time of expiry, or that there is no key, if
    /// that can be known without waiting.
    pub fn string_now<T>(
        &self,
        key: &[u8],
        now: i64,
        read: impl FnOnce(&[u8], Option<i64>) -> T,
    ) -> Poll<Option<T>> {
        let found = self.store.get_now(&store_key(b's', &[key]), |record| {
            let (expires, value) = Entry::split(record);
            let counts = expires.is_none_or(|at| at > now);
            counts.then(|| read(value, expires))
        });
        match found {
            Poll::Ready(Some(Some(found))) => Poll::Ready(Some(found)),
            Poll::Ready(None) if self.aggregates() == 0 => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Sets a string that does not expire, if that is possible without waiting and the key is no
    /// hash, set or sorted set.
    pub fn set_now(&self, key: &[u8], value: &[u8]) -> Poll<Result<(), Error>> {
        let is_aggregate = || self.store.contains_key(&store_key(b'a', &[key]));
        if self.aggregates() > 0 && is_aggregate() {
            return Poll::Pending;
        }
        let mut record = SmallVec::<[u8; 256]>::new();
        record.push(Kind::String as u8);
        record.extend_from_slice(value);
        let put = self.store.put_now(&store_key(b's', &[key]), &record);
        if put.is_ready() {
            self.watches.touch(key);
        }
        put.map_err(Error::from)
    }
}
