//! A thread that waits for a future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::queue::Queue;

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, which sleeps while other threads do the work: what it
/// asks a disk for is the first driver's. To drive the disk on this thread, use
/// [`Driver::block_on`](crate::Driver::block_on).
pub fn wait_for<F: Future>(future: F) -> F::Output {
    let _outside = Queue::leave();
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
