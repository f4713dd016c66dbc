//! Loads the maps of a workload and lets them take turns.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use timberline_tier::emulator::LineCounts;
use timberline_tier::{Arenas, TierId};
use timberline_tree::{Art, BTree, Masstree};

use super::contender::{Contender, Sizes};
use super::crew::{Glance, rehearse, slice};
use super::index::PlacedIndex;
use super::indexes::Bytes;
use super::plan::{KERNEL, Plan, What};
use super::source::Source;
use crate::report::{Outcome, Sample, fill_comparisons, progress::Progress};
use crate::substrate::Substrate;

/// Warm-up of a placement that does not adapt: enough to fill the caches.
const CACHES: Duration = Duration::from_millis(500);
/// Nodes of fast memory that the oracle leaves free for inner nodes to come.
const ORACLE_KEEPS: usize = 8;

/// A contender with what was measured of it so far.
struct Entry<'a, I: PlacedIndex> {
    contender: Contender<I>,
    sources: Vec<Source<'a>>,
    rounds: Vec<f64>,
    seconds: f64,
    ops: u64,
    lines: LineCounts,
    latencies: Histogram<u64>,
    worker_seconds: f64,
    cpu_seconds: f64,
    series: Vec<Sample>,
    moves: (u64, u64),
    /// Inserts that found memory full; what they were to add is missing later.
    refused: u64,
}

/// Runs the plan. What was measured before `interrupted` became true is returned all the same.
///
/// # Errors
/// One line: memory that can't be had, or a map that lost records.
pub fn run<M: Substrate>(
    plan: &Plan,
    memory: &dyn Fn(Arenas) -> M,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    for &index in &plan.indexes {
        let run_one = match index {
            "btree" => run_one::<BTree<u64, u64, M>>,
            "art" => run_one::<Bytes<Art<[u8], u64, M>>>,
            "masstree" => run_one::<Bytes<Masstree<[u8], u64, M>>>,
            other => unreachable!("index names are checked: {other}"),
        };
        for what in &plan.what {
            if interrupted.load(Relaxed) {
                break;
            }
            outcomes.extend(run_one(plan, what, memory, progress, interrupted)?);
        }
    }
    progress.finish();
    fill_comparisons(&mut outcomes);
    Ok(outcomes)
}

