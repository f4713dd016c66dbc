//! How a worker is woken.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Next, lock};

/// Wakes one worker. Clones wake the same one. Works before there are threads, too.
#[derive(Clone, Default)]
pub struct Waker(Arc<Signal>);

#[derive(Default)]
struct Signal {
    flags: Mutex<Flags>,
    changed: Condvar,
}

#[derive(Default)]
struct Flags {
    woken: bool,
    stopped: bool,
}

impl Waker {
    /// A handle that wakes nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the worker take a step soon. Several wake-ups before that step count as one.
    pub fn wake(&self) {
        lock(&self.0.flags).woken = true;
        self.0.changed.notify_one();
    }

    /// Whether there was a wake-up since the last step or the last call of this: for whoever
    /// steps workers by hand.
    pub fn take(&self) -> bool {
        std::mem::take(&mut lock(&self.0.flags).woken)
    }

    pub(super) fn stop(&self) {
        lock(&self.0.flags).stopped = true;
        self.0.changed.notify_one();
    }

    /// Waits for what `next` names; false when stopped.
    pub(super) fn wait(&self, next: Next) -> bool {
        let flags = lock(&self.0.flags);
        let idle = |flags: &mut Flags| !flags.woken && !flags.stopped;
        let mut flags = match next {
            Next::After(time) => {
                let waited = self.0.changed.wait_timeout_while(flags, time, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            Next::WhenWoken => {
                let waited = self.0.changed.wait_while(flags, idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        flags.woken = false;
        !flags.stopped
    }
}
