//! Requests carried out by a pool of threads.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::queue::{Queue, Request};

/// Threads that take requests from the queue, each one at a time.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts fewer threads if the system refuses some. Without any, the driver's thread executes
    /// the requests.
    pub fn new(queue: &Arc<Queue>, threads: usize) -> Pool {
        let spawn = |number| {
            let queue = Arc::clone(queue);
            let builder = std::thread::Builder::new().name(format!("timberline-io-{number}"));
            let run = move || {
                let _closes = ClosesInPanic(&queue);
                while work(&queue, Queue::wait_for_request) {}
            };
            builder.spawn(run).ok()
        };
        let threads = (0..threads).map_while(spawn).collect();
        Pool {
            queue: Arc::clone(queue),
            threads,
        }
    }

    /// Sleeps until the bell rings, for so long at most.
    pub fn turn(&self, wait: Duration) {
        if self.threads.is_empty() {
            while work(&self.queue, Queue::take) {}
        }
        if !wait.is_zero() {
            self.queue.sleep_in_bed(self.threads.is_empty(), wait);
        }
    }
}

/// Carries one request out, if `next` has one.
fn work(queue: &Queue, next: fn(&Queue) -> Option<(usize, Request)>) -> bool {
    let Some((ticket, request)) = next(queue) else {
        return false;
    };
    request.carry_out(ticket, queue);
    true
}

/// A waker, which is a caller's code, has panicked on a thread of the pool: requests fail, as when
/// a thread that drives a ring panics. None waits for threads that are gone.
struct ClosesInPanic<'a>(&'a Queue);

impl Drop for ClosesInPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