fn run_one<I: PlacedIndex>(
    plan: &Plan,
    what: &What,
    memory: &dyn Fn(Arenas) -> I::Memory,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Vec<Outcome>, String> {
    let name = what.requests.name();
    let (tree, mut entries) = load_all::<I>(plan, what, memory, progress, interrupted)?;
    if interrupted.load(Relaxed) {
        // Maps that are half loaded would miss records.
        return Ok(Vec::new());
    }
    let length = plan.slice;
    for entry in &mut entries {
        let adapts = matches!(entry.contender.name, "sidle" | "timberline" | KERNEL);
        let warmup = if adapts {
            plan.warmup
        } else {
            CACHES.min(plan.warmup)
        };
        progress.phase(&format!("{name}: warming {}", entry.contender.name), None);
        entry.turn(plan, what, warmup, false, progress, interrupted)?;
    }
    for round in 1..=plan.rounds {
        for entry in &mut entries {
            if interrupted.load(Relaxed) {
                break;
            }
            let placement = entry.contender.name;
            progress.phase(
                &format!("{name}: {placement} {round}/{}", plan.rounds),
                None,
            );
            entry.turn(plan, what, length, true, progress, interrupted)?;
        }
    }
    let budget = plan.budget.bytes(tree) as f64 / tree.max(1) as f64;
    let measured = entries.into_iter().filter(|entry| entry.ops > 0);
    let mut outcomes: Vec<Outcome> = measured
        .map(|entry| entry.outcome(plan, what, budget))
        .collect();
    if let Some(every) = plan.shift_every {
        super::recovery::fill(&mut outcomes, every);
    }
    Ok(outcomes)
}

/// Loads every contender with the same records, the all-fast one first: its bytes are the tree's.
fn load_all<'a, I: PlacedIndex>(
    plan: &Plan,
    what: &'a What,
    memory: &dyn Fn(Arenas) -> I::Memory,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<(usize, Vec<Entry<'a, I>>), String> {
    let records = what.requests.records() as usize;
    // Addresses, not memory.
    let guess = records * (128 + 2 * what.keys.longest()) + (64 << 20);
    let sizes = Sizes {
        tree: guess,
        fast: guess,
        slow: 0,
        nodes: plan.nodes.clone(),
    };
    let reference: Entry<'a, I> = load(
        "all-fast",
        &sizes,
        plan,
        what,
        memory,
        progress,
        interrupted,
    )?;
    let tree = reference.contender.committed().0;
    let fast = plan.budget.bytes(tree);
    let slow = tree + tree / 10 + (256 << 10) + plan.growth(what);
    let sizes = Sizes {
        tree,
        fast,
        slow,
        nodes: plan.nodes.clone(),
    };
    let mut entries = vec![reference];
    for &placement in plan.placements.iter().filter(|&&name| name != "all-fast") {
        if interrupted.load(Relaxed) {
            break;
        }
        let entry: Entry<'a, I> =
            load(placement, &sizes, plan, what, memory, progress, interrupted)?;
        if let Some(oracle) = &entry.contender.oracle
            && !interrupted.load(Relaxed)
        {
            progress.phase(
                &format!("{}: counting for oracle", what.requests.name()),
                None,
            );
            let passes = (2 * records as u64).clamp(2_000_000, 60_000_000);
            let map = &entry.contender.map;
            oracle.begin_counting();
            rehearse(map, &mut sources(plan, what), passes, interrupted);
            oracle.arrange(&*map.placed(), ORACLE_KEEPS);
        }
        entries.push(entry);
    }
    if !plan.placements.contains(&"all-fast") {
        entries.remove(0);
    }
    // The last to come, as it takes what the others left of fast memory.
    if let Some(entry) = entries
        .iter_mut()
        .find(|entry| entry.contender.is_kernels())
    {
        entry.contender.leave_to_kernel(fast)?;
    }
    Ok((tree, entries))
}

fn load<'a, I: PlacedIndex>(
    placement: &'static str,
    sizes: &Sizes,
    plan: &Plan,
    what: &'a What,
    memory: &dyn Fn(Arenas) -> I::Memory,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Entry<'a, I>, String> {
    let records = what.requests.records();
    progress.phase(
        &format!("{}: loading {placement}", what.requests.name()),
        Some(records),
    );
    let contender = Contender::<I>::new(placement, sizes, memory, &what.keys)?;
    contender.map.memory().charge(false);
    contender.resume();
    let start = Instant::now();
    let threads = plan.threads;
    let loaded = |thread| -> Result<(), String> {
        for (done, key) in what.requests.load(plan.seed, thread, threads).enumerate() {
            contender
                .map
                .insert(key, key)
                .map_err(|full| format!("loading {placement}: {full}"))?;
            if done % (1 << 14) == 0 {
                if interrupted.load(Relaxed) {
                    return Ok(());
                }
                if thread == 0 {
                    let done = (done * threads) as u64;
                    progress.advance(done, done as f64 / start.elapsed().as_secs_f64(), None);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..threads)
            .map(|thread| {
                let loaded = &loaded;
                scope.spawn(move || loaded(thread))
            })
            .collect();
        loaders
            .into_iter()
            .try_for_each(|loader| loader.join().expect("a loader"))
    })?;
    contender.pause();
    Ok(Entry {
        sources: sources(plan, what),
        contender,
        rounds: Vec::new(),
        seconds: 0.0,
        ops: 0,
        lines: LineCounts::default(),
        latencies: Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds"),
        worker_seconds: 0.0,
        cpu_seconds: 0.0,
        series: Vec::new(),
        moves: (0, 0),
        refused: 0,
    })
}

/// The requests of all threads, from the beginning.
fn sources<'a>(plan: &Plan, what: &'a What) -> Vec<Source<'a>> {
    let threads = 0..plan.threads;
    threads
        .map(|thread| what.requests.source(plan.seed, thread, plan.threads))
        .collect()
}

