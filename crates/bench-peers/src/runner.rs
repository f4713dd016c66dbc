//! Runs the subjects in rounds: in each, all of them start anew, load, and take turns at each
//! workload, A B C A B C, one process at a time.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use timberline_bench::report::{Outcome, median};

use crate::child::{CHECK, Child, Order};
use crate::keys::Kind;
use crate::memory::Pages;
use crate::result::{Figures, fill_ratios};
use crate::rows::{LOAD, Rows, workload};
use crate::subjects::{Row, Side};
use crate::worker::Step;

/// The unmeasured part of a turn, which fills the caches, as a fraction of the measured part.
const WARM: f64 = 0.2;
/// How long a child may overrun its requested time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest loading that the runner waits for, records a second.
const SLOWEST_LOAD: u64 = 20_000;
/// Estimated bytes of memory for each record of each subject.
const BYTES_PER_RECORD: u64 = 110;
/// Minimum time between two lines of a log.
const EVERY: Duration = Duration::from_secs(10);

pub struct Plan {
    /// The subjects, in the order of a round.
    pub subjects: Vec<&'static Row>,
    /// Kinds of keys with their workloads.
    pub rows: Rows,
    /// Sizes of pages, measured one after the other.
    pub pages: Vec<Pages>,
    pub threads: u64,
    pub records: u64,
    pub rounds: usize,
    pub slice: Duration,
    pub seed: u64,
    /// The file of URLs, if any.
    pub urls: Option<PathBuf>,
    /// The file of words, if any.
    pub words: Option<PathBuf>,
    /// Whether to show no progress.
    pub quiet: bool,
}

impl Plan {
    /// The subjects that support keys of this kind.
    fn takers(&self, keys: Kind) -> Vec<&'static Row> {
        let takes = |row: &&&Row| row.scans(keys).is_some();
        self.subjects.iter().filter(takes).copied().collect()
    }

    pub fn file(&self, keys: Kind) -> Option<&PathBuf> {
        match keys {
            Kind::Urls => self.urls.as_ref(),
            Kind::Words => self.words.as_ref(),
            _ => None,
        }
    }

    /// Checks that the maps of a round fit into `available` bytes.
    ///
    /// # Errors
    /// One line that names limits that fit.
    pub fn check_memory(&self, available: u64) -> Result<(), String> {
        let most = self.rows.keys().map(|&keys| self.takers(keys).len());
        let most = most.max().unwrap_or(0) as u64;
        let needed = most.saturating_mul(self.records) / 1024 * BYTES_PER_RECORD;
        if needed <= available / 1024 {
            return Ok(());
        }
        Err(format!(
            "{most} maps of {} records need about {} MiB and {} MiB are free: give fewer --records or fewer --index",
            self.records,
            needed >> 10,
            available >> 20
        ))
    }
}

pub struct Came {
    pub results: Vec<Figures>,
    /// The subjects left out, each with its reason.
    pub excluded: Vec<String>,
    /// Whether one of ours answered wrongly, which ended the run.
    pub ours_failed: bool,
}

/// Runs the plan. Also returns the results measured before `interrupted` became true.
pub fn run(plan: &Plan, interrupted: &AtomicBool) -> Came {
    let mut runner = Runner {
        plan,
        interrupted,
        begun: Instant::now(),
        said: None,
        came: Came {
            results: Vec::new(),
            excluded: Vec::new(),
            ours_failed: false,
        },
    };
    for &pages in &plan.pages {
        for (&keys, workloads) in &plan.rows {
            runner.map(keys, pages, workloads);
        }
    }
    if !plan.quiet && std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    fill_ratios(&mut runner.came.results);
    runner.came
}

struct Runner<'a> {
    plan: &'a Plan,
    interrupted: &'a AtomicBool,
    begun: Instant,
    said: Option<Instant>,
    came: Came,
}

/// A subject that is still in the run.
struct Running {
    row: &'static Row,
    /// The steps of each round, in the order of the steps.
    rounds: Vec<Vec<Step>>,
    child: Option<Child>,
}

