//! One line that says where a run is and how long it will take.
//!
//! On a terminal the line is written over itself. Elsewhere it is written now and then, so that a log of an
//! hour stays short.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The least time between two lines of a log.
const EVERY: Duration = Duration::from_secs(10);

/// A run's progress, in units of expected seconds.
pub struct Progress {
    begin: Instant,
    done: f64,
    total: f64,
    terminal: bool,
    quiet: bool,
    last: Option<Instant>,
}

impl Progress {
    /// Of a run that is expected to take `total` seconds.
    pub fn new(total: f64, quiet: bool) -> Progress {
        Progress {
            begin: Instant::now(),
            done: 0.0,
            total,
            terminal: std::io::stderr().is_terminal(),
            quiet,
            last: None,
        }
    }

    /// Says what is done now.
    pub fn say(&mut self, what: &str) {
        if self.quiet {
            return;
        }
        let now = Instant::now();
        if !self.terminal && self.last.is_some_and(|last| now - last < EVERY) {
            return;
        }
        self.last = Some(now);
        let left = left(self.begin.elapsed().as_secs_f64(), self.done, self.total);
        let percent = (100.0 * self.done / self.total.max(1e-9)).min(100.0);
        let (before, after) = if self.terminal {
            ("\r", "\x1b[K")
        } else {
            ("", "\n")
        };
        // A stderr that is gone ends no run.
        let _ = write!(
            std::io::stderr(),
            "{before}{percent:3.0} %  {what}{left}{after}"
        );
    }

    /// Something that was expected to take so many seconds is over.
    pub fn advance(&mut self, expected: f64) {
        self.done += expected;
    }

    /// Something more is to be done.
    pub fn expect(&mut self, more: f64) {
        self.total += more;
    }

    /// Writes a line that stays.
    pub fn note(&mut self, line: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}{line}");
    }

    /// Nothing further comes.
    pub fn finish(&self) {
        if self.terminal && !self.quiet {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The time left, from how long the work done so far took.
fn left(elapsed: f64, done: f64, total: f64) -> String {
    if done <= 0.0 || elapsed < 2.0 {
        return String::new();
    }
    let seconds = elapsed * (total - done).max(0.0) / done;
    if seconds < 90.0 {
        format!("  about {seconds:.0} s left")
    } else {
        format!("  about {:.0} min left", seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_reckoned_from_what_is_done() {
        assert_eq!(left(10.0, 5.0, 20.0), "  about 30 s left");
        assert_eq!(left(100.0, 10.0, 40.0), "  about 5 min left");
        assert_eq!(left(100.0, 50.0, 40.0), "  about 0 s left");
        assert_eq!(left(0.5, 5.0, 20.0), "");
        assert_eq!(left(10.0, 0.0, 20.0), "");
    }
}
