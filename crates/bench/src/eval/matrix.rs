//! Runs the settings that have no cached result yet.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use timberline_tier::emulator::Base;

use super::figure::Figure;
use super::result_cache::ResultCache;
use super::results::CachedRun;
use super::setting::Setting;
use crate::report::{Meta, Progress};

/// The base costs and the metadata that all runs share.
pub struct Ground {
    /// The costs of fast memory, if they are given; otherwise each run measures them.
    pub base: Option<Base>,
    /// Machine and command; each run fills in the rest.
    pub meta: Meta,
    /// Where runs may make files, which they remove at their end.
    pub folder: PathBuf,
}

/// The distinct runs that figures need.
pub struct Matrix {
    settings: Vec<Setting>,
}

impl Matrix {
    pub fn of(figures: &[Figure]) -> Matrix {
        let mut settings: Vec<Setting> = Vec::new();
        for run in figures.iter().flat_map(|figure| &figure.runs) {
            if !settings.contains(&run.setting) {
                settings.push(run.setting.clone());
            }
        }
        Matrix { settings }
    }

    pub fn runs(&self) -> usize {
        self.settings.len()
    }

    /// Takes the cached results of the runs out of the matrix; only uncached runs remain.
    pub fn take_kept(&mut self, cache: &ResultCache) -> Vec<CachedRun> {
        let mut taken = Vec::new();
        self.settings.retain(|setting| {
            let kept = cache.find(setting);
            let is_left = kept.is_none();
            taken.extend(kept);
            is_left
        });
        taken
    }

    /// The estimated time of the runs on two cores.
    pub fn estimate(&self) -> Duration {
        Duration::from_secs_f64(self.settings.iter().map(Setting::estimate_s).sum())
    }

    /// Checks, before the first run, that each run fits into this many bytes of memory.
    ///
    /// # Errors
    /// One line about the first run that does not fit.
    pub fn check(&self, available: u64) -> Result<(), crate::BadInput> {
        self.settings
            .iter()
            .try_for_each(|setting| setting.check(available))
    }

    /// Runs the remaining settings, and caches each result at once; then `kept` receives it. Ends
    /// early once `interrupted` is true, and does not cache the interrupted run.
    ///
    /// # Errors
    /// One line: a run failed, or its result could not be cached.
    pub fn run(
        &self,
        ground: &Ground,
        cache: &ResultCache,
        progress: &dyn Progress,
        interrupted: &AtomicBool,
        mut kept: impl FnMut(CachedRun) -> Result<(), String>,
    ) -> Result<(), String> {
        let start = Instant::now();
        let mut pace = Pace::default();
        for (nth, setting) in self.settings.iter().enumerate() {
            if interrupted.load(Relaxed) {
                break;
            }
            let left = self.settings[nth..].iter().map(Setting::estimate_s).sum();
            let numbered = Numbered {
                inner: progress,
                prefix: format!(
                    "[{}/{}, {} left]",
                    nth + 1,
                    self.runs(),
                    span(pace.left_s(left))
                ),
            };
            let measured = setting.measure(ground, &numbered, interrupted);
            let results = measured.map_err(|line| format!("{setting}: {line}"))?;
            if interrupted.load(Relaxed) {
                break;
            }
            pace.did(setting.estimate_s(), start.elapsed());
            let setting = setting.clone();
            let run = CachedRun { setting, results };
            cache.keep(&run).map_err(|error| error.to_string())?;
            kept(run)?;
        }
        progress.finish();
        Ok(())
    }
}

/// Corrects estimates by the time that runs really took.
#[derive(Default)]
struct Pace {
    estimated_s: f64,
    taken_s: f64,
}

impl Pace {
    /// Records that runs estimated at `estimate_s` are done, after `since` in total.
    fn did(&mut self, estimate_s: f64, since: Duration) {
        self.estimated_s += estimate_s;
        self.taken_s = since.as_secs_f64();
    }

    /// The expected time of runs with this estimate.
    fn left_s(&self, estimate_s: f64) -> f64 {
        match self.estimated_s > 0.0 {
            true => estimate_s * self.taken_s / self.estimated_s,
            false => estimate_s,
        }
    }
}

/// A duration, at the precision of an estimate.
pub fn span(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Prefixes each phase with the run it belongs to.
struct Numbered<'a> {
    inner: &'a dyn Progress,
    prefix: String,
}

impl Progress for Numbered<'_> {
    fn phase(&self, name: &str, total: Option<u64>) {
        self.inner.phase(&format!("{} {name}", self.prefix), total);
    }

    fn advance(&self, done: u64, rate: f64, fast_share: Option<f64>) {
        self.inner.advance(done, rate, fast_share);
    }

    // The end of a run is not the end of the matrix.
    fn finish(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::Summary;
    use crate::eval::figure::tests::figure;
    use crate::eval::results::Results;
    use crate::report::{Outcome, Report};

    #[test]
    fn equal_settings_are_run_once() {
        let matrix = Matrix::of(&[figure(), figure()]);
        assert_eq!(matrix.runs(), 2);
        matrix.check(1 << 30).unwrap();
        let line = matrix.check(1 << 10).unwrap_err().to_string();
        assert!(line.contains("MiB"), "{line}");
    }

    #[test]
    fn what_is_kept_is_read_once_and_stands_wherever_it_was_asked_for() {
        let folder = format!("timberline-matrix-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let cache = ResultCache::open(&folder).unwrap();
        let (figure, results) = (figure(), vec![Outcome::default()]);
        let kept = CachedRun {
            setting: figure.runs[0].setting.clone(),
            results: Results::Report(Report {
                results,
                ..Report::default()
            }),
        };
        cache.keep(&kept).unwrap();
        let mut matrix = Matrix::of(std::slice::from_ref(&figure));
        let taken = matrix.take_kept(&cache);
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!((taken.len(), matrix.runs()), (1, 1));

        let mut summary = Summary::new(Meta::default(), vec![figure]);
        taken.into_iter().for_each(|kept| summary.add(kept));
        let there = |summary: &Summary| -> Vec<bool> {
            let runs = summary.figures[0].runs.iter();
            runs.map(Option::is_some).collect()
        };
        // The first and the third run have the same setting.
        assert_eq!(there(&summary), [true, false, true]);
        let setting = matrix.settings[0].clone();
        summary.add(CachedRun { setting, ..kept });
        assert_eq!(there(&summary), [true; 3]);
    }

    #[test]
    fn what_is_left_follows_from_what_was_taken() {
        let mut pace = Pace::default();
        assert_eq!(pace.left_s(10.0), 10.0);
        pace.did(10.0, Duration::from_secs(20));
        pace.did(10.0, Duration::from_secs(30));
        assert_eq!(pace.left_s(10.0), 15.0);
        assert_eq!([30.0, 120.0, 7200.0].map(span), ["30 s", "2 min", "2.0 h"]);
    }
}
