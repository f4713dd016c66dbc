//! When keys expire, in memory: by key, and in the order of the times.
//!
//! Invariant: outside of a key's lock, a key whose word in the index says that it expires has its
//! time here, and one entry in the order of times; any other key has neither.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use timberline_tree::Art;

use crate::record::NEVER;
use crate::{Error, MAX_KEY};

/// The longest key that expires, in bytes.
pub const MAX_EXPIRING_KEY: usize = MAX_KEY - 8;

#[derive(Default)]
pub(crate) struct Deadlines {
    /// The time of each key.
    times: Art<[u8], u64>,
    /// Times, big-endian, with their keys behind them. The value says nothing.
    order: Art<[u8], u64>,
    /// The latest time at which it was looked for what has expired.
    latest: AtomicU64,
}

fn entry(at: u64, key: &[u8]) -> Vec<u8> {
    [&at.to_be_bytes(), key].concat()
}

impl Deadlines {
    /// A key's time; [`NEVER`] if it has none.
    pub fn get(&self, key: &[u8]) -> u64 {
        self.times.get(key).unwrap_or(NEVER)
    }

    /// Makes places for a key's time, as that can fail. [`place`](Self::place) or
    /// [`settle`](Self::settle) follows.
    pub fn reserve(&self, key: &[u8], at: u64) -> Result<(), Error> {
        let full = |_| Error::OutOfMemory;
        if self.times.get(key).is_none() {
            self.times.insert(key, NEVER).map_err(full)?;
        }
        self.order.insert(&entry(at, key), 0).map_err(full)?;
        Ok(())
    }

    /// The record of a key says this time from now on. It has its places.
    pub fn place(&self, key: &[u8], at: u64) {
        self.times
            .insert(key, at)
            .expect("a word is changed in place");
    }

    /// A time of a key may be none any more; `current` is the one that its record has.
    pub fn settle(&self, key: &[u8], at: u64, current: u64) {
        if at != current {
            self.order.remove(&entry(at, key));
        }
        if current == NEVER {
            self.times.remove(key);
        }
    }

    /// It was looked at this time for what has expired.
    pub fn look(&self, now: u64) {
        self.latest.fetch_max(now, SeqCst);
    }

    /// Whether a record with this time may have been taken for one that expired. It stays so when
    /// the clock is set back.
    pub fn has_passed(&self, at: u64) -> bool {
        at <= self.latest.load(SeqCst)
    }

    /// Whether a time has come.
    pub fn are_due(&self, now: u64) -> bool {
        !self.order.is_empty() && !self.due(now, 1).is_empty()
    }

    /// Times that have come, and their keys: the first so many.
    pub fn due(&self, now: u64, most: usize) -> Vec<(u64, Vec<u8>)> {
        let entries = self.order.iter().take(most).map(|(entry, _)| {
            let (at, key) = entry.split_first_chunk().expect("a time is in front");
            (u64::from_be_bytes(*at), key.to_vec())
        });
        entries.take_while(|it| it.0 <= now).collect()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> u64 {
        [&self.times, &self.order]
            .map(|it| it.committed())
            .iter()
            .map(|(fast, slow)| (fast + slow) as u64)
            .sum()
    }
}
