//! Two futures at once, and turns for others.

use std::pin::pin;
use std::task::Poll;

use timberline_io::yield_now;

/// Runs two futures on one task, to the end of both.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |context| {
        if first.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            second = Some(output);
        }
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// What has been done since others had a turn.
#[derive(Default)]
pub(crate) struct Turn(u32);

impl Turn {
    /// Another step is about to be done. After so many, others go on first; whether they did.
    pub async fn after(&mut self, most: u32) -> bool {
        self.0 += 1;
        let is_over = self.0 >= most;
        if is_over {
            self.0 = 0;
            yield_now().await;
        }
        is_over
    }
}
