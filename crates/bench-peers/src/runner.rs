//! Loads the contenders of a batch and runs them in turns, A B C A B C, one process at a time.
//!
//! Loading is split into one part for each round and also goes in turns, so it is compared like a
//! workload. One loaded map serves all cases. If any contender has grown by more than [`GROWN`],
//! all of them are restarted and loaded again before the next case, so that a fast map is not
//! measured on more records than a slow one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use timberline_bench::report::Outcome;

use crate::case::{Case, Spread};
use crate::contender::Turn;
use crate::contenders::{Row, Side};
use crate::plan::{LOAD, Pages, Plan};
use crate::process::Process;
use crate::progress::Progress;
use crate::protocol::{Ask, KeyKind, Order};
use crate::result::{Figures, fill_ratios};

/// How much larger than when loaded a map may be at the start of a case.
const GROWN: f64 = 0.05;
/// The unmeasured part of a turn, which fills the caches, as a fraction of the measured part.
const WARM: f64 = 0.2;
/// How long a child may overrun its requested time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest loading that the runner waits for, records a second.
const SLOWEST_LOAD: u64 = 20_000;
/// Records a second assumed for estimates of the time left.
const EXPECTED_LOAD: f64 = 1.0e6;

/// The results of a run.
pub struct Came {
    /// The figures.
    pub results: Vec<Figures>,
    /// The contenders left out, each with its reason.
    pub excluded: Vec<String>,
}

/// Runs the plan. Also returns the results measured before `interrupted` became true.
pub fn run(plan: &Plan, progress: &mut Progress, interrupted: &AtomicBool) -> Came {
    let mut runner = Runner {
        plan,
        progress,
        interrupted,
        results: Vec::new(),
        excluded: Vec::new(),
    };
    for &keys in &plan.keys {
        for &threads in &plan.threads {
            for (number, batch) in plan.batches(keys).iter().enumerate() {
                let setting = Setting {
                    keys,
                    threads,
                    batch: number,
                };
                runner.batch(batch, setting);
            }
        }
    }
    runner.progress.finish();
    fill_ratios(&mut runner.results);
    Came {
        results: runner.results,
        excluded: runner.excluded,
    }
}

/// The expected seconds of a plan.
pub fn expected_seconds(plan: &Plan) -> f64 {
    let maps = |keys| plan.batches(keys).iter().map(Vec::len).sum::<usize>() as f64;
    let turns = (plan.cases.len() * plan.rounds) as f64 * turn_seconds(plan);
    let map = load_seconds(plan) + turns;
    let maps: f64 = plan.keys.iter().map(|&keys| maps(keys)).sum();
    maps * plan.threads.len() as f64 * map
}

fn turn_seconds(plan: &Plan) -> f64 {
    plan.slice.as_secs_f64() * (1.0 + WARM)
}

fn load_seconds(plan: &Plan) -> f64 {
    plan.records as f64 / EXPECTED_LOAD
}

#[derive(Clone, Copy)]
struct Setting {
    keys: KeyKind,
    threads: usize,
    batch: usize,
}

struct Runner<'a> {
    plan: &'a Plan,
    progress: &'a mut Progress,
    interrupted: &'a AtomicBool,
    results: Vec<Figures>,
    excluded: Vec<String>,
}

/// A contender that is still in the run.
struct Entry {
    row: &'static Row,
    process: Process,
    /// Its state after loading.
    loaded: Turn,
}

