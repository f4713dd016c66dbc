//! What can be read and done without waiting: most commands find all that they need in memory.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::{Batch, RecordPlace};

use super::{Entry, Error, Keyspace, Kind, LONG, store_key};
use crate::resp::Args;

impl Keyspace {
    /// What `read` makes of a string's value and of its time of expiry, or that there is no key, if
    /// that can be known without waiting. Its record may be known to lie somewhere.
    pub fn string_now<T>(
        &self,
        key: &[u8],
        place: Option<RecordPlace>,
        now: i64,
        read: impl FnOnce(&[u8], Option<i64>) -> T,
    ) -> Poll<Option<T>> {
        let string = store_key(b's', &[key]);
        let mut read = Some(read);
        let mut counting = |record: &[u8]| {
            let (expires, value) = Entry::split(record);
            let counts = expires.is_none_or(|at| at > now);
            read.take().filter(|_| counts).map(|it| it(value, expires))
        };
        if let Some(place) = place
            && let Poll::Ready(Some(found)) = self.store.get_now_from(place, &string, &mut counting)
        {
            return Poll::Ready(Some(found));
        }
        match self.store.get_now(&string, counting) {
            Poll::Ready(Some(Some(found))) => Poll::Ready(Some(found)),
            Poll::Ready(None) if self.aggregates() == 0 => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Sets a string that does not expire, if that is possible without waiting and the key is no
    /// hash, set or sorted set.
    pub fn set_now(&self, key: &[u8], value: &[u8]) -> Poll<Result<(), Error>> {
        let mut record = SmallVec::<[u8; 256]>::new();
        record.push(Kind::String as u8);
        record.extend_from_slice(value);
        let string = store_key(b's', &[key]);
        let put = if self.aggregates() == 0 {
            self.store.put_now(&string, &record)
        } else {
            // What is a string is nothing else, so most need not be looked for among the others.
            match self.store.replace_now(&string, &record) {
                Poll::Ready(Ok(false)) => {
                    if self.store.contains_key(&store_key(b'a', &[key])) {
                        return Poll::Pending;
                    }
                    self.store.put_now(&string, &record)
                }
                replaced => replaced.map_ok(|_| ()),
            }
        };
        if put.is_ready() {
            self.watches.touch(key);
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
        let mut batch = Batch::with_capacity(bytes + 2 * writes, writes);
        for at in 0..writes {
            let (key, value) = (&pairs[2 * at], &pairs[2 * at + 1]);
            batch.put_parts(&[b"s", key], &[&[Kind::String as u8], value]);
        }
        let written = if self.aggregates() == 0 {
            self.store.write_now(&batch)
        } else {
            match self.store.replace_all_now(&batch) {
                Poll::Ready(Ok(false)) => return Poll::Pending,
                replaced => replaced.map_ok(|_| ()),
            }
        };
        if written.is_ready() && self.watches.any() {
            (0..writes).for_each(|at| self.watches.touch(&pairs[2 * at]));
        }
        written.map_err(Error::from)
    }
}
