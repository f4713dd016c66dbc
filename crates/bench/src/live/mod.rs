//! A live view of a run: a page on this machine that shows the trees by tier, and how they are
//! doing.
//!
//! [`Live`] hears a run as any [`Progress`] does and passes on what it hears; what it learns is in
//! its state, of which the page asks a server for a snapshot a few times a second. Nothing is added
//! to the path of a request, and nobody who asks is waited for.
//!
//! Counting nodes by level means to walk through a tree. That is done between turns, and takes at
//! most a twentieth of the time; while a map has its turn only if it takes less than a millisecond,
//! and once a second.

mod http;
mod row;
mod server;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::report::Sample;
use crate::report::progress::{Progress, Turn};
use state::State;

/// A live view, for as long as the process lives.
pub struct Live {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    next: Box<dyn Progress>,
}

impl Live {
    /// Serves the view on `port` of this machine's loopback address, on any free one if that is 0.
    /// Passes all it hears to `next`.
    ///
    /// # Errors
    /// The port is taken, or not allowed.
    pub fn start(port: u16, next: Box<dyn Progress>) -> io::Result<Live> {
        let state = Arc::default();
        let address = server::start(port, Arc::clone(&state))?;
        Ok(Live {
            address,
            state,
            next,
        })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts the nodes of the map whose turn it is, if it is time for that. The live state is free
    /// meanwhile.
    fn walk(&self, turn: Turn<'_>, is_running: bool) {
        if !self.state().wants_levels(is_running) {
            return;
        }
        let begun = Instant::now();
        let levels = turn.map.levels();
        self.state().set_levels(levels, begun.elapsed());
    }
}

/// Whoever panicked while it held the live state has left it in order: each change is one
/// assignment, or a push.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress for Live {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.state().phase(name, total);
        self.next.phase(name, total);
    }

    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>) {
        self.state().advance(done);
        self.next.advance(done, rate, fast_share);
    }

    fn looks_on(&self) -> bool {
        true
    }

    fn turn_begins(&self, turn: Turn<'_>) {
        self.state().turn_begins(&turn);
        self.walk(turn, false);
        self.next.turn_begins(turn);
    }

    fn turn_goes(&self, turn: Turn<'_>, sample: &Sample) {
        self.state().turn_goes(&turn, sample);
        self.walk(turn, true);
        self.next.turn_goes(turn, sample);
    }

    fn turn_ends(&self, turn: Turn<'_>, latencies: &Histogram<u64>) {
        self.state().turn_ends(&turn, latencies);
        self.walk(turn, false);
        self.next.turn_ends(turn, latencies);
    }

    fn finish(&self) {
        self.state().finish();
        self.next.finish();
    }
}
