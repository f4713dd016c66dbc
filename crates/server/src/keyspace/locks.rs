//! Locks of keys, of which there is a fixed number: keys share them by a hash.
//!
//! Almost always a lock is free. So it is one word, taken and given back by one atomic operation
//! each, and all words lie together. Who has to wait says so in the word, and is woken by whoever
//! gives the lock back.
//!
//! ```text
//! bit 32  somebody holds the lock     bits 0 to 31  those who wait
//! ```
//!
//! **None is forgotten.** The first to wait is counted while the lock may just have been given
//! back, so it looks once more itself; all later ones were counted while there was a holder or a
//! first one, who finds them counted when it gives the lock back, and wakes one. The order of all
//! changes of one word decides which, so no fence is needed. A wake-up that comes before its sleep
//! is kept by [`Notify`], and one whose waiter is dropped goes to the next.
//!
//! **None waits for ever.** As long as somebody waits, [`KeyLocks::try_lock`] refuses, so that
//! those who never wait don't overtake those who do.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use smallvec::SmallVec;
use tokio::sync::Notify;

/// Locks. A power of two, at most 2^16.
const STRIPES: usize = 4096;
const HELD: u64 = 1 << 32;
const WAITERS: u64 = HELD - 1;

/// Locks of keys.
pub struct KeyLocks {
    words: Box<[AtomicU64]>,
    queues: Box<[Notify]>,
}

/// One that is held, until it is dropped.
pub struct KeyLock<'a> {
    locks: &'a KeyLocks,
    stripe: usize,
}

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stripe(u16);

impl Stripe {
    /// The one of a key.
    pub fn of(key: &[u8]) -> Stripe {
        Stripe(stripe_of(key) as u16)
    }
}

/// Locks of keys that a command holds.
pub type Locks<'a> = SmallVec<[KeyLock<'a>; 2]>;

/// Is counted among those who wait until it is dropped, or has the lock.
struct Waiter<'a>(&'a AtomicU64);

impl Default for KeyLocks {
    fn default() -> KeyLocks {
        KeyLocks {
            words: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            queues: (0..STRIPES).map(|_| Notify::new()).collect(),
        }
    }
}

impl KeyLocks {
    /// The lock of a key, if nobody holds it or waits for it.
    pub fn try_lock(&self, key: &[u8]) -> Option<KeyLock<'_>> {
        self.try_stripe(stripe_of(key))
    }

    /// This lock, if nobody holds it or waits for it.
    pub fn try_lock_at(&self, stripe: Stripe) -> Option<KeyLock<'_>> {
        self.try_stripe(stripe.0.into())
    }

    /// Those of several keys, if nobody holds them or waits for them.
    pub fn try_lock_all<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Option<Locks<'_>> {
        let stripes = stripes_of(keys);
        stripes.into_iter().map(|it| self.try_stripe(it)).collect()
    }

    /// Locks keys, in an order in which no two commands wait for one another.
    pub async fn lock<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Locks<'_> {
        let mut locks = Locks::new();
        for stripe in stripes_of(keys) {
            locks.push(self.stripe(stripe).await);
        }
        locks
    }

    /// Locks all keys.
    pub async fn lock_all(&self) -> Locks<'_> {
        let mut locks = Locks::new();
        for stripe in 0..STRIPES {
            locks.push(self.stripe(stripe).await);
        }
        locks
    }

    fn try_stripe(&self, stripe: usize) -> Option<KeyLock<'_>> {
        let word = self.words[stripe].load(Relaxed);
        if word & (HELD | WAITERS) != 0 {
            return None;
        }
        let taken = self.words[stripe].compare_exchange(word, word | HELD, Acquire, Relaxed);
        taken.is_ok().then(|| self.held(stripe))
    }

    async fn stripe(&self, stripe: usize) -> KeyLock<'_> {
        if let Some(lock) = self.try_stripe(stripe) {
            return lock;
        }
        let word = &self.words[stripe];
        let mut looks = word.fetch_add(1, Relaxed) & WAITERS == 0;
        let waiter = Waiter(word);
        loop {
            let mut woken = pin!(self.queues[stripe].notified());
            // From here on it does not miss who gives the lock back.
            woken.as_mut().enable();
            if looks && waiter.take() {
                std::mem::forget(waiter);
                return self.held(stripe);
            }
            woken.await;
            looks = true;
            if waiter.take() {
                std::mem::forget(waiter);
                return self.held(stripe);
            }
        }
    }

    fn held(&self, stripe: usize) -> KeyLock<'_> {
        KeyLock {
            locks: self,
            stripe,
        }
    }
}

