//! A thread that waits for a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps while other threads do the work. To drive
/// the disk on this thread, use [`Driver::block_on`](crate::Driver::block_on).
pub fn wait_for<F: Future>(future: F) -> F::Output {
    wait(future, thread::park)
}

/// The same, and calls `each` whenever this much time has passed.
pub fn wait_for_beside<F: Future>(future: F, every: Duration, mut each: impl FnMut()) -> F::Output {
    let mut next = Instant::now() + every;
    wait(future, || {
        let now = Instant::now();
        if now >= next {
            each();
            next = now + every;
        }
        thread::park_timeout(next - now);
    })
}

fn wait<F: Future>(future: F, mut sleep: impl FnMut()) -> F::Output {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => sleep(),
        }
    }
}
