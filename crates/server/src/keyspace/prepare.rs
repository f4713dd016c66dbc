//! Memory that commands are going to look at, fetched for several at the same time.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::Store;

use super::elements::element_key;
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
}

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

    fn prepare(&self, store: &Store) {
        let starts = [0].into_iter().chain(self.ends.iter().map(|it| it.0));
        let keys = starts
            .zip(&self.ends)
            .map(|(start, it)| &self.bytes[start..it.0]);
        let keys: SmallVec<[_; 32]> = keys.collect();
        store.prepare(&keys, |index| self.ends[index].1);
    }
}

impl Keyspace {
    /// Has the processor bring what is in memory of these keys and elements near, for all at the
    /// same time.
    pub fn prepare(&self, places: &[Place]) {
        // A cluster's strings are elsewhere.
        if self.node().is_some() {
            return;
        }
        let mut wanted = Wanted::default();
        // The last key that has elements, and the kind and the id of these.
        let mut last: Option<(&[u8], Option<Elements>)> = None;
        for place in places {
            let (key, name) = match *place {
                Place::Element(key, name) => (key, name),
                Place::String(key) => {
                    wanted.add(&[b"s", key], true);
                    continue;
                }
                Place::Overwritten(key) => {
                    wanted.add(&[b"s", key], false);
                    continue;
                }
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
        wanted.prepare(&self.store);
    }
}

/// What was found, if it was there at once.
fn ready<T>(found: Poll<Option<T>>) -> Option<T> {
    match found {
        Poll::Ready(found) => found,
        Poll::Pending => None,
    }
}
