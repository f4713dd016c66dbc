//! Loads the maps of a workload and lets them take turns.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use timberline_research::table::{self, Tiers};
use timberline_tier::emulator::{self, Base, Cost, Emulated, Profile, Slowness};
use timberline_tier::{Arenas, Native};
use timberline_tree::{Art, BTree, LevelFill, Masstree, Stats};

use super::caveats;
use super::cores::Cores;
use super::index::PlacedIndex;
use super::indexes::MeasuredMap;
use super::measurement::Measurement;
use super::plan::{Load, Plan};
use super::request_threads::rehearse;
use super::source::Source;
use super::subject::{Sizes, Subject};
use super::threads::side_by_side;
use crate::report::compare::ROOF;
use crate::report::{Bounds, Calibration, Outcome, fill_comparisons, progress::Progress};
use crate::substrate::Substrate;
use crate::workload::{Permutation, Rng};

/// Warm-up of a static placement: enough to fill the caches.
const CACHES: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Measured {
    /// Each placement on each workload.
    pub outcomes: Vec<Outcome>,
    /// The bounds of placements of each grain.
    pub bounds: Vec<Bounds>,
    /// How the emulator was calibrated for each map and workload.
    pub calibrations: Vec<Calibration>,
    /// Caveats of single rows, one sentence each.
    pub notes: Vec<String>,
}

impl Measured {
    /// The latency of the emulator's fast tier for the first map, ns; 0 for real memory.
    pub fn base_latency_ns(&self) -> f64 {
        let first = self.calibrations.first();
        first.map_or(0.0, |first| first.base_latency_ns)
    }
}