impl Runner<'_> {
    fn is_over(&self) -> bool {
        self.interrupted.load(Relaxed) || self.came.ours_failed
    }

    fn map(&mut self, keys: Kind, pages: Pages, workloads: &[String]) {
        let mut steps = vec![LOAD];
        let others = workloads.iter().map(String::as_str);
        steps.extend(others.filter(|name| *name != LOAD));
        let takers = self.plan.takers(keys).into_iter();
        let mut entries: Vec<_> = takers
            .map(|row| Running {
                row,
                rounds: vec![Vec::new(); steps.len()],
                child: None,
            })
            .collect();
        for round in 1..=self.plan.rounds {
            let at = format!("{} pages, {}, round {round}", pages.name(), keys.name());
            self.each(&mut entries, &at, |runner, entry| {
                entry.child = Some(Child::start(&runner.order(entry.row, keys, pages))?);
                if round > 1 || entry.row.side == Side::Floor {
                    return Ok(());
                }
                runner.ask(entry, CHECK).map(drop)
            });
            for (nth, step) in steps.iter().enumerate() {
                let scans = workload(step).is_ok_and(|workload| workload.mix().scan > 0);
                let at = format!("{at}, {step}");
                self.each(&mut entries, &at, |runner, entry| {
                    if !scans || entry.row.scans(keys) == Some(true) {
                        let step = runner.ask(entry, step)?;
                        entry.rounds[nth].push(step);
                    }
                    Ok(())
                });
            }
            // Ends the processes.
            for entry in &mut entries {
                entry.child = None;
            }
        }
        for (nth, step) in steps.iter().enumerate() {
            if !workloads.iter().any(|name| name == step) {
                continue;
            }
            for entry in entries.iter().filter(|entry| !entry.rounds[nth].is_empty()) {
                let loads = &entry.rounds[0];
                let figures = self.figures(entry.row, step, &entry.rounds[nth], loads);
                self.came.results.push(Figures {
                    keys: keys.name(),
                    pages: pages.name(),
                    ..figures
                });
            }
        }
    }

    fn order(&self, row: &Row, keys: Kind, pages: Pages) -> Order {
        Order {
            index: row.name.into(),
            keys,
            file: self.plan.file(keys).cloned(),
            records: self.plan.records,
            threads: self.plan.threads,
            seed: self.plan.seed,
            pages,
            warm: self.plan.slice.mul_f64(WARM),
            length: self.plan.slice,
        }
    }

    /// A turn for each subject. One that fails is left out from then on; one of ours ends the
    /// run.
    fn each(
        &mut self,
        entries: &mut Vec<Running>,
        at: &str,
        mut turn: impl FnMut(&mut Self, &mut Running) -> Result<(), String>,
    ) {
        entries.retain_mut(|entry| {
            if self.is_over() {
                return true;
            }
            self.say(&format!("{at}: {}", entry.row.name));
            let Err(why) = turn(self, entry) else {
                return true;
            };
            if self.interrupted.load(Relaxed) {
                return true;
            }
            let Row { name, version, .. } = entry.row;
            let line = format!("{name} {version} is left out, in {at}: {why}");
            self.came.excluded.push(line);
            self.came.ours_failed = entry.row.side == Side::Ours;
            false
        });
    }

    fn ask(&self, entry: &mut Running, step: &str) -> Result<Step, String> {
        let patience = PATIENCE + self.plan.slice;
        let patience = patience + Duration::from_secs(self.plan.records / SLOWEST_LOAD);
        let child = entry.child.as_mut().expect("started in this round");
        child.ask(step, patience, self.interrupted)
    }

    fn figures(&self, row: &Row, step: &str, rounds: &[Step], loads: &[Step]) -> Figures {
        let middle = |field: fn(&Step) -> u64| {
            let all: Vec<_> = loads.iter().map(|step| field(step) as f64).collect();
            median(&all).unwrap_or(0.0) as u64
        };
        let (resident, in_huge_pages) = (
            middle(|step| step.resident),
            middle(|step| step.in_huge_pages),
        );
        let own = matches!(row.side, Side::Ours | Side::Tiers);
        let mut outcome = Outcome {
            index: row.name.into(),
            placement: if own { "all-fast" } else { "none" }.into(),
            workload: step.into(),
            records: self.plan.records,
            threads: self.plan.threads as usize,
            seconds: rounds.iter().map(|step| step.seconds).sum(),
            fast_budget_ratio: 1.0,
            fast_bytes: resident,
            fast_bytes_peak: resident,
            bytes_per_record: resident as f64 / self.plan.records as f64,
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.iter().map(|step| step.ops_per_s).collect());
        outcome.set_percentiles([0, 1, 2, 3].map(|at| {
            let all = rounds.iter().map(|step| step.percentiles_ns[at] as f64);
            median(&all.collect::<Vec<_>>()).unwrap_or(0.0) as u64
        }));
        Figures {
            outcome,
            huge_page_bytes: in_huge_pages,
            ..Figures::default()
        }
    }

    /// Shows the current step: a line that overwrites itself on a terminal, elsewhere one at
    /// intervals, so that the log of an hour stays short.
    fn say(&mut self, what: &str) {
        let is_terminal = std::io::stderr().is_terminal();
        let is_due = self.said.is_none_or(|said| said.elapsed() >= EVERY);
        if self.plan.quiet || !(is_terminal || is_due) {
            return;
        }
        self.said = Some(Instant::now());
        let seconds = self.begun.elapsed().as_secs();
        let (before, after) = match is_terminal {
            true => ("\r\x1b[K", ""),
            false => ("", "\n"),
        };
        // A closed stderr ends no run.
        let _ = write!(std::io::stderr(), "{before}{seconds:4} s  {what}{after}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::rows;
    use crate::subjects::chosen;

    #[test]
    fn maps_that_do_not_fit_are_refused_with_what_would() {
        let plan = Plan {
            subjects: chosen(&["all".into()]).unwrap(),
            rows: rows(&["random".into()]).unwrap(),
            pages: vec![Pages::Small],
            threads: 1,
            records: 1_000_000,
            rounds: 3,
            slice: Duration::from_millis(100),
            seed: 1,
            urls: None,
            words: None,
            quiet: true,
        };
        assert!(plan.check_memory(1 << 40).is_ok());
        let error = plan.check_memory(1 << 28).unwrap_err();
        assert!(error.contains("256 MiB are free") && error.contains("--index"));
        assert!(!error.contains('\n'));
    }
}
