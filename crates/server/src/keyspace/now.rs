//! What can be read and done without waiting: most commands find all that they need in memory.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::Change;

use super::{Entry, Error, Keyspace, Kind, Known, LONG, key_of, store_key};
use crate::resp::Args;

impl Keyspace {
    /// What `read` makes of a record, if it is in memory; `Ready(None)` if there is none.
    pub(super) fn read_now<T>(
        &self,
        record: Known,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Option<T>> {
        let mut read = Some(read);
        let mut once = |bytes: &[u8]| read.take().map(|read| read(bytes));
        if let Some(place) = record.place
            && let Poll::Ready(Some(found)) = self.store.get_now_at(place, record.key, &mut once)
        {
            return Poll::Ready(Some(found));
        }
        match self.store.get_now(record.key, once) {
            Poll::Ready(Some(Some(found))) => Poll::Ready(Some(found)),
            Poll::Ready(None) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// What `read` makes of a string's value and of its time of expiry, or that there is no key, if
    /// that can be known without waiting.
    pub fn string_now<T>(
        &self,
        string: Known,
        now: i64,
        read: impl FnOnce(&[u8], Option<i64>) -> T,
    ) -> Poll<Option<T>> {
        let found = self.read_now(string, |record| {
            let (expires, value) = Entry::split(record);
            let counts = expires.is_none_or(|at| at > now);
            counts.then(|| read(value, expires))
        });
        match found {
            Poll::Ready(Some(Some(found))) => Poll::Ready(Some(found)),
            Poll::Ready(None) if !self.may_be_aggregate(string) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Whether a string's key is a hash, set, sorted set or list, maybe one that expired.
    fn may_be_aggregate(&self, string: Known) -> bool {
        let key = key_of(string.key);
        self.aggregates() > 0 && self.store.contains_key(&store_key(b'a', &[key]))
    }

    /// Sets a string that does not expire to this record, if that is possible without waiting and
    /// the key is no hash, set or sorted set.
    pub fn set_now(&self, string: Known, record: &[u8]) -> Poll<Result<(), Error>> {
        let Known { key, place } = string;
        let put = if self.aggregates() == 0 {
            self.store.put_now_at(key, record, place)
        } else {
            // What is a string is nothing else, so most need not be looked for among the others.
            match self.store.replace_now_at(key, record, place) {
                Poll::Ready(Ok(false)) => {
                    if self.may_be_aggregate(string) {
                        return Poll::Pending;
                    }
                    self.store.put_now_at(key, record, place)
                }
                replaced => replaced.map_ok(|_| ()),
            }
        };
        if put.is_ready() {
            self.watches.touch(key_of(key));
        }
        put.map_err(Error::from)
    }

    /// Sets strings that do not expire, all or none, if that is possible without waiting and each
    /// key is a string or there is no other type. Keys and values take turns.
    pub fn set_all_now(&self, pairs: Args) -> Poll<Result<(), Error>> {
        let bytes = pairs.iter().map(<[u8]>::len).sum::<usize>();
        if self.pool.is_some() || bytes > LONG {
            return Poll::Pending;
        }
        let writes = pairs.len() / 2;
        let mut records = SmallVec::<[u8; 2048]>::with_capacity(bytes + 2 * writes);
        for at in 0..writes {
            records.push(b's');
            records.extend_from_slice(&pairs[2 * at]);
            records.push(Kind::String as u8);
            records.extend_from_slice(&pairs[2 * at + 1]);
        }
        let (mut changes, mut rest) = (SmallVec::<[Change; 16]>::new(), &records[..]);
        for at in 0..writes {
            let (key, behind) = rest.split_at(1 + pairs[2 * at].len());
            let (record, behind) = behind.split_at(1 + pairs[2 * at + 1].len());
            changes.push(Change::put(key, record));
            rest = behind;
        }
        self.put_all_now(&changes)
    }

    /// Puts records of strings, all or none, under the same condition.
    pub fn put_all_now(&self, changes: &[Change]) -> Poll<Result<(), Error>> {
        let written = if self.aggregates() == 0 {
            self.store.write_now(changes)
        } else {
            match self.store.replace_all_now(changes) {
                Poll::Ready(Ok(false)) => return Poll::Pending,
                replaced => replaced.map_ok(|_| ()),
            }
        };
        if written.is_ready() && self.watches.any() {
            let keys = changes.iter().map(|it| key_of(it.key()));
            keys.for_each(|it| self.watches.touch(it));
        }
        written.map_err(Error::from)
    }
}
