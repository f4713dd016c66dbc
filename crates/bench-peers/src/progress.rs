//! One line that says where a run is and how long it will take.
//!
//! On a terminal the line overwrites itself. Elsewhere it is printed at intervals, so that the log
//! of an hour stays short.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Minimum time between two lines of a log.
const EVERY: Duration = Duration::from_secs(10);

/// A run's progress, in expected milliseconds.
pub struct Progress {
    bar: ProgressBar,
    is_log: bool,
    last: Option<Instant>,
}

fn millis(seconds: f64) -> u64 {
    (1e3 * seconds) as u64
}

impl Progress {
    /// The progress of a run that is expected to take `total` seconds.
    pub fn new(total: f64, quiet: bool) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = match is_terminal && !quiet {
            true => ProgressBar::new(millis(total)),
            false => ProgressBar::hidden(),
        };
        bar.set_length(millis(total));
        let style = ProgressStyle::with_template("{percent:3} %  {msg}  about {eta} left");
        bar.set_style(style.expect("a constant template"));
        Progress {
            bar,
            is_log: !is_terminal && !quiet,
            last: None,
        }
    }

    /// Shows the current step.
    pub fn say(&mut self, what: &str) {
        self.bar.set_message(what.to_string());
        if self.is_log && self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.last = Some(Instant::now());
            let done = 100 * self.bar.position() / self.bar.length().unwrap_or(0).max(1);
            let left = HumanDuration(self.bar.eta());
            self.note(&format!("{done:3} %  {what}  {left} left"));
        }
    }

    /// Ends a step that was expected to take this many seconds.
    pub fn advance(&mut self, expected: f64) {
        self.bar.inc(millis(expected));
    }

    /// Adds a step to the expected time.
    pub fn expect(&mut self, more: f64) {
        self.bar.inc_length(millis(more));
    }

    /// Prints a permanent line.
    pub fn note(&mut self, line: &str) {
        // A closed stderr ends no run.
        self.bar
            .suspend(|| drop(writeln!(std::io::stderr(), "{line}")));
    }

    /// Ends the display.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
