//! A lock in the pool: a word that names its holder.

use super::Patience;
use crate::address::{Address, ComputeId};
use crate::error::{Error, Result};
use crate::fabric::Connection;

/// Attempts to get a lock between two questions whether its holder was fenced.
const ASK_EVERY: u32 = 16;

/// A lock that this compute server holds.
///
/// The lower bits of its word name the holder, the others count releases. At any time one task of
/// a compute server asks for a lock. A lock outlives no dead
/// holder: one that was fenced can write nothing more, so the next one takes the lock from it.
#[must_use = "it has to be released"]
pub(crate) struct PoolLock {
    at: Address,
    /// Its word.
    held: u64,
    /// Whether it was taken from a compute server that was fenced.
    from_the_dead: bool,
}

impl PoolLock {
    /// Waits for the lock, and takes it.
    ///
    /// # Errors
    /// A memory server does not answer; or one compute server holds the lock for ten seconds and a
    /// thousand attempts, and was not fenced.
    pub async fn take(connection: &Connection, at: Address) -> Result<PoolLock> {
        let me = connection.compute().number();
        let mut expected = 0;
        // A lock that does not count its releases may be released and taken between two attempts.
        let (mut last, mut patience) = (0, Patience::default());
        let mut from_the_dead = false;
        loop {
            let wanted = without_holder(expected) | me;
            let attempt = async || connection.compare_exchange(at, expected, wanted).await;
            let found = connection.insist(attempt).await?;
            if found == expected {
                let held = wanted;
                return Ok(PoolLock {
                    at,
                    held,
                    from_the_dead,
                });
            }
            expected = without_holder(found);
            let Some(holder) = ComputeId::new(found) else {
                continue;
            };
            // The answer to an attempt was lost, or an operation was dropped that had the lock.
            if holder == connection.compute() {
                let held = found;
                return Ok(PoolLock {
                    at,
                    held,
                    from_the_dead,
                });
            }
            // Another one was first.
            from_the_dead = false;
            if found != last {
                (last, patience) = (found, Patience::default());
            }
            let asks = patience.attempts() % ASK_EVERY == ASK_EVERY - 1;
            if asks && connection.is_fenced(at.server(), holder).await? {
                (expected, from_the_dead) = (found, true);
            } else if patience.is_over(connection).await {
                return Err(Error::Locked(at, holder));
            }
        }
    }

    /// Takes the lock if nobody has it who was not fenced.
    ///
    /// # Errors
    /// A memory server does not answer.
    pub async fn try_take(connection: &Connection, at: Address) -> Result<Option<PoolLock>> {
        let found = connection.read(at, 1).await?[0];
        match ComputeId::new(found) {
            Some(holder) if holder == connection.compute() => {
                return Ok(Some(PoolLock {
                    at,
                    held: found,
                    from_the_dead: false,
                }));
            }
            Some(holder) if !connection.is_fenced(at.server(), holder).await? => return Ok(None),
            _ => {}
        }
        let held = without_holder(found) | connection.compute().number();
        let attempt = async || connection.compare_exchange(at, found, held).await;
        let before = connection.insist(attempt).await?;
        let is_taken = before == found || before == held;
        let from_the_dead = ComputeId::new(found).is_some();
        Ok(is_taken.then_some(PoolLock {
            at,
            held,
            from_the_dead,
        }))
    }

    /// The lock of a node that nothing leads to yet: who writes its image writes
    /// [`word`](Self::word) with it, and nobody else has the lock when the node is found.
    pub fn of_new(connection: &Connection, at: Address) -> PoolLock {
        PoolLock {
            at,
            held: connection.compute().number(),
            from_the_dead: false,
        }
    }

    /// What the word is while this is held.
    pub fn word(&self) -> u64 {
        self.held
    }

    /// Whether it was taken from a compute server that was fenced, maybe while it wrote.
    pub fn is_from_the_dead(&self) -> bool {
        self.from_the_dead
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// The memory server does not answer. The lock may still be held.
    pub async fn release(self, connection: &Connection) -> Result<()> {
        let PoolLock { at, held, .. } = self;
        let released = without_holder(held).wrapping_add(1 << ComputeId::BITS);
        // Not by a write: if the answer is lost, the next attempt must not hit another's lock.
        let attempt = async || connection.compare_exchange(at, held, released).await;
        connection.insist(attempt).await.map(|_| ())
    }
}

/// What is written before a lock is released.
pub(crate) type Writes = Vec<(Address, Vec<u64>)>;

impl PoolLock {
    /// Writes what the lock protects and releases it, in one round trip (command combination, Wang
    /// et al.: "Sherman", SIGMOD 2022). All of it lies on one memory server. A lock that is always
    /// released so counts no releases: its word is 0 when it is free, as one guesses who wants it.
    ///
    /// # Errors
    /// The memory server does not answer. The lock may still be held, and the rest be written.
    pub async fn release_after(self, connection: &Connection, writes: Writes) -> Result<()> {
        let PoolLock { at, held, .. } = self;
        let free = (at, vec![without_holder(held)]);
        let all: Writes = writes.into_iter().chain([free]).collect();
        let mut was_sent = false;
        let attempt = async || {
            // What was given up arrived before what is sent now, or never will. If it has released
            // the lock, another one may have it.
            if was_sent && connection.read(at, 1).await?[0] != held {
                return Ok(());
            }
            was_sent = true;
            connection.write_in_order(all.clone()).await
        };
        connection.insist(attempt).await
    }
}

/// The word without its holder: that of a free lock.
fn without_holder(word: u64) -> u64 {
    word >> ComputeId::BITS << ComputeId::BITS
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fabric::InProcess;
    use crate::pool::CHUNK;

    #[test]
    fn a_lock_is_taken_if_it_is_free() {
        let pool = InProcess::new(1, CHUNK).unwrap();
        let other = pool.client();
        let [mine, theirs] = [pool, other].map(|fabric| Connection::new(Arc::new(fabric)));
        let at = Address::new(0, 8);
        timberline_io::wait_for(async {
            let lock = PoolLock::try_take(&theirs, at).await.unwrap().unwrap();
            assert!(PoolLock::try_take(&mine, at).await.unwrap().is_none());
            lock.release(&theirs).await.unwrap();
            let lock = PoolLock::try_take(&mine, at).await.unwrap().unwrap();
            mine.fence(theirs.compute()).await.unwrap();
            lock.release(&mine).await.unwrap();
        });
    }

    #[test]
    fn a_lock_outlives_no_fenced_holder() {
        let pool = InProcess::new(1, CHUNK).unwrap();
        let other = pool.client();
        let [mine, theirs] = [pool, other].map(|fabric| Connection::new(Arc::new(fabric)));
        let at = Address::new(0, 8);
        timberline_io::wait_for(async {
            for _ in 0..3 {
                let lock = PoolLock::take(&theirs, at).await.unwrap();
                lock.release(&theirs).await.unwrap();
            }
            let lost = PoolLock::take(&theirs, at).await.unwrap();
            mine.fence(theirs.compute()).await.unwrap();
            let taken = PoolLock::take(&mine, at).await.unwrap();
            assert_eq!(lost.release(&theirs).await, Err(Error::Fenced));
            assert!(PoolLock::try_take(&mine, at).await.unwrap().is_some());
            taken.release(&mine).await.unwrap();
            let word = mine.read(at, 1).await.unwrap()[0];
            assert_eq!(
                word,
                4 << ComputeId::BITS,
                "the dead one released it thrice"
            );
        });
    }
}
