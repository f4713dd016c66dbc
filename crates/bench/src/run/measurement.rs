//! A subject's turns, and their measurements.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use timberline_research::table::{Grain, Tiers};

use super::index::PlacedIndex;
use super::plan::{Load, Plan};
use super::request_threads::{Glance, Slice, slice};
use super::source::Source;
use super::subject::Subject;
use crate::report::progress::{Progress, Turn};
use crate::report::{Outcome, Sample, percentiles};
use crate::substrate::Substrate;

/// A subject with its measurements so far.
pub struct Measurement<'a, I: PlacedIndex> {
    pub subject: Subject<I>,
    sources: Vec<Source<'a>>,
    rounds: Vec<f64>,
    /// All measured turns together.
    whole: Slice,
    worker_seconds: f64,
    cpu_seconds: f64,
    series: Vec<Sample>,
    moves: (u64, u64),
    /// Moves before the first turn: an oracle arranges its map then.
    moved_before: Option<(u64, u64)>,
    /// Inserts refused because memory was full; later reads of these records fail.
    refused: u64,
}

impl<'a, I: PlacedIndex> Measurement<'a, I> {
    /// A measurement without turns.
    pub fn new(subject: Subject<I>, sources: Vec<Source<'a>>) -> Self {
        Measurement {
            subject,
            sources,
            rounds: Vec::new(),
            whole: Slice::nothing(),
            worker_seconds: 0.0,
            cpu_seconds: 0.0,
            series: Vec::new(),
            moves: (0, 0),
            moved_before: None,
            refused: 0,
        }
    }

    /// Whether it has any measured time.
    pub fn is_measured(&self) -> bool {
        self.whole.ops > 0
    }

    /// Runs a turn of this map.
    pub fn turn(
        &mut self,
        plan: &Plan,
        load: &Load,
        length: Duration,
        measured: bool,
        progress: &dyn Progress,
        interrupted: &AtomicBool,
    ) -> Result<(), String> {
        let Measurement {
            subject,
            sources,
            series,
            refused,
            moved_before,
            ..
        } = self;
        let before = *moved_before.get_or_insert_with(|| subject.moves());
        let start_of_round = self.whole.seconds;
        let mut last = Glance::default();
        let mut shifted = 0;
        load.requests.set_hot_epoch(0);
        let subject = &*subject;
        let turn = Turn {
            workload: load.requests.name(),
            measured,
            map: subject,
        };
        let glance = |now: Glance| {
            let (fast, slow) = (now.fast - last.fast, now.slow - last.slow);
            let ops_per_s = (now.ops - last.ops) as f64 / (now.at - last.at).max(1e-9);
            let fast_share = crate::report::fast_share(fast, slow);
            progress.advance(now.ops, ops_per_s, fast_share);
            subject.did(now.ops - last.ops);
            if measured || progress.looks_on() {
                let (promoted, demoted) = subject.moves();
                let sample = Sample {
                    at_s: start_of_round + now.at,
                    ops_per_s,
                    fast_share,
                    fast_bytes: subject.fast_bytes() as u64,
                    promoted: promoted - before.0,
                    demoted: demoted - before.1,
                    kernel: subject.kernel_moves(),
                };
                progress.turn_goes(turn, &sample);
                series.extend(measured.then_some(sample));
            }
            if let (true, Some(every)) = (measured, plan.shift_every) {
                let epoch = (now.at / every.as_secs_f64()) as u64;
                if epoch > shifted {
                    shifted = epoch;
                    load.requests.set_hot_epoch(epoch);
                }
            }
            last = now;
        };
        progress.turn_begins(turn);
        let moves = subject.moves();
        let (worker, cpu) = (subject.worker_seconds(), process_cpu_seconds());
        subject.map.memory().charge(true);
        subject.resume(measured);
        if measured {
            subject.map.memory().measured(true);
        }
        let ran = slice(
            &subject.map,
            sources,
            (plan.cpu_cache, plan.overlap),
            length,
            interrupted,
            glance,
        );
        if measured {
            subject.map.memory().measured(false);
        }
        subject.pause();
        subject.map.memory().charge(false);
        let slice = ran?;
        if let Some(panic) = subject.panicked() {
            return Err(format!("a worker of {} panicked: {panic}", subject.name));
        }
        *refused += slice.refused;
        if slice.lost > 0 {
            let (lost, name) = (slice.lost, subject.name);
            if *refused > 0 {
                return Err(format!(
                    "{name}: memory is full and inserts were refused: give a shorter --slice, or more --records"
                ));
            }
            return Err(format!(
                "{name} is broken: {lost} of {} requests missed a record",
                slice.ops
            ));
        }
        if measured {
            let after = subject.moves();
            self.moves.0 += after.0 - moves.0;
            self.moves.1 += after.1 - moves.1;
            self.worker_seconds += subject.worker_seconds() - worker;
            self.cpu_seconds += process_cpu_seconds() - cpu;
            self.rounds.push(slice.ops as f64 / slice.seconds);
            self.whole.seconds += slice.seconds;
            self.whole.add(&slice);
        }
        // Last, because a listener may take its time.
        progress.turn_ends(turn, &slice.latencies);
        Ok(())
    }

    pub fn outcome(self, plan: &Plan, load: &Load, budget: f64) -> Outcome {
        let whole = self.whole;
        let mut outcome = Outcome {
            workload: load.requests.name().into(),
            records: load.requests.records(),
            threads: plan.threads,
            seconds: whole.seconds,
            fast_budget_ratio: match (self.subject.row.tiers, self.subject.row.grain()) {
                (Tiers::Fast | Tiers::BothFast, _) => 1.0,
                (Tiers::Slow, Grain::Node) => 0.0,
                _ => budget,
            },
            promoted: self.moves.0,
            demoted: self.moves.1,
            unanswered: whole.unanswered,
            // The process's CPU time has a resolution of 10 ms, so over very short runs a part can
            // exceed the whole.
            worker_cpu_ratio: (self.worker_seconds / self.cpu_seconds.max(1e-9)).min(1.0),
            worker_cores: self.worker_seconds / whole.seconds.max(1e-9),
            ops_per_cpu_s: whole.ops as f64 / whole.cpu_seconds.max(1e-9),
            emulated: I::Memory::EMULATED,
            series: self.series,
            ..Outcome::default()
        };
        outcome.set_rounds(self.rounds);
        outcome.set_percentiles(percentiles(&whole.latencies));
        let mut lines = whole.lines;
        if self.subject.row.tiers == Tiers::BothFast {
            lines.fast += std::mem::take(&mut lines.slow);
        }
        outcome.set_lines(&lines, whole.ops);
        self.subject.describe(&mut outcome);
        if load.requests.move_on() {
            // The counted frequencies are averages over time. They bound only placements that do
            // not adapt within it.
            outcome.fast_share_bound = None;
        }
        outcome
    }
}

/// User and system time of this process so far, with a resolution of 10 ms.
fn process_cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the second, a name in parentheses, may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS_PER_SECOND
}
