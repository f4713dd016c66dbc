//! Threads that make requests beside the one that drives the disk.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::thread::{self, JoinHandle};

use timberline_io::wait_for;
use timberline_tier::emulator::{CacheSize, LineCounts, set_thread_cache, thread_counts};
use timberline_tier::hint::LINE;

use super::load::Requests;
use super::one_line;
use super::requests::{Latencies, in_flight};
use crate::workload::Rng;

/// Who makes requests.
#[derive(Clone, Copy)]
pub struct Threads {
    /// How many, with the one that drives the disk.
    pub number: usize,
    /// Where a part of the store may be in emulated memory: the modelled CPU cache of each thread.
    /// It is filled before the others begin. Each of them has a ring of its own then, as a core has
    /// in the stores of Bando et al.; otherwise all wait for the one that drives the disk.
    pub modelled: Option<CacheSize>,
}

impl Threads {
    /// The one that drives the disk.
    pub const ONE: Threads = Threads {
        number: 1,
        modelled: None,
    };
}

/// The part of each of them.
#[derive(Clone)]
pub struct Share {
    pub requests: Requests,
    /// Requests in flight.
    pub depth: usize,
    /// As [`Threads::modelled`].
    pub modelled: Option<CacheSize>,
}

/// What threads did.
#[derive(Default)]
pub struct Done {
    pub requests: u64,
    pub latencies: Latencies,
    /// What the emulator charged for them.
    pub lines: LineCounts,
}

/// Threads, until they are told to end.
pub struct Others {
    signals: Arc<Signals>,
    threads: Vec<JoinHandle<Result<Done, String>>>,
}

#[derive(Default)]
struct Signals {
    /// Threads that are ready to begin.
    ready: AtomicUsize,
    may_begin: AtomicBool,
    is_over: AtomicBool,
}

impl Signals {
    /// A thread is ready. Waits until all are.
    fn wait_to_begin(&self) {
        self.ready.fetch_add(1, Relaxed);
        while !self.may_begin.load(Relaxed) && !self.is_over.load(Relaxed) {
            thread::yield_now();
        }
    }
}

impl Others {
    /// So many threads, which wait for [`begin`](Self::begin). Each draws from a generator of its
    /// own.
    pub fn start(threads: usize, share: &Share, rng: &mut Rng) -> Others {
        let signals = Arc::new(Signals::default());
        let start = |nth| {
            let (share, signals) = (share.clone(), Arc::clone(&signals));
            let rng = Rng::new(rng.bits(), nth as u64);
            thread::spawn(move || match share.modelled {
                None => {
                    signals.wait_to_begin();
                    wait_for(share.until_over(rng, &signals))
                }
                Some(cache) => share.modelled_until_over(rng, &signals, cache),
            })
        };
        let threads = (0..threads).map(start).collect();
        Others { signals, threads }
    }

    /// Has them begin, when all of them are ready.
    pub async fn begin(&self) {
        let is_ready = || self.signals.ready.load(Relaxed) == self.threads.len();
        let has_failed = || self.threads.iter().any(JoinHandle::is_finished);
        turn_until(|| is_ready() || has_failed()).await;
        self.signals.may_begin.store(true, Relaxed);
    }

    /// Ends them, and says what they did.
    ///
    /// # Errors
    /// The first of a request, or one line: the system gives no ring.
    pub async fn end(self) -> Result<Done, String> {
        self.signals.is_over.store(true, Relaxed);
        turn_until(|| self.threads.iter().all(JoinHandle::is_finished)).await;
        let mut all = Done::default();
        for thread in self.threads {
            let done = thread.join().map_err(|_| "a thread panicked")??;
            all.requests += done.requests;
            all.latencies.add(&done.latencies);
            all.lines += done.lines;
        }
        Ok(all)
    }
}

impl Share {
    async fn until_over(&self, mut rng: Rng, signals: &Signals) -> Result<Done, String> {
        let is_over = |_| signals.is_over.load(Relaxed);
        let mut latencies = Latencies::default();
        let requests = self.run(&mut rng, &mut latencies, is_over).await?;
        Ok(Done {
            requests,
            latencies,
            lines: LineCounts::default(),
        })
    }

    fn modelled_until_over(
        &self,
        mut rng: Rng,
        signals: &Signals,
        cache: CacheSize,
    ) -> Result<Done, String> {
        set_thread_cache(cache);
        let driver = self.requests.to.store.disk().another_driver(self.depth);
        driver.map_err(one_line)?.block_on(async {
            // A request to an index that the cache can't hold reads a few lines that it has not.
            let enough = (cache.bytes() / LINE / 4) as u64;
            let mut untimed = Latencies::default();
            let is_warm = |done| done >= enough || signals.is_over.load(Relaxed);
            self.run(&mut rng, &mut untimed, is_warm).await?;
            signals.wait_to_begin();
            let before = thread_counts();
            let done = self.until_over(rng, signals).await?;
            Ok(Done {
                lines: thread_counts() - before,
                ..done
            })
        })
    }

    async fn run(
        &self,
        rng: &mut Rng,
        latencies: &mut Latencies,
        is_enough: impl FnMut(u64) -> bool,
    ) -> Result<u64, String> {
        let make = || self.requests.next(rng);
        in_flight(self.depth, latencies, make, is_enough).await
    }
}

/// Lets the thread that drives the disk go on with that until this is so.
async fn turn_until(is_so: impl Fn() -> bool) {
    poll_fn(|context| match is_so() {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
