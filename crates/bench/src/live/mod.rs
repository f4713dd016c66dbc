//! A live view of a run: a page on this machine that shows the trees by tier, and how they are doing.
//!
//! [`Live`] hears a run as any [`Progress`] does and passes on what it hears; what it learns is on a board, of which the page asks a
//! server for a snapshot a few times a second. Nothing is added to the path of a request, and nobody who asks is waited for.
//!
//! Counting nodes by level means to walk through a tree. That is done between turns, and takes at most a twentieth of the time;
//! while a map has its turn only if it takes less than a millisecond, and once a second.

mod board;
mod http;
mod row;
mod server;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::report::Sample;
use crate::report::progress::{Progress, Turn};
use board::Board;

/// A live view, for as long as the process lives.
pub struct Live {
    address: SocketAddr,
    board: Arc<Mutex<Board>>,
    next: Box<dyn Progress>,
}

impl Live {
    /// Serves the view on `port` of this machine's loopback address, on any free one if that is 0. Passes all it hears to `next`.
    ///
    /// # Errors
    /// The port is taken, or not allowed.
    pub fn start(port: u16, next: Box<dyn Progress>) -> io::Result<Live> {
        let board = Arc::default();
        let address = server::start(port, Arc::clone(&board))?;
        Ok(Live {
            address,
            board,
            next,
        })
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    /// Counts the nodes of the map whose turn it is, if it is time for that. The board is free meanwhile.
    fn walk(&self, turn: Turn<'_>, is_running: bool) {
        if !self.board().wants_levels(is_running) {
            return;
        }
        let begun = Instant::now();
        let levels = turn.map.levels();
        self.board().set_levels(levels, begun.elapsed());
    }
}

/// Whoever panicked while it held the board has left it in order: each change is one assignment, or a push.
fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress for Live {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.board().phase(name, total);
        self.next.phase(name, total);
    }

    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>) {
        self.board().advance(done);
        self.next.advance(done, rate, fast_share);
    }

    fn looks_on(&self) -> bool {
        true
    }

    fn turn_begins(&self, turn: Turn<'_>) {
        self.board().turn_begins(&turn);
        self.walk(turn, false);
        self.next.turn_begins(turn);
    }

    fn turn_goes(&self, turn: Turn<'_>, sample: &Sample) {
        self.board().turn_goes(&turn, sample);
        self.walk(turn, true);
        self.next.turn_goes(turn, sample);
    }

    fn turn_ends(&self, turn: Turn<'_>, latencies: &Histogram<u64>) {
        self.board().turn_ends(&turn, latencies);
        self.walk(turn, false);
        self.next.turn_ends(turn, latencies);
    }

    fn finish(&self) {
        self.board().finish();
        self.next.finish();
    }
}