impl Runner<'_> {
    fn batch(&mut self, rows: &[&'static Row], setting: Setting) {
        let mut entries = self.start(rows, setting, true);
        let rounds = self.load(&mut entries, setting);
        if self.is_over() {
            return;
        }
        if self.plan.load {
            for (entry, rounds) in entries.iter().zip(&rounds) {
                self.report(entry, setting, None, rounds);
            }
        }
        for case in &self.plan.cases {
            let grown = entries.iter().any(|entry| {
                entry.loaded.records as f64 > self.plan.records as f64 * (1.0 + GROWN)
            });
            if grown {
                let rows: Vec<_> = entries.drain(..).map(|entry| entry.row).collect();
                self.progress
                    .expect(rows.len() as f64 * load_seconds(self.plan));
                entries = self.start(&rows, setting, false);
                self.load(&mut entries, setting);
            }
            if self.is_over() {
                return;
            }
            self.case(&mut entries, setting, case);
        }
    }

    fn is_over(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Starts the contenders, and checks those that are new.
    fn start(&mut self, rows: &[&'static Row], setting: Setting, check: bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        for &row in rows {
            if self.is_over() {
                break;
            }
            let order = Order {
                index: row.name.into(),
                keys: setting.keys,
                file: self.plan.file(setting.keys),
                records: self.plan.records,
                threads: setting.threads,
                seed: self.plan.seed,
                huge_pages: self.plan.pages != Pages::Small,
            };
            let started = Process::start(&order, self.plan.pages == Pages::Huge);
            let checked = started.and_then(|mut process| {
                if check && row.side != Side::Floor {
                    self.progress.say(&format!("checking {}", row.name));
                    process.ask(&Ask::Check, PATIENCE, self.interrupted)?;
                }
                Ok(process)
            });
            match checked {
                Ok(process) => entries.push(Entry {
                    row,
                    process,
                    loaded: Turn::default(),
                }),
                Err(why) => self.exclude(row, setting, "the check", &why),
            }
        }
        entries
    }

    fn exclude(&mut self, row: &Row, setting: Setting, when: &str, why: &str) {
        if self.is_over() {
            return;
        }
        let Setting { keys, threads, .. } = setting;
        let line = format!(
            "{} {} is left out with {} keys on {threads} threads, in {when}: {why}",
            row.name,
            row.version,
            keys.name()
        );
        self.progress.note(&line);
        self.excluded.push(line);
    }

    /// Loads all contenders, part by part in turns; returns the results of the parts.
    fn load(&mut self, entries: &mut Vec<Entry>, setting: Setting) -> Vec<Vec<Turn>> {
        let (records, parts) = (self.plan.records, self.plan.rounds as u64);
        let mut rounds: Vec<Vec<Turn>> = entries.iter().map(|_| Vec::new()).collect();
        for part in 0..parts {
            let count = records * (part + 1) / parts - records * part / parts;
            let ask = Ask::Load {
                count,
                rest: part + 1 == parts,
            };
            let patience = PATIENCE + Duration::from_secs(count / SLOWEST_LOAD);
            let expected = count as f64 / EXPECTED_LOAD;
            let what = format!("loading, part {} of {parts}", part + 1);
            self.round(
                entries,
                &mut rounds,
                setting,
                &what,
                &ask,
                patience,
                expected,
            );
        }
        for (entry, rounds) in entries.iter_mut().zip(&rounds) {
            entry.loaded = *rounds.last().unwrap_or(&Turn::default());
        }
        rounds
    }

    fn case(&mut self, entries: &mut Vec<Entry>, setting: Setting, case: &Case) {
        let length = self.plan.slice;
        let ask = Ask::Turn {
            case: case.clone(),
            warm_ms: (length.as_millis() as f64 * WARM) as u64,
            length_ms: length.as_millis() as u64,
        };
        let mut rounds: Vec<Vec<Turn>> = entries.iter().map(|_| Vec::new()).collect();
        for round in 1..=self.plan.rounds {
            let what = format!(
                "{} {}, round {round} of {}",
                case.workload,
                spread_name(case.spread),
                self.plan.rounds
            );
            let (patience, expected) = (length + PATIENCE, turn_seconds(self.plan));
            self.round(
                entries,
                &mut rounds,
                setting,
                &what,
                &ask,
                patience,
                expected,
            );
        }
        for (entry, rounds) in entries.iter_mut().zip(&rounds) {
            if let Some(last) = rounds.last() {
                self.report(entry, setting, Some(case), rounds);
                entry.loaded.records = last.records;
            }
        }
    }

    /// One round: a turn for each contender. One that fails is left out from then on.
    #[expect(clippy::too_many_arguments, reason = "called from one place only")]
    fn round(
        &mut self,
        entries: &mut Vec<Entry>,
        rounds: &mut Vec<Vec<Turn>>,
        setting: Setting,
        what: &str,
        ask: &Ask,
        patience: Duration,
        expected: f64,
    ) {
        let scans = matches!(ask, Ask::Turn { case, .. } if case.scans());
        let mut at = 0;
        while at < entries.len() && !self.is_over() {
            let entry = &mut entries[at];
            if scans && entry.row.scans(setting.keys) != Some(true) {
                self.progress.advance(expected);
                at += 1;
                continue;
            }
            let last = rounds[at].last().map(|turn| turn.ops_per_s / 1e6);
            let last = last.map_or(String::new(), |mops| format!(" {mops:.2} Mops/s"));
            self.progress.say(&format!(
                "{} keys, {} threads: {what}: {}{last}",
                setting.keys.name(),
                setting.threads,
                entry.row.name
            ));
            let turn = entry.process.ask(ask, patience, self.interrupted);
            self.progress.advance(expected);
            match turn {
                Ok(turn) => {
                    rounds[at].push(turn);
                    at += 1;
                }
                Err(why) => {
                    let out = entries.remove(at);
                    rounds.remove(at);
                    self.exclude(out.row, setting, what, &why);
                }
            }
        }
    }

    fn report(&mut self, entry: &Entry, setting: Setting, case: Option<&Case>, rounds: &[Turn]) {
        let Some(last) = rounds.last() else {
            return;
        };
        let own = entry.row.side == Side::Ours;
        let mut outcome = Outcome {
            index: entry.row.name.into(),
            placement: if own { "all-fast" } else { "none" }.into(),
            workload: case.map_or(LOAD, |case| &case.workload).into(),
            records: self.plan.records,
            threads: setting.threads,
            seconds: rounds.iter().map(|turn| turn.seconds).sum(),
            fast_budget_ratio: 1.0,
            fast_bytes: entry.loaded.bytes,
            fast_bytes_peak: entry.loaded.bytes,
            bytes_per_record: entry.loaded.bytes as f64 / self.plan.records as f64,
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.iter().map(|turn| turn.ops_per_s).collect());
        let [p50, p90, p99, p999] = last.percentiles_ns;
        outcome.p50_ns = p50;
        outcome.p90_ns = p90;
        outcome.p99_ns = p99;
        outcome.p999_ns = p999;
        self.results.push(Figures {
            outcome,
            keys: setting.keys.name().into(),
            distribution: case.map_or("", |case| spread_name(case.spread)).into(),
            batch: setting.batch,
            resident_bytes: entry.loaded.resident,
            ..Figures::default()
        });
    }
}

fn spread_name(spread: Spread) -> &'static str {
    match spread {
        Spread::Uniform => "uniform",
        Spread::Zipf => "zipf",
    }
}
