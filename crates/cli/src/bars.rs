//! A run's progress on stderr: live bars on a terminal, plain lines elsewhere.
//!
//! Both show the current phase, its progress, its rate and its fast share. Plain lines are for
//! logs: each phase prints one when it begins and then at most one in [`EVERY`], so that the log of
//! a long run stays short. Nothing here fails: a closed stderr ends no run.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use timberline_bench::report::progress::{Progress, Silent};

/// Minimum time between two plain lines of a phase.
const EVERY: Duration = Duration::from_secs(5);

/// The display that suits stderr: bars, plain lines, or nothing when `quiet`.
pub fn for_stderr(quiet: bool) -> Box<dyn Progress> {
    if quiet {
        Box::new(Silent)
    } else if io::stderr().is_terminal() {
        Box::new(Bars::new(ProgressDrawTarget::stderr()))
    } else {
        Box::new(Lines::new(io::stderr()))
    }
}

/// One live bar, for the current phase.
pub struct Bars {
    bar: ProgressBar,
}

impl Bars {
    /// A bar that stays hidden until its first phase.
    pub fn new(target: ProgressDrawTarget) -> Self {
        Self {
            bar: ProgressBar::with_draw_target(None, target),
        }
    }
}

/// Parses a constant template, which can only fail in this file's tests.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

const COUNTED: &str = "{prefix:<28} {bar:24.green/dim} {percent:>3}% {msg} {elapsed:>4}";
const OPEN: &str = "{prefix:<28} {spinner} {msg} {elapsed:>4}";

impl Progress for Bars {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.bar
            .set_style(style(if total.is_some() { COUNTED } else { OPEN }));
        self.bar.reset();
        match total {
            Some(total) => self.bar.set_length(total),
            None => self.bar.unset_length(),
        }
        self.bar.set_message("");
        self.bar.set_prefix(name.to_string());
        self.bar.tick();
    }

    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>) {
        self.bar.set_message(figures(rate, fast_share));
        self.bar.set_position(done);
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Plain lines at intervals.
pub struct Lines<W> {
    state: Mutex<State<W>>,
    born: Instant,
}

struct State<W> {
    out: W,
    phase: String,
    total: Option<u64>,
    /// Time of the last line, since `born`.
    last: Duration,
}

impl<W: Write> Lines<W> {
    /// Prints the lines to `out`.
    pub fn new(out: W) -> Self {
        let state = State {
            out,
            phase: String::new(),
            total: None,
            last: Duration::ZERO,
        };
        Self {
            state: Mutex::new(state),
            born: Instant::now(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase_at(&self, now: Duration, name: &str, total: Option<u64>) {
        let mut state = self.state();
        state.phase = name.to_string();
        state.total = total;
        state.last = now;
        // A closed stderr is no error: progress has no reader then.
        let _ = writeln!(state.out, "{name}");
    }

    fn advance_at(&self, now: Duration, done: u64, rate: f64, fast_share: Option<f64>) {
        let mut state = self.state();
        if now < state.last + EVERY {
            return;
        }
        state.last = now;
        let percent = match state.total {
            Some(total) if total > 0 => {
                format!(" {:.0}%", 100.0 * done as f64 / total as f64)
            }
            _ => String::new(),
        };
        let phase = state.phase.clone();
        let _ = writeln!(state.out, "{phase}:{percent} {}", figures(rate, fast_share));
    }
}

impl<W: Write + Send> Progress for Lines<W> {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.phase_at(self.born.elapsed(), name, total);
    }

    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>) {
        self.advance_at(self.born.elapsed(), done, rate, fast_share);
    }

    fn finish(&self) {
        let _ = self.state().out.flush();
    }
}

/// Rate and fast share, at a constant width.
fn figures(rate: f64, fast_share: Option<f64>) -> String {
    let rate = match rate {
        rate if rate >= 1e5 => format!("{:6.2} Mops/s", rate / 1e6),
        rate => format!("{:6.2} kops/s", rate / 1e3),
    };
    match fast_share {
        Some(share) => format!("{rate}  fast share {share:.2}"),
        None => rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn text(lines: Lines<Vec<u8>>) -> String {
        String::from_utf8(lines.state.into_inner().unwrap().out).unwrap()
    }

    #[test]
    fn lines_are_few() {
        let lines = Lines::new(Vec::new());
        lines.phase_at(SECOND, "hs-c timberline", Some(200));
        for tick in 1..=12 {
            lines.advance_at(
                SECOND * (1 + tick),
                u64::from(tick) * 10,
                1.5e6,
                Some(0.875),
            );
        }
        assert_eq!(
            text(lines),
            "hs-c timberline\n\
             hs-c timberline: 25%   1.50 Mops/s  fast share 0.88\n\
             hs-c timberline: 50%   1.50 Mops/s  fast share 0.88\n"
        );
    }

    #[test]
    fn a_phase_without_a_total_has_no_percentage() {
        let lines = Lines::new(Vec::new());
        lines.phase_at(Duration::ZERO, "load", None);
        lines.advance_at(SECOND * 9, 10, 1234.0, None);
        lines.phase_at(SECOND * 10, "warm up", Some(0));
        lines.advance_at(SECOND * 11, 0, 0.0, None);
        assert_eq!(text(lines), "load\nload:   1.23 kops/s\nwarm up\n");
    }

    #[test]
    fn templates_are_well_formed() {
        assert!(ProgressStyle::with_template(COUNTED).is_ok());
        assert!(ProgressStyle::with_template(OPEN).is_ok());
    }

    #[test]
    fn a_bar_follows_its_phase() {
        let bars = Bars::new(ProgressDrawTarget::hidden());
        bars.phase("load", Some(10));
        bars.advance(4, 2e6, Some(0.5));
        assert_eq!((bars.bar.position(), bars.bar.length()), (4, Some(10)));
        assert_eq!(bars.bar.message(), "  2.00 Mops/s  fast share 0.50");
        bars.phase("run", None);
        assert_eq!((bars.bar.position(), bars.bar.length()), (0, None));
        assert_eq!(
            (bars.bar.prefix(), bars.bar.message()),
            ("run".into(), String::new())
        );
        bars.finish();
        assert!(bars.bar.is_finished());
    }
}
