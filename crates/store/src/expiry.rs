//! Records that expire.
//!
//! A record has its time with it on the disk, so nothing is written when it comes. From then on
//! reads pass the record over; maintenance removes its key from the index, so that cleaning finds
//! the space. The record still hides older ones of its key on the disk, as a delete does: where
//! such may be, cleaning keeps a delete in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use crate::location::Location;
use crate::log::NewRecord;
use crate::record::NEVER;
use crate::store::Inner;
use crate::{Error, Store};

/// Keys that are removed from the index before others have their turn.
const AT_ONCE: usize = 256;

/// When a record expires. From that millisecond on no read returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Not at all.
    Never,
    /// At a time, in milliseconds since 1970 (UTC). One that has passed is as good as a delete.
    /// `u64::MAX` is never.
    At(u64),
    /// After so long, from the call on; what is less than a millisecond counts as one. What `u64`
    /// milliseconds cannot say is never.
    After(Duration),
}

/// Where a store has the time from.
#[derive(Clone, Default, Debug)]
pub enum Clock {
    /// The system. If it is set back, records live as much longer, but one that was removed stays
    /// so while the store is open.
    #[default]
    System,
    /// The program, which sets it to milliseconds since 1970 (UTC): in tests and simulations.
    Program(Arc<AtomicU64>),
}

impl Clock {
    /// Milliseconds since 1970 (UTC); 0 before.
    pub fn now(&self) -> u64 {
        match self {
            Clock::System => {
                let passed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                passed.map_or(0, |it| it.as_millis() as u64)
            }
            Clock::Program(now) => now.load(SeqCst),
        }
    }
}

impl Store {
    /// Sets the value of a key, and when it expires.
    ///
    /// # Errors
    /// As [`put`](Self::put). A key that expires has at most
    /// [`MAX_EXPIRING_KEY`](crate::MAX_EXPIRING_KEY) bytes.
    pub async fn put_expiring(
        &self,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Error> {
        let expires = self.inner.time_of(expiry);
        let entry = NewRecord::put(key, value, expires);
        self.inner.write(&[entry], |_| true).await.map(|_| ())
    }

    /// Gives a key another time to expire, and says whether it has a value. The record is read and
    /// written again.
    pub async fn set_expiry(&self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        let expires = self.inner.time_of(expiry);
        self.inner.rewrite(key, expires, |_| true).await
    }

    /// Has a key expire no more, and says whether it would have. The record is read and, if it
    /// would, written again.
    pub async fn persist(&self, key: &[u8]) -> Result<bool, Error> {
        self.inner.rewrite(key, NEVER, |old| old != NEVER).await
    }

    /// When a key's value expires: [`Expiry::Never`] or [`Expiry::At`]; `None` if it has none.
    /// Reads no record.
    pub fn expiry(&self, key: &[u8]) -> Option<Expiry> {
        let expires = self.inner.present(key)?;
        Some(match expires {
            NEVER => Expiry::Never,
            at => Expiry::At(at),
        })
    }

    /// How much longer a key has its value: [`Duration::MAX`] if it does not expire, `None` if it
    /// has none. Reads no record.
    pub fn remaining(&self, key: &[u8]) -> Option<Duration> {
        let expires = self.inner.present(key)?;
        Some(match expires {
            NEVER => Duration::MAX,
            at => Duration::from_millis(at.saturating_sub(self.inner.now())),
        })
    }

    /// Begins to remove from memory what has expired, and to clean segments if that is worth it,
    /// without waiting. Called by a timer; [`maintain`](Self::maintain) also does it whenever the
    /// log needs another segment.
    pub fn begin_expiry(&self) {
        if self.inner.deadlines.are_due(self.inner.now()) {
            let mut state = self.inner.log.lock();
            state.cleaning_wanted = true;
            state.changed();
        }
    }
}

impl Inner {
    pub fn now(&self) -> u64 {
        self.log.options().clock.now()
    }

    /// The time that a record says; [`NEVER`] if it is not to expire.
    pub fn time_of(&self, expiry: Expiry) -> u64 {
        match expiry {
            Expiry::Never => NEVER,
            Expiry::At(at) => at,
            Expiry::After(time) => {
                let millis = time.as_nanos().div_ceil(1_000_000);
                let millis = u64::try_from(millis).unwrap_or(NEVER);
                self.now().saturating_add(millis)
            }
        }
    }

    /// Whether a record with this time counts.
    pub fn counts(&self, expires: u64) -> bool {
        expires == NEVER || expires > self.now()
    }

    /// Where a key's record lies, unless it expired, and when it expires. The caller holds the
    /// key's lock.
    pub fn current(&self, key: &[u8]) -> Option<(Location, u64)> {
        let location = self.locate(key)?;
        let expires = match location.expires() {
            true => self.deadlines.get(key),
            false => NEVER,
        };
        self.counts(expires).then_some((location, expires))
    }

    /// Whether a key has the record that lies there, or none. The same location is the same record:
    /// the log does not use a place twice. The caller holds the key's lock.
    pub fn is_current(&self, key: &[u8], location: Option<Location>) -> bool {
        self.current(key).map(|it| it.0) == location
    }

    /// The same for whom has no lock of the key.
    pub fn current_of(&self, key: &[u8]) -> Option<(Location, u64)> {
        let location = self.locate(key)?;
        if !location.expires() {
            return Some((location, NEVER));
        }
        let _stripe = self.stripe(key);
        self.current(key)
    }

    /// When a key's record expires; `None` if it has none.
    pub fn present(&self, key: &[u8]) -> Option<u64> {
        self.current_of(key).map(|it| it.1)
    }

    /// Writes a key's record again, with another time, if `wanted` says so of the old one.
    async fn rewrite(
        &self,
        key: &[u8],
        expires: u64,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<bool, Error> {
        loop {
            let Some(found) = self.find(key).await? else {
                return Ok(false);
            };
            if !wanted(found.expires) {
                return Ok(false);
            }
            let value = match found.location.is_large() {
                false => None,
                true => match self.large.of(key) {
                    Some(value) => Some(value),
                    None => continue,
                },
            };
            // The pieces stay where they are: what says where is written again.
            let entry = NewRecord {
                large: value.as_ref(),
                ..NewRecord::put(key, &found.value, expires)
            };
            let is_same = |inner: &Inner| inner.is_current(key, Some(found.location));
            if self.write(&[entry], is_same).await? {
                return Ok(true);
            }
        }
    }

    /// Removes what has expired from the index.
    pub async fn remove_expired(&self) {
        loop {
            let now = self.now();
            self.deadlines.look(now);
            let due = self.deadlines.due(now, AT_ONCE);
            if due.is_empty() {
                return;
            }
            for (at, key) in due {
                let _stripe = self.stripe(&key);
                let location = self.locate(&key);
                if location.is_some_and(|it| it.expires() && self.deadlines.get(&key) == at) {
                    let mut state = self.log.lock();
                    self.moments.note(&*self.index, &self.log, &key);
                    let word = self.index.remove(&key);
                    let old = self.changed(&key, word, None, None);
                    state.expired += 1;
                    drop(state);
                    if let Some(old) = old {
                        self.forget_value(old);
                    }
                }
                self.settle(&key, at);
            }
            self.bound_snapshots();
            timberline_io::yield_now().await;
        }
    }
}