impl<I: PlacedIndex> Entry<'_, I> {
    /// This map's turn.
    fn turn(
        &mut self,
        plan: &Plan,
        what: &What,
        length: Duration,
        measured: bool,
        progress: &dyn Progress,
        interrupted: &AtomicBool,
    ) -> Result<(), String> {
        let Entry {
            contender,
            sources,
            series,
            refused,
            ..
        } = self;
        let placed = contender.map.placed();
        let start_of_round = self.seconds;
        let mut last = Glance::default();
        let mut shifted = 0;
        what.requests.set_hot_epoch(0);
        let fast_bytes = || placed.fill(TierId::FAST).used as u64;
        let glance = |now: Glance| {
            let (fast, slow) = (now.fast - last.fast, now.slow - last.slow);
            let ops_per_s = (now.ops - last.ops) as f64 / (now.at - last.at).max(1e-9);
            let fast_share = crate::report::fast_share(fast, slow);
            progress.advance(now.ops, ops_per_s, fast_share);
            if measured {
                let (promoted, demoted) = contender.map.moves();
                let at_s = start_of_round + now.at;
                let fast_bytes = fast_bytes();
                series.push(Sample {
                    at_s,
                    ops_per_s,
                    fast_share,
                    fast_bytes,
                    promoted,
                    demoted,
                });
                if let Some(every) = plan.shift_every {
                    let epoch = (now.at / every.as_secs_f64()) as u64;
                    if epoch > shifted {
                        shifted = epoch;
                        what.requests.set_hot_epoch(epoch);
                    }
                }
            }
            last = now;
        };
        let moves = contender.map.moves();
        let (worker, cpu) = (contender.worker_seconds(), process_cpu_seconds());
        contender.map.memory().charge(true);
        contender.resume();
        if measured {
            contender.map.memory().measured(true);
        }
        let slice = slice(&contender.map, sources, length, interrupted, glance);
        if measured {
            contender.map.memory().measured(false);
        }
        contender.pause();
        contender.map.memory().charge(false);
        if let Some(panic) = contender.panicked() {
            return Err(format!("a worker of {} panicked: {panic}", contender.name));
        }
        *refused += slice.refused;
        if slice.lost > 0 {
            let (lost, name) = (slice.lost, contender.name);
            if *refused > 0 {
                return Err(format!(
                    "{name}: memory is full and inserts were refused: give fewer --seconds, or more --records"
                ));
            }
            return Err(format!(
                "{name} is broken: {lost} of {} requests missed a record",
                slice.ops
            ));
        }
        if measured {
            let after = contender.map.moves();
            self.moves.0 += after.0 - moves.0;
            self.moves.1 += after.1 - moves.1;
            self.worker_seconds += contender.worker_seconds() - worker;
            self.cpu_seconds += process_cpu_seconds() - cpu;
            self.rounds.push(slice.ops as f64 / slice.seconds);
            self.seconds += slice.seconds;
            self.ops += slice.ops;
            self.lines += slice.lines;
            self.latencies.add(&slice.latencies).expect("same bounds");
        }
        Ok(())
    }

    fn outcome(self, plan: &Plan, what: &What, budget: f64) -> Outcome {
        let mut outcome = Outcome {
            workload: what.requests.name().into(),
            records: what.requests.records(),
            threads: plan.threads,
            seconds: self.seconds,
            fast_budget_ratio: match self.contender.name {
                "all-fast" => 1.0,
                "all-slow" => 0.0,
                _ => budget,
            },
            promoted: self.moves.0,
            demoted: self.moves.1,
            // The process's time comes in hundredths of a second, so in moments a part of it may seem more than all.
            worker_cpu_ratio: (self.worker_seconds / self.cpu_seconds.max(1e-9)).min(1.0),
            emulated: I::Memory::EMULATED,
            series: self.series,
            ..Outcome::default()
        };
        outcome.set_rounds(self.rounds);
        outcome.set_latencies(&self.latencies);
        let LineCounts {
            fast, slow, cached, ..
        } = self.lines;
        outcome.set_lines(fast, slow, cached, self.ops);
        self.contender.describe(&mut outcome);
        outcome
    }
}

/// User and system time of this process so far, to a hundredth of a second.
fn process_cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the second, a name in parentheses, may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / TICKS_PER_SECOND
}
