//! What can be read and done without waiting: most commands find all that they need in memory.

use std::task::Poll;

use smallvec::SmallVec;

use super::{Entry, Error, Keyspace, Kind, Locks, store_key, stripe_of};

impl Keyspace {
    /// Locks a key, if it is not locked.
    pub fn lock_now(&self, key: &[u8]) -> Option<Locks<'_>> {
        let lock = self.stripes[stripe_of(key)].try_lock().ok()?;
        Some(SmallVec::from_iter([lock]))
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
}
