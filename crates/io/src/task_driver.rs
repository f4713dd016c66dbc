//! A driver that is a task of an event loop.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::queue::Queue;
use crate::uring::Ring;
use crate::yield_now;

/// Carries out the requests of the tasks of one thread, as one of them. When it is dropped,
/// requests that were not begun fail, and it waits for the others.
///
/// Its thread may not wait for a request without letting it run. (In [`wait_for`](crate::wait_for)
/// it may for what is asked for there: that is the first driver's.)
pub struct TaskDriver {
    ring: Ring,
    queue: Arc<Queue>,
}

impl TaskDriver {
    pub(crate) fn new(queue: Arc<Queue>, depth: usize) -> io::Result<TaskDriver> {
        let ring = Ring::of_a_loop(&queue, depth)?;
        Ok(TaskDriver { ring, queue })
    }

    /// Drives the disk until it is dropped. Requests that its thread makes meanwhile are its own.
    /// It stays the task that it is: requests wake that one.
    ///
    /// `ended` waits until the driver's descriptor is readable: requests have ended. It may return
    /// for nothing, and is dropped and called again where others are to begin.
    ///
    /// # Errors
    /// Those of `ended`; the kernel refuses the ring. Its requests have failed then, and what the
    /// thread asks for next is the first driver's.
    pub async fn run(
        mut self,
        mut ended: impl AsyncFnMut() -> io::Result<()>,
    ) -> io::Result<Infallible> {
        let _entered = self.queue.enter();
        loop {
            if self.ring.turn_now()? {
                // Those that it woke go first.
                yield_now().await;
                continue;
            }
            let has_room = self.ring.has_room();
            let mut ended = pin!(ended());
            poll_fn(|context| {
                let bell = self.queue.poll_bell(has_room, context.waker());
                match bell {
                    Poll::Ready(()) => Poll::Ready(Ok(())),
                    Poll::Pending => ended.as_mut().poll(context),
                }
            })
            .await?;
            self.queue.bell().rise();
        }
    }
}

impl AsFd for TaskDriver {
    /// Readable when requests have ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
