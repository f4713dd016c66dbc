//! Memory that commands are going to look at, fetched for several at the same time.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::{RecordPlace, Store};

use super::elements::element_key;
use super::locks::{Locks, Version};
use super::{Entry, Keyspace, Kind, store_key};

/// What a command is going to look at.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A string.
    String(&'a [u8]),
    /// A string that is overwritten, whatever it is.
    Overwritten(&'a [u8]),
    /// An element of a hash, set or sorted set.
    Element(&'a [u8], &'a [u8]),
    /// Nothing that is known in advance.
    None,
}

/// Where a string's record was found, and the version of its lock before that.
#[derive(Clone, Copy)]
pub struct Hint {
    version: Version,
    place: RecordPlace,
}

impl Hint {
    /// Where the record still lies, for whom has the key's lock. (Cleaning may have moved it; then
    /// its bytes are also there, or nothing is.)
    pub fn place(self, locks: &Locks) -> Option<RecordPlace> {
        match &locks[..] {
            [lock] if lock.version() == self.version => Some(self.place),
            _ => None,
        }
    }
}

/// What was found for some places.
pub type Hints = SmallVec<[Option<Hint>; 16]>;

/// Whose elements: the kind and the id of a key.
type Elements = (Kind, u64);

/// Keys of the store, one after the other.
#[derive(Default)]
struct Wanted {
    bytes: SmallVec<[u8; 1024]>,
    /// Where each key ends, and whether its value is read, too.
    ends: SmallVec<[(usize, bool); 32]>,
}

impl Wanted {
    fn add(&mut self, key: &[&[u8]], is_read: bool) {
        key.iter().for_each(|it| self.bytes.extend_from_slice(it));
        self.ends.push((self.bytes.len(), is_read));
    }

    fn prepare(&self, store: &Store) -> SmallVec<[Option<RecordPlace>; 16]> {
        let starts = [0].into_iter().chain(self.ends.iter().map(|it| it.0));
        let keys = starts
            .zip(&self.ends)
            .map(|(start, it)| &self.bytes[start..it.0]);
        let keys: SmallVec<[_; 32]> = keys.collect();
        store.prepare(&keys, |index| self.ends[index].1)
    }
}

impl Keyspace {
    /// Has the processor bring what is in memory of these keys and elements near, for all at the
    /// same time. Returns where strings that are read were found, for each place.
    pub fn prepare(&self, places: &[Place]) -> Hints {
        let mut hints = Hints::from_elem(None, places.len());
        // A cluster's strings are elsewhere.
        if self.node().is_some() {
            return hints;
        }
        let mut wanted = Wanted::default();
        // Of the strings that are read: which place, the how manieth key, and the version.
        let mut read = SmallVec::<[(usize, usize, Version); 16]>::new();
        // The last key that has elements, and the kind and the id of these.
        let mut last: Option<(&[u8], Option<Elements>)> = None;
        for (index, place) in places.iter().enumerate() {
            let (key, name) = match *place {
                Place::Element(key, name) => (key, name),
                Place::String(key) => {
                    read.push((index, wanted.ends.len(), self.locks.version(key)));
                    wanted.add(&[b"s", key], true);
                    continue;
                }
                Place::Overwritten(key) => {
                    wanted.add(&[b"s", key], false);
                    continue;
                }
                Place::None => continue,
            };
            if last.is_none_or(|it| it.0 != key) {
                let record = store_key(b'a', &[key]);
                let found = ready(self.store.get_now(&record, Entry::elements_of));
                last = Some((key, found.map(|(kind, id, _)| (kind, id))));
            }
            if let Some((_, Some((kind, id)))) = last {
                wanted.add(&[&element_key(kind.element_letter(), id, name)], true);
            }
        }
        let found = wanted.prepare(&self.store);
        for (index, at, version) in read {
            hints[index] = found[at].map(|place| Hint { version, place });
        }
        hints
    }
}

/// What was found, if it was there at once.
fn ready<T>(found: Poll<Option<T>>) -> Option<T> {
    match found {
        Poll::Ready(found) => found,
        Poll::Pending => None,
    }
}
