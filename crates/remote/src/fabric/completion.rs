//! A result that comes later.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::error::Result;
use crate::fabric::Reply;

#[derive(Debug)]
enum State<T> {
    Waiting(Option<Waker>),
    Done(Option<T>),
}

/// The result of an operation that has begun: a future. Dropping it does not undo the operation.
#[derive(Debug)]
pub struct Completion<T = Result<Reply>>(Arc<Mutex<State<T>>>);

/// Where the result of an operation is put, once.
#[derive(Debug)]
pub struct Completer<T = Result<Reply>>(Arc<Mutex<State<T>>>);

impl<T> Clone for Completer<T> {
    fn clone(&self) -> Self {
        Completer(Arc::clone(&self.0))
    }
}

impl<T> Completion<T> {
    /// One that is complete.
    pub fn ready(result: T) -> Completion<T> {
        Completion(Arc::new(Mutex::new(State::Done(Some(result)))))
    }

    /// One that waits, and what completes it. Of several clones of that, the first completes it.
    pub fn pending() -> (Completion<T>, Completer<T>) {
        let state = Arc::new(Mutex::new(State::Waiting(None)));
        (Completion(Arc::clone(&state)), Completer(state))
    }
}

#[cfg(feature = "libfabric")]
impl<T> Completion<T> {
    /// The result, if it is there and was not taken.
    pub(super) fn take(&mut self) -> Option<T> {
        match &mut *lock(&self.0) {
            State::Waiting(_) => None,
            State::Done(result) => result.take(),
        }
    }
}

impl<T> Completer<T> {
    /// Puts the result there, unless there is one already, and wakes the task that waits for it.
    pub fn complete(&self, result: T) {
        if let Some(waker) = self.put(result) {
            waker.wake();
        }
    }

    /// The same, but the caller has to wake the task.
    pub(super) fn put(&self, result: T) -> Option<Waker> {
        let mut state = lock(&self.0);
        let State::Waiting(waker) = &mut *state else {
            return None;
        };
        let waker = waker.take();
        *state = State::Done(Some(result));
        waker
    }
}

impl<T> Future for Completion<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut *lock(&self.0) {
            State::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Done(result) => {
                Poll::Ready(result.take().expect("it is polled to its end once"))
            }
        }
    }
}

/// Lets other tasks go on.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    // Wakers run outside of the lock, so no panic leaves it half changed.
    state.lock().unwrap_or_else(|it| it.into_inner())
}
