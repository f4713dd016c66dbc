//! What holds workers out of their steps during a pause and after a stop.

use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;

/// Lets workers into their steps, or holds them out.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
pub struct GateState {
    pub paused: bool,
    pub stopped: bool,
    inside: usize,
}

impl Gate {
    /// Waits out a pause; false when stopped.
    pub fn enter(&self) -> bool {
        let state = lock(&self.state);
        let held_out = |state: &mut GateState| state.paused && !state.stopped;
        let waited = self.changed.wait_while(state, held_out);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return false;
        }
        state.inside += 1;
        true
    }

    /// Ends what a successful [`Self::enter`] began.
    pub fn leave(&self) {
        lock(&self.state).inside -= 1;
        self.changed.notify_all();
    }

    /// Lets nobody in, and waits until nobody is inside.
    pub fn pause(&self) {
        let mut state = lock(&self.state);
        state.paused = true;
        let waited = self.changed.wait_while(state, |state| state.inside > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub fn set(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}