impl Waiter<'_> {
    /// Takes the lock, if nobody holds it: it is no waiter any more. Says whether it did.
    fn take(&self) -> bool {
        let free = |word: u64| (word & HELD == 0).then(|| (word - 1) | HELD);
        self.0.fetch_update(Acquire, Relaxed, free).is_ok()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Drop for KeyLock<'_> {
    fn drop(&mut self) {
        let word = &self.locks.words[self.stripe];
        if word.fetch_sub(HELD, Release) & WAITERS != 0 {
            self.locks.queues[self.stripe].notify_one();
        }
    }
}

/// The locks of these keys, each once, in ascending order.
fn stripes_of<'k>(keys: impl Iterator<Item = &'k [u8]>) -> SmallVec<[usize; 16]> {
    let mut stripes: SmallVec<[usize; 16]> = keys.map(stripe_of).collect();
    if stripes.len() > 1 {
        stripes.sort_unstable();
        stripes.dedup();
    }
    stripes
}

fn stripe_of(key: &[u8]) -> usize {
    timberline_store::spread(key) as usize % STRIPES
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Context, Poll, Waker};

    use super::*;

    impl KeyLocks {
        /// Whether nobody holds any, or waits.
        fn are_free(&self) -> bool {
            let is_free = |it: &AtomicU64| it.load(Relaxed) & (HELD | WAITERS) == 0;
            self.words.iter().all(is_free)
        }
    }

    #[test]
    fn who_never_waits_does_not_overtake_who_does() {
        let locks = KeyLocks::default();
        let first = locks.try_lock(b"a").unwrap();
        assert!(locks.try_lock(b"a").is_none() && locks.try_lock(b"b").is_some());
        let mut context = Context::from_waker(Waker::noop());
        let mut second = Box::pin(locks.lock([&b"a"[..]].into_iter()));
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(locks.try_lock(b"a").is_none());
        assert!(locks.try_lock_all([&b"b"[..], b"a"].into_iter()).is_none());
        let Poll::Ready(held) = second.as_mut().poll(&mut context) else {
            panic!("it was woken");
        };
        assert_eq!(held.len(), 1);
        drop(held);
        assert!(locks.try_lock(b"a").is_some());
    }

    #[test]
    fn a_wait_that_is_given_up_is_passed_on() {
        let locks = KeyLocks::default();
        let mut context = Context::from_waker(Waker::noop());
        let first = locks.try_lock(b"a").unwrap();
        let wait = || Box::pin(locks.lock([&b"a"[..]].into_iter()));
        let (mut second, mut third) = (wait(), wait());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        drop(first);
        drop(second);
        assert!(third.as_mut().poll(&mut context).is_ready());
        drop(third);
        assert!(locks.are_free());
    }

    /// Threads with tasks that lock, try to, and give up, while a count says that each is alone.
    #[test]
    fn one_at_a_time_has_the_lock_and_all_get_it() {
        const ROUNDS: usize = 300;
        let locks = KeyLocks::default();
        let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let keys = [&b"a"[..], b"b"];
        let enter = |held: Locks| {
            assert_eq!(inside.fetch_add(1, Relaxed), 0);
            std::thread::yield_now();
            assert_eq!(inside.fetch_sub(1, Relaxed), 1);
            done.fetch_add(1, Relaxed);
            drop(held);
        };
        let work = |number: usize| {
            let (locks, enter) = (&locks, &enter);
            async move {
                for round in 0..ROUNDS {
                    match (number + round) % 3 {
                        0 => enter(locks.lock(keys.into_iter()).await),
                        1 => {
                            let mut given_up = pin!(locks.lock(keys.into_iter()));
                            let mut context = Context::from_waker(Waker::noop());
                            if let Poll::Ready(held) = given_up.as_mut().poll(&mut context) {
                                enter(held);
                            }
                        }
                        _ => {
                            if let Some(held) = locks.try_lock_all(keys.into_iter()) {
                                enter(held);
                            }
                        }
                    }
                    tokio::task::yield_now().await;
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let work = &work;
                scope.spawn(move || {
                    let builder = || tokio::runtime::Builder::new_current_thread();
                    let runtime = builder().build().unwrap();
                    let (a, b, c) = (work(thread), work(thread + 1), work(thread + 2));
                    runtime.block_on(timberline_store::join(a, timberline_store::join(b, c)));
                });
            }
        });
        // Those that neither gave up nor only tried: a third of all rounds.
        assert!(done.load(Relaxed) >= 9 * ROUNDS / 3);
        assert!(locks.are_free());
    }
}
