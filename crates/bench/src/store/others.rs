//! Threads that get records beside the one that drives the disk.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::thread::{self, JoinHandle};

use timberline_io::wait_for;
use timberline_store::Store;

use super::record::get;
use super::requests::{Latencies, in_flight};
use crate::workload::Rng;

/// Which record is wanted next.
pub type Draw = Arc<dyn Fn(&mut Rng) -> u64 + Send + Sync>;

/// What is got.
pub struct Gets<'a> {
    pub store: &'a Store,
    pub draw: &'a Draw,
    pub value_bytes: usize,
    /// Requests in flight on each thread.
    pub depth: usize,
}

type Ended = Result<(u64, Latencies), String>;

/// Threads, until they are told to end.
pub struct Others {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Ended>>,
}

impl Others {
    /// So many threads, which begin at once. Each draws from a generator of its own.
    pub fn begin(threads: usize, gets: &Gets, rng: &mut Rng) -> Others {
        let is_over = Arc::new(AtomicBool::new(false));
        let begin = |nth| {
            let (store, draw, is_over) = (gets.store.clone(), gets.draw.clone(), is_over.clone());
            let (value_bytes, depth) = (gets.value_bytes, gets.depth);
            let mut rng = Rng::new(rng.bits(), nth as u64);
            thread::spawn(move || {
                let mut latencies = Latencies::default();
                let make = || get(store.clone(), draw(&mut rng), value_bytes);
                let done = in_flight(depth, &mut latencies, make, |_| is_over.load(Relaxed));
                wait_for(done).map(|done| (done, latencies))
            })
        };
        let threads = (0..threads).map(begin).collect();
        Others { is_over, threads }
    }

    /// Ends them, and says how many requests ended; adds their times to `latencies`.
    ///
    /// # Errors
    /// The first of a request.
    pub async fn end(self, latencies: &mut Latencies) -> Result<u64, String> {
        self.is_over.store(true, Relaxed);
        // The disk is driven by the thread that waits here.
        poll_fn(
            |context| match self.threads.iter().all(JoinHandle::is_finished) {
                true => Poll::Ready(()),
                false => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            },
        )
        .await;
        let mut done = 0;
        for thread in self.threads {
            let ended = thread.join().map_err(|_| "a thread panicked")?;
            let (more, theirs) = ended?;
            done += more;
            latencies.add(&theirs);
        }
        Ok(done)
    }
}
