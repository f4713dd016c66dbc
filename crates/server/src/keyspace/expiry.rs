//! Keys that have expired are removed when their time comes, not only when a command looks at them.
//!
//! The store is ordered, so that timers are records: by time, then by key. A timer is written in
//! the batch that sets a key's time. It stays where the key gets another time or goes, and then
//! does nothing when it is due: the key itself says when it expires.

use std::time::Duration;

use super::{AT_ONCE, Entry, Error, Keyspace, StoreKey, store_key};
use crate::shared::millis_since_1970;

/// The letter of timers.
const TIMER: u8 = b'e';
/// How often timers are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// The timer of a key for a time, in milliseconds since 1970.
fn timer_of(at: i64, key: &[u8]) -> StoreKey {
    // No command sets a time before 1970.
    store_key(TIMER, &[&at.max(0).to_be_bytes(), key])
}

impl Keyspace {
    /// The timer that a key's record needs, if it has none yet.
    pub(super) fn new_timer(&self, key: &[u8], record: &[u8]) -> Option<StoreKey> {
        let timer = timer_of(Entry::expiry(record)?, key);
        (!self.store.contains_key(&timer)).then_some(timer)
    }

    /// Timers that are set: one for each key that expires, and those that do nothing any more.
    pub fn timers(&self) -> usize {
        self.store.starting_with(TIMER)
    }

    /// Removes keys when they expire, for ever.
    pub async fn expire(&self) -> Result<(), Error> {
        loop {
            let now = millis_since_1970();
            let due = timer_of(now.saturating_add(1), &[]);
            let timers = self.store.keys(&[TIMER][..]..&due[..]).take(AT_ONCE);
            let timers: Vec<Vec<u8>> = timers.collect();
            for timer in &timers {
                let key = &timer[9..];
                {
                    let _lock = self.locks.lock([key].into_iter()).await;
                    // Looking at it removes it.
                    self.find(key, now).await?;
                }
                self.store.delete(timer).await?;
                tokio::task::yield_now().await;
            }
            if timers.len() < AT_ONCE {
                tokio::time::sleep(EVERY).await;
            }
        }
    }
}
