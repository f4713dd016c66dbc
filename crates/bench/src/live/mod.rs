//! A live view of a run: a local page that shows the trees by tier and their figures.
//!
//! [`Live`] receives the events of a run like any [`Progress`] and passes them on. It keeps them in
//! its state, and the page requests a snapshot of it a few times a second. Nothing is added to the
//! path of a request, and the run waits for no client.
//!
//! Counting nodes by level walks a tree. Walks are made between turns and take at most a twentieth
//! of the time. During a map's turn, they are made at most once a second, and only if they take
//! less than a millisecond.

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

/// A live view, which lasts until the process ends.
pub struct Live {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    next: Box<dyn Progress>,
}

impl Live {
    /// Serves the view on `port` of this machine's loopback address, or on any free port if `port`
    /// is 0. Passes all events to `next`.
    ///
    /// # Errors
    /// The port is in use, or not allowed.
    pub fn start(port: u16, next: Box<dyn Progress>) -> io::Result<Live> {
        let state = Arc::default();
        let address = server::start(port, Arc::clone(&state))?;
        Ok(Live {
            address,
            state,
            next,
        })
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts the nodes of the current map if a walk is due. The live state is unlocked meanwhile.
    fn walk(&self, turn: Turn<'_>, is_running: bool) {
        if !self.state().wants_levels(is_running) {
            return;
        }
        let begun = Instant::now();
        let levels = turn.map.levels();
        self.state().set_levels(levels, begun.elapsed());
    }
}

/// A panic leaves the live state consistent: each change is one assignment or one push.
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
