//! Locks of keys, of which there is a fixed number: keys share them by a hash.
//!
//! Almost always a lock is free. So it is one word, taken and given back by one atomic operation
//! each, and all words lie together. Who has to wait says so in the word, and is woken by whoever
//! gives the lock back.
//!
//! ```text
//! bits 33 to 63  those who wait and lost patience     bit 32  somebody holds the lock
//! bits 0 to 31   those who wait
//! ```
//!
//! **None is forgotten.** The first to wait is counted while the lock may just have been given
//! back, so it looks once more itself; all later ones were counted while somebody held the lock, or
//! while that first one was about to look, or a wake-up was on its way. Whoever gets the lock finds
//! them counted when it gives it back, and wakes one. The order of all changes of one word decides
//! which, so no fence is needed. A wake-up that comes before its sleep is kept by [`Notify`], and
//! one whose waiter is dropped goes to the next.
//!
//! **Who finds the lock free takes it**, even if others wait: a waiter needs microseconds to wake
//! up, and if the lock were kept for it, each of many commands with one key would wait, and each
//! would pass the lock on at the price of a wake-up.
//!
//! **None waits for ever.** Who was woken [`PATIENCE`] times and found the lock taken again says so
//! in the word. From then on until it has the lock only those who wait get it, about in their
//! order: who was woken in vain joins the end of the queue.

use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use smallvec::SmallVec;
use tokio::sync::Notify;

/// Locks. A power of two, at most 2^16.
const STRIPES: usize = 4096;
const HELD: u64 = 1 << 32;
const WAITERS: u64 = HELD - 1;
/// One who waits and lost patience.
const HURRY: u64 = HELD << 1;
/// How often one who waits is woken and finds the lock taken, before it keeps others from
/// overtaking it.
const PATIENCE: u32 = if cfg!(test) { 2 } else { 32 };

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

/// One who waits, until it is dropped or has the lock.
struct Waiter<'a> {
    word: &'a AtomicU64,
    /// What it is in the word: 1, with [`HURRY`] if it lost patience; 0 if it has the lock.
    counted: u64,
    /// Times it was woken in vain.
    in_vain: u32,
}

impl Default for KeyLocks {
    fn default() -> KeyLocks {
        KeyLocks {
            words: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            queues: (0..STRIPES).map(|_| Notify::new()).collect(),
        }
    }
}

impl KeyLocks {
    /// The lock of a key, if it is free and nobody lost patience with it.
    pub fn try_lock(&self, key: &[u8]) -> Option<KeyLock<'_>> {
        self.try_stripe(stripe_of(key))
    }

    /// This lock, under the same condition.
    pub fn try_lock_at(&self, stripe: Stripe) -> Option<KeyLock<'_>> {
        self.try_stripe(stripe.0.into())
    }

    /// Those of several keys, if each can be had so.
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
        let free = |word: u64| (word < HELD).then_some(word | HELD);
        let taken = self.words[stripe].fetch_update(Acquire, Relaxed, free);
        taken.is_ok().then(|| self.held(stripe))
    }

    async fn stripe(&self, stripe: usize) -> KeyLock<'_> {
        if let Some(lock) = self.try_stripe(stripe) {
            return lock;
        }
        let (mut waiter, mut looks) = Waiter::new(&self.words[stripe]);
        loop {
            let mut woken = pin!(self.queues[stripe].notified());
            // From here on it does not miss who gives the lock back.
            woken.as_mut().enable();
            if looks && waiter.take() {
                break;
            }
            woken.await;
            if waiter.take() {
                break;
            }
            waiter.note_in_vain();
            looks = true;
        }
        self.held(stripe)
    }

    fn held(&self, stripe: usize) -> KeyLock<'_> {
        KeyLock {
            locks: self,
            stripe,
        }
    }
}

impl Waiter<'_> {
    /// One more who waits for this lock, and whether it is the first.
    fn new(word: &AtomicU64) -> (Waiter<'_>, bool) {
        let is_first = word.fetch_add(1, Relaxed) & WAITERS == 0;
        let waiter = Waiter {
            word,
            counted: 1,
            in_vain: 0,
        };
        (waiter, is_first)
    }

    /// Takes the lock, if nobody holds it: it is no waiter any more. Says whether it did.
    fn take(&mut self) -> bool {
        let free = |word: u64| (word & HELD == 0).then(|| (word - self.counted) | HELD);
        let is_taken = self.word.fetch_update(Acquire, Relaxed, free).is_ok();
        if is_taken {
            self.counted = 0;
        }
        is_taken
    }

    /// It was woken in vain once more, and may lose patience.
    fn note_in_vain(&mut self) {
        self.in_vain += 1;
        if self.in_vain == PATIENCE {
            self.counted += HURRY;
            self.word.fetch_add(HURRY, Relaxed);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.word.fetch_sub(self.counted, Relaxed);
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
            let is_free = |it: &AtomicU64| it.load(Relaxed) == 0;
            self.words.iter().all(is_free)
        }
    }

    #[test]
    fn who_was_woken_in_vain_too_often_is_not_overtaken_any_more() {
        let locks = KeyLocks::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut held = locks.try_lock(b"a").unwrap();
        assert!(locks.try_lock(b"a").is_none() && locks.try_lock(b"b").is_some());
        for gives_up in [false, true] {
            let mut waits = Box::pin(locks.lock([&b"a"[..]].into_iter()));
            for _ in 0..PATIENCE {
                assert!(waits.as_mut().poll(&mut context).is_pending());
                drop(held);
                held = locks.try_lock(b"a").expect("it may still be overtaken");
            }
            assert!(waits.as_mut().poll(&mut context).is_pending());
            drop(held);
            assert!(locks.try_lock(b"a").is_none());
            assert!(locks.try_lock_all([&b"b"[..], b"a"].into_iter()).is_none());
            if !gives_up {
                let Poll::Ready(held) = waits.as_mut().poll(&mut context) else {
                    panic!("it was woken");
                };
                assert_eq!(held.len(), 1);
            }
            drop(waits);
            held = locks.try_lock(b"a").expect("nobody waits any more");
        }
        drop(held);
        assert!(locks.are_free());
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