/// Runs the plan on this machine's own memory. Also returns the results measured before
/// `interrupted` became true.
///
/// # Errors
/// One line: memory cannot be allocated, or a map lost records.
pub fn native(
    plan: &Plan,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measured, String> {
    let memory = |arenas, _| Native(arenas);
    run(plan, &memory, &|_| Ok(None), progress, interrupted)
}

/// The same on emulated memory. The costs of its fast tier are `given`, or measured at the
/// footprint of each map.
///
/// # Errors
/// Like [`native`].
pub fn emulated(
    plan: &Plan,
    profile: &Profile,
    given: Option<Base>,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measured, String> {
    let base = Cell::new(given.unwrap_or_default());
    let memory = |arenas, tiers| {
        let profile = match tiers {
            Tiers::BothFast => as_fast(),
            Tiers::Fast | Tiers::Slow | Tiers::Both => profile.clone(),
        };
        Emulated::new(arenas, profile, base.get())
    };
    let calibrate = |tree: usize| {
        let bytes = tree.clamp(LEAST_FOOTPRINT, MOST_FOOTPRINT);
        let measured = emulator::Calibration::measure(profile, bytes, given);
        let measured = measured.map_err(|error| error.to_string())?;
        base.set(measured.base);
        Ok(Some(measured))
    };
    run(plan, &memory, &calibrate, progress, interrupted)
}

/// Tiers that all cost what tier 0 does.
fn as_fast() -> Profile {
    let slowness = Slowness {
        latency: Cost::Times(1.0),
        line: Cost::Times(1.0),
        in_flight: 16,
    };
    Profile::new("as-fast", vec![slowness])
}

/// Makes the memory of a map in these tiers.
type MakeMemory<'a, M> = dyn Fn(Arenas, Tiers) -> M + 'a;

/// Bytes of the smallest map and of the largest that the emulator is calibrated for; beyond, costs
/// hardly grow, and measuring them takes seconds.
const LEAST_FOOTPRINT: usize = 1 << 20;
const MOST_FOOTPRINT: usize = 1 << 30;

/// Calibrates the memory of maps to come for a tree of this many bytes, if there is anything to
/// calibrate.
type Calibrate<'a> = dyn Fn(usize) -> Result<Option<emulator::Calibration>, String> + 'a;

struct Machine<'a, M> {
    memory: &'a MakeMemory<'a, M>,
    calibrate: &'a Calibrate<'a>,
    /// Cores set aside for workers, if any.
    cores: Option<&'a Cores>,
}

// Only this file is generic over memory: each kind compiles all maps again.
fn run<M: Substrate>(
    plan: &Plan,
    memory: &MakeMemory<'_, M>,
    calibrate: &Calibrate<'_>,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measured, String> {
    let cores = plan.worker_cores.map(Cores::set_aside).transpose()?;
    let cores = cores.as_ref();
    let machine = Machine {
        memory,
        calibrate,
        cores,
    };
    let mut measured = Measured::default();
    for &index in &plan.indexes {
        for load in &plan.loads {
            if interrupted.load(Relaxed) {
                break;
            }
            if index == "btree" && !load.format.has_word_keys() {
                return Err("btree takes keys of eight bytes".into());
            }
            let run_one = match (index, load.format.has_word_values()) {
                ("btree", true) => run_one::<MeasuredMap<BTree<u64, u64, M>>>,
                ("btree", false) => run_one::<MeasuredMap<BTree<u64, Vec<u8>, M>>>,
                ("art", true) => run_one::<MeasuredMap<Art<[u8], u64, M>>>,
                ("art", false) => run_one::<MeasuredMap<Art<[u8], Vec<u8>, M>>>,
                ("masstree", true) => run_one::<MeasuredMap<Masstree<[u8], u64, M>>>,
                ("masstree", false) => run_one::<MeasuredMap<Masstree<[u8], Vec<u8>, M>>>,
                (other, _) => unreachable!("index names are checked: {other}"),
            };
            let one = run_one(plan, load, &machine, progress, interrupted)?;
            measured.outcomes.extend(one.outcomes);
            measured.bounds.extend(one.bounds);
            measured.calibrations.extend(one.calibrations);
            measured.notes.extend(one.notes);
        }
    }
    progress.finish();
    fill_comparisons(&mut measured.outcomes);
    Ok(measured)
}

fn run_one<I: PlacedIndex>(
    plan: &Plan,
    load: &Load,
    machine: &Machine<'_, I::Memory>,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measured, String> {
    let name = load.requests.name();
    let Loaded {
        tree,
        bounds,
        calibration,
        mut measurements,
    } = load_all::<I>(plan, load, machine, progress, interrupted)?;
    if interrupted.load(Relaxed) {
        // Half-loaded maps would miss records.
        return Ok(Measured::default());
    }
    for measurement in &mut measurements {
        let warmup = if measurement.subject.adapts() {
            plan.warmup
        } else {
            CACHES.min(plan.warmup)
        };
        progress.phase(
            &format!("{name}: warming {}", measurement.subject.name),
            None,
        );
        measurement.turn(plan, load, warmup, false, progress, interrupted)?;
    }
    for round in 1..=plan.rounds {
        // The order changes each round, so that no map always follows the same one, whose data then
        // fills the CPU's caches.
        let lane = Rng::new(plan.seed, round as u64);
        let order = Permutation::new(measurements.len() as u64, lane);
        for position in 0..order.len() {
            if interrupted.load(Relaxed) {
                break;
            }
            let measurement = &mut measurements[order.at(position) as usize];
            let length = plan.slice_of(load, measurement.subject.row.kind);
            let placement = measurement.subject.name;
            progress.phase(
                &format!("{name}: {placement} {round}/{}", plan.rounds),
                None,
            );
            measurement.turn(plan, load, length, true, progress, interrupted)?;
        }
    }
    let budget = plan.budget.bytes(tree) as f64 / tree.max(1) as f64;
    let measured = measurements.into_iter().filter(Measurement::is_measured);
    let mut outcomes: Vec<Outcome> = measured
        .map(|measurement| measurement.outcome(plan, load, budget))
        .collect();
    if let Some(every) = plan.shift_every {
        super::recovery::fill(&mut outcomes, every);
    }
    let notes = caveats::of(&outcomes, calibration.as_ref());
    let bounds = if outcomes.is_empty() { None } else { bounds };
    Ok(Measured {
        outcomes,
        bounds: bounds.into_iter().collect(),
        calibrations: calibration.into_iter().collect(),
        notes,
    })
}

struct Loaded<'a, I: PlacedIndex> {
    /// Bytes of the whole tree in fast memory.
    tree: usize,
    bounds: Option<Bounds>,
    calibration: Option<Calibration>,
    measurements: Vec<Measurement<'a, I>>,
}

