//! The future of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::queue::{Completion, Queue, Ticket};

/// A request that was made, until it is complete.
pub(crate) struct Pending {
    queue: Arc<Queue>,
    /// `None` when its result was fetched.
    ticket: Option<Ticket>,
}

impl Pending {
    pub fn new(queue: &Arc<Queue>, ticket: Ticket) -> Pending {
        Pending {
            queue: Arc::clone(queue),
            ticket: Some(ticket),
        }
    }
}

impl Future for Pending {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        let ticket = self.ticket.expect("a future is not polled after its end");
        let result = self.queue.poll(ticket, context.waker());
        if result.is_ready() {
            self.ticket = None;
        }
        result
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.queue.abandon(ticket);
        }
    }
}