/// Loads all subjects with the same records. The all-fast map goes first: its bytes define the
/// tree's.
fn load_all<'a, I: PlacedIndex>(
    plan: &Plan,
    load: &'a Load,
    machine: &Machine<'_, I::Memory>,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Loaded<'a, I>, String> {
    let records = load.requests.records() as usize;
    // Reserves addresses, not memory.
    let guess = records * (96 + 2 * load.format.bytes()) + (64 << 20);
    let chunk = plan.chunk_bytes(load);
    let sizes = Sizes {
        tree: guess,
        fast: guess,
        middle: vec![0; plan.middle.len()],
        slow: 0,
        chunk,
        levels: u8::MAX,
    };
    let reference: Measurement<'a, I> =
        load_map(ROOF, &sizes, plan, load, machine, progress, interrupted)?;
    let tree = reference.subject.committed().0;
    progress.phase("measuring this machine's memory", None);
    let calibration = (machine.calibrate)(tree)?.map(|measured| Calibration {
        index: I::NAME.into(),
        workload: load.requests.name().into(),
        footprint_bytes: measured.bytes as u64,
        base_latency_ns: measured.base.latency_ns,
        base_line_ns: measured.base.line_ns,
        shared_line_ns: measured.base.shared_line_ns,
        ratio: measured.ratio.median,
        ratio_of_profile: measured.ratio_of_profile,
    });
    let fast = plan.budget.bytes(tree);
    let middle = plan.middle.iter().map(|size| size.bytes(tree)).collect();
    let slow = tree + tree / 10 + (256 << 10) + plan.growth(load);
    let sizes = Sizes {
        tree,
        fast,
        middle,
        slow,
        chunk,
        levels: levels_within(&reference.subject.map.stats(), fast),
    };
    progress.phase(&format!("{}: bounds", load.requests.name()), None);
    let counts = reference
        .subject
        .leaf_counts
        .as_ref()
        .expect("it is all fast");
    let bounds = counts.bounds(&reference.subject.map, plan.seed, load, fast, interrupted)?;
    let mut measurements = vec![reference];
    for &placement in plan.placements.iter().filter(|&&name| name != ROOF) {
        if interrupted.load(Relaxed) {
            break;
        }
        let mut measurement: Measurement<'a, I> = load_map(
            placement,
            &sizes,
            plan,
            load,
            machine,
            progress,
            interrupted,
        )?;
        if measurement.subject.is_oracle() && !interrupted.load(Relaxed) {
            progress.phase(
                &format!("{}: counting for {placement}", load.requests.name()),
                None,
            );
            let passes = (2 * records as u64).clamp(2_000_000, 60_000_000);
            let mut sources = sources(plan, load);
            measurement
                .subject
                .arrange(|map| rehearse(map, &mut sources, plan.cpu_cache, passes, interrupted))?;
        }
        measurements.push(measurement);
    }
    if !plan.placements.contains(&ROOF) {
        measurements.remove(0);
    }
    // Last, because it uses the fast memory that the others leave free.
    if let Some(measurement) = measurements
        .iter_mut()
        .find(|measurement| measurement.subject.is_kernels())
    {
        measurement.subject.leave_to_kernel(fast)?;
    }
    Ok(Loaded {
        tree,
        bounds,
        calibration,
        measurements,
    })
}

fn load_map<'a, I: PlacedIndex>(
    placement: &'static str,
    sizes: &Sizes,
    plan: &Plan,
    load: &'a Load,
    machine: &Machine<'_, I::Memory>,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measurement<'a, I>, String> {
    let records = load.requests.records();
    progress.phase(
        &format!("{}: loading {placement}", load.requests.name()),
        Some(records),
    );
    let row = table::row(placement).expect("names are checked");
    let subject = Subject::<I>::new(
        row,
        sizes,
        plan,
        |arenas| (machine.memory)(arenas, row.tiers),
        &load.format,
        machine.cores,
    )?;
    subject.map.memory().charge(false);
    subject.resume(false);
    let start = Instant::now();
    let threads = plan.threads;
    let refused = AtomicBool::new(false);
    let loaded = |thread| -> Result<(), String> {
        for (done, key) in load.requests.load(plan.seed, thread, threads).enumerate() {
            subject
                .map
                .insert(key, key)
                .map_err(|full| format!("loading {placement}: {full}"))?;
            if done % (1 << 14) == 0 {
                if interrupted.load(Relaxed) || refused.load(Relaxed) {
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
    let results = side_by_side(0..threads, &refused, loaded, || {});
    results?.into_iter().collect::<Result<(), String>>()?;
    subject.pause();
    subject.settle();
    Ok(Measurement::new(subject, sources(plan, load)))
}

/// The requests of all threads, from the start.
fn sources<'a>(plan: &Plan, load: &'a Load) -> Vec<Source<'a>> {
    let threads = 0..plan.threads;
    threads
        .map(|thread| load.requests.source(plan.seed, thread, plan.threads))
        .collect()
}

/// The number of top levels that fit into this many bytes together; 255 if all do.
fn levels_within(stats: &Stats, bytes: usize) -> u8 {
    let mut nodes = 0;
    let fits = |level: &&LevelFill| {
        nodes += level.fast + level.slow;
        nodes * stats.node_bytes <= bytes
    };
    let fitting = stats.levels.iter().take_while(fits).count();
    match fitting == stats.levels.len() {
        true => u8::MAX,
        false => fitting.min(254) as u8,
    }
}
