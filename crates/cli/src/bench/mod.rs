//! `timberline bench`: compares placements side by side, in one command.

mod memory;
mod remote;
mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_bench::report::side_by_side::SideBySide;
use timberline_bench::report::{Meta, Report, combine, write_file};
use timberline_bench::run::table::{self, TABLE};
use timberline_bench::run::{self, INDEXES, Setting};
use timberline_tier::tiering::{KernelTiering, Set};
use timberline_tier::topology::Topology;

use crate::known::known;
use crate::live::LiveView;
use crate::loads::{KEY_BYTES, Loads, RECORDS};
use crate::outputs::{OF_REPORTS, OF_RUN, OF_TWO, Outputs};
use crate::parse::whole;
use crate::setup::{available, cores, interrupts};
use crate::{Failure, bars, processes};
use memory::MemoryArgs;

pub use store::OF_A_STORE;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    loads: Loads,
    #[command(flatten)]
    comparison: Comparison,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    sidle: Sidle,
    #[command(flatten)]
    store: store::StoreArgs,
    #[command(flatten)]
    remote: remote::RemoteArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Comparison")]
struct Comparison {
    /// Request threads [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Set this many cores aside for workers; request threads run on the others [default: they
    /// share all]
    #[arg(long, value_name = "N")]
    worker_cores: Option<usize>,
    /// Maps to measure, one after the other: btree, art, masstree
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "btree",
        value_parser = known(INDEXES),
        hide_possible_values = true,
        value_name = "NAMES"
    )]
    index: Vec<String>,
    /// Placements to compare side by side, of nodes or of emulated pages (tpp, autonuma, damon,
    /// memtis, caption, oracle-pages). oracle: static placement from exact frequencies; adaptive
    /// ones can beat it. An unknown name lists all [default: all-fast, interleave, inner-fast,
    /// oracle, sidle, timberline; of these, with more than two tiers, those that use all]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = known(TABLE.map(|row| row.name)),
        hide_possible_values = true,
        value_name = "NAMES"
    )]
    placements: Vec<String>,
    /// Measured seconds of a placement in each round [default: 5 if a placement adapts, but 1 of
    /// those that don't and whose map stays the same; quick: 0.3]
    #[arg(long, visible_alias = "seconds", value_name = "S")]
    slice: Option<f64>,
    /// Rounds, in each of which all placements take turns [default: 6; quick: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Processes that each load the maps anew and run all rounds: intervals then contain the
    /// difference between processes
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = whole::<u32>(1..=1000),
        conflicts_with = "live"
    )]
    processes: u32,
    /// Unmeasured warm-up of adaptive placements, seconds [default: 4; quick: 1.5]
    #[arg(long, value_name = "S")]
    warmup: Option<f64>,
    /// Move the hot region at this interval, seconds; measures one long round
    #[arg(long, value_name = "S")]
    shift_every: Option<f64>,
    /// Seed of all requests
    #[arg(long, default_value_t = 42, value_name = "N")]
    seed: u64,
    /// Quick run, unless you give other numbers: 200k records, a CPU cache to match, few and short
    /// rounds
    #[arg(long)]
    quick: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "SIDLE")]
struct Sidle {
    /// Interval between scans of SIDLE's migration trigger, seconds; its cooler waits four times as
    /// long. SIDLE only [default: 0.5]
    #[arg(long, value_name = "S")]
    interval: Option<f64>,
    /// SIDLE's low and high watermarks, percent of fast memory. SIDLE only [default: 85:95]
    #[arg(long, value_name = "LOW:HIGH")]
    watermarks: Option<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    #[command(flatten)]
    outputs: Outputs,
    /// This is one of several processes: write the JSON to this file, and print nothing
    #[arg(long, hide = true, value_name = "FILE")]
    process_report: Option<PathBuf>,
    /// Run nothing, and show two JSON reports side by side, which may be written as CSV or Markdown
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = OF_A_RUN.iter().chain(&["json", "html", "pool"])
    )]
    compare: Option<Vec<PathBuf>>,
    /// Run nothing, and show JSON reports of several processes as one, which may be written as
    /// JSON, CSV, Markdown or a page
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with_all = OF_A_RUN)]
    pool: Option<Vec<PathBuf>>,
    #[command(flatten)]
    live: LiveView,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Arguments, by their groups, that say what to run.
const OF_A_RUN: [&str; 9] = [
    "Loads",
    "Comparison",
    "MemoryArgs",
    "Emulation",
    "Nodes",
    "Sidle",
    "StoreArgs",
    "RemoteArgs",
    "LiveView",
];

/// The placements, if none are given.
const PLACEMENTS: [&str; 7] = [
    "all-fast",
    "interleave",
    "inner-fast",
    "oracle",
    "sidle",
    "timberline",
    "timberline-leaves",
];

/// Rounds of a run that is not quick.
const ROUNDS: usize = 6;
/// Seconds of a slice: long enough for a placement that adapts to scan, cool and move in it.
const ADAPTING_SLICE: f64 = 5.0;
/// The same of one that does not adapt: long beside the switch from one map to the next.
const STATIC_SLICE: f64 = 1.0;

/// What is not given.
struct Defaults {
    records: u64,
    rounds: usize,
    warmup_s: f64,
    /// Seconds of a slice, and those of a placement that does not adapt if they are others.
    slices: (f64, Option<f64>),
    cpu_cache: &'static str,
}

impl Defaults {
    fn of(comparison: &Comparison, placements: &[String]) -> Defaults {
        if comparison.quick {
            return Defaults {
                records: 200_000,
                rounds: 3,
                warmup_s: 1.5,
                slices: (0.3, None),
                cpu_cache: "128K",
            };
        }
        let adapts = |name: &String| table::row(name).is_some_and(|row| row.kind.adapts());
        Defaults {
            records: RECORDS,
            rounds: ROUNDS,
            warmup_s: 4.0,
            slices: match placements.iter().any(adapts) {
                true => (ADAPTING_SLICE, Some(STATIC_SLICE)),
                false => (STATIC_SLICE, None),
            },
            cpu_cache: "1M",
        }
    }
}

impl Args {
    /// The setting that the arguments describe, on the memory of `topology`.
    fn setting(&self, topology: &Topology) -> Result<Setting, Failure> {
        let placements = self.placements()?;
        let defaults = Defaults::of(&self.comparison, &placements);
        let (slice_s, static_slice_s) = match self.comparison.slice {
            Some(slice) => (slice, None),
            None => defaults.slices,
        };
        let rounds = match (self.comparison.shift_every, self.comparison.rounds) {
            (Some(_), Some(2..)) => {
                let line = "--shift-every measures one long round: leave out --rounds";
                return Err(Failure::Impossible(line.into()));
            }
            (Some(_), rounds) => rounds.unwrap_or(1),
            (None, rounds) => rounds.unwrap_or(defaults.rounds),
        };
        let watermarks = self.sidle.watermarks.as_deref().map(run::watermarks);
        let tiers = self.memory.tiers()?;
        Ok(Setting {
            indexes: self.comparison.index.clone(),
            requests: self.loads.requests(),
            records: self.loads.records.unwrap_or(defaults.records),
            key_bytes: self.loads.key_bytes.unwrap_or(KEY_BYTES),
            value_bytes: self.loads.value_bytes,
            threads: self.comparison.threads.unwrap_or_else(|| {
                let aside = self.comparison.worker_cores.unwrap_or(0);
                cores().saturating_sub(aside).max(1)
            }),
            worker_cores: self.comparison.worker_cores,
            placements,
            slice_s,
            static_slice_s,
            rounds,
            warmup_s: self.comparison.warmup.unwrap_or(defaults.warmup_s),
            shift_every_s: self.comparison.shift_every,
            interval_s: self.sidle.interval,
            watermarks: watermarks.transpose().map_err(Failure::impossible)?,
            overlap: self.memory.overlap,
            cpu_cache: self.memory.cpu_cache(defaults.cpu_cache)?,
            page_costs: self.memory.page_costs.clone(),
            nodes: self.memory.nodes_of(topology, tiers.count()),
            kernel_tiering: self.memory.kernel_tiering.clone(),
            budget: tiers.fast,
            middle: tiers.middle,
            profile: match self.memory.native {
                true => "native".into(),
                false => tiers.profile,
            },
            seed: self.comparison.seed,
        })
    }

    /// The placements to compare: those given, or those that the memory is for.
    fn placements(&self) -> Result<Vec<String>, Failure> {
        let given = &self.comparison.placements;
        if !given.is_empty() {
            return Ok(given.clone());
        }
        let by_two = self.memory.tiers()?.middle.is_empty();
        let is_able = |name: &&str| by_two || table::row(name).is_some_and(|row| row.more_tiers);
        let able = PLACEMENTS.into_iter().filter(is_able);
        Ok(able.map(String::from).collect())
    }

    /// Refuses placements of emulated pages on the machine's own memory.
    fn check_paged(&self) -> Result<(), Failure> {
        let is_paged =
            |name: &&String| table::row(name).is_some_and(|row| row.grain() == table::Grain::Page);
        match self.comparison.placements.iter().find(is_paged) {
            Some(name) if self.memory.native => Err(Failure::Impossible(format!(
                "the placement {name} moves emulated pages: leave out --native, or measure the kernel with --native \
                 --placements kernel --kernel-tiering autonuma or damon"
            ))),
            _ => Ok(()),
        }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(paths) = &args.output.pool {
        return pool(args, paths);
    }
    if let Some([a, b]) = args.output.compare.as_deref() {
        return compare(args, [a, b]);
    }
    if args.store.is_given() {
        return store::run(args);
    }
    if args.remote.is_given() {
        return remote::run(args);
    }
    let tiering = args.memory.tiering()?;
    args.check_paged()?;
    let topology = Topology::discover(Path::new("/")).map_err(Failure::failed)?;
    let topology = args.memory.nodes.apply(topology)?;
    args.memory.check(&topology)?;
    let setting = args.setting(&topology)?;
    let plan = setting.plan().map_err(Failure::impossible)?;
    plan.check(available(&topology))
        .map_err(Failure::impossible)?;
    let profile = match args.memory.native {
        true => args.memory.emulation.profile()?,
        false => run::profile(&setting.profile).map_err(Failure::impossible)?,
    };
    let given = args.memory.emulation.base()?;
    args.output.outputs.check(&OF_RUN)?;
    // Installed before the kernel's settings change, so that an interrupted run restores them.
    let interrupted = interrupts()?;
    if args.comparison.processes > 1 && args.output.process_report.is_none() {
        let report = processes::run(args.comparison.processes, &interrupted)?;
        return write(args, &report, &interrupted);
    }
    let progress = args
        .output
        .live
        .beside(bars::for_stderr(args.output.quiet))?;
    let _set = match tiering {
        Some(tiering) => set_tiering(tiering, plan.nodes_of(0), plan.nodes_of(1))?,
        None => None,
    };

    let meta = Meta::here(env!("CARGO_PKG_VERSION"));
    let results = match args.memory.native {
        true => run::native(&plan, &*progress, &interrupted),
        false => run::emulated(&plan, &profile, given, &*progress, &interrupted),
    };
    let measured = results.map_err(Failure::Failed)?;
    let mut notes = setting.notes(&plan);
    notes.extend_from_slice(&measured.notes);
    if interrupted.load(Relaxed) {
        notes.push("Interrupted: figures cover the measurements until then.".to_string());
    }
    if measured.outcomes.is_empty() {
        return Err(match interrupted.load(Relaxed) {
            true => Failure::Interrupted("interrupted before the first measurement".into()),
            false => Failure::Failed("nothing was measured: no request ran".into()),
        });
    }
    let meta = Meta {
        profile: setting.profile.clone(),
        base_latency_ns: measured.base_latency_ns(),
        emulated: !args.memory.native,
        seed: plan.seed,
        notes,
        speed: plan.speed(),
        bounds: measured.bounds,
        calibrations: measured.calibrations,
        setting: Some(setting),
        ..meta
    };
    let results = measured.outcomes;
    write(args, &Report { meta, results }, &interrupted)
}

/// Writes the outputs. An interrupted run has a report, too, and another exit code.
fn write(args: &Args, report: &Report, interrupted: &AtomicBool) -> Result<(), Failure> {
    match &args.output.process_report {
        Some(path) => write_file(path, &report.to_json()).map_err(Failure::failed)?,
        None => {
            let Output { outputs, quiet, .. } = &args.output;
            outputs.write(report, &OF_RUN, *quiet)?;
        }
    }
    match interrupted.load(Relaxed) {
        true => Err(Failure::Interrupted("Interrupted.".into())),
        false => Ok(()),
    }
}

/// Shows the reports of several processes as one.
fn pool(args: &Args, paths: &[PathBuf]) -> Result<(), Failure> {
    args.output.outputs.check(&OF_REPORTS)?;
    let reports: Result<Vec<_>, _> = paths.iter().map(|path| Report::read(path)).collect();
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let report = combine(&names, reports.map_err(Failure::Impossible)?);
    let report = report.expect("the option takes at least one file");
    let Output { outputs, quiet, .. } = &args.output;
    outputs.write(&report, &OF_REPORTS, *quiet)
}

/// Shows two written reports side by side.
fn compare(args: &Args, paths: [&PathBuf; 2]) -> Result<(), Failure> {
    args.output.outputs.check(&OF_TWO)?;
    let [a, b] = paths.map(|path| Report::read(path).map_err(Failure::Impossible));
    let names = paths.map(|path| path.display().to_string());
    let both = SideBySide::of(names, [a?, b?]).map_err(Failure::Impossible)?;
    let Output { outputs, quiet, .. } = &args.output;
    outputs.write(&both, &OF_TWO, *quiet)
}

/// Switches the kernel's tiering for as long as the value lives.
fn set_tiering(tiering: KernelTiering, fast: &[u32], slow: &[u32]) -> Result<Option<Set>, Failure> {
    let (Some(&fast), Some(&slow)) = (fast.first(), slow.first()) else {
        return Ok(None);
    };
    let set = tiering.set(Path::new("/"), fast, slow);
    set.map(Some).map_err(Failure::impossible)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        args: Args,
    }

    fn setting(given: &[&str]) -> Result<Setting, Failure> {
        let bench = Bench::parse_from([&["bench"], given].concat());
        let topology = Topology::discover(Path::new("/")).map_err(Failure::failed)?;
        bench.args.setting(&topology)
    }

    #[test]
    fn what_is_given_stands_beside_quick() {
        let numbers = |given: &[&str]| {
            let setting = setting(given).ok().unwrap();
            let Setting {
                records, rounds, ..
            } = setting;
            (records, rounds, setting.slice_s, setting.warmup_s)
        };
        assert_eq!(numbers(&[]), (2_000_000, 6, 5.0, 4.0));
        assert_eq!(numbers(&["--quick"]), (200_000, 3, 0.3, 1.5));
        let given = [
            "--quick",
            "--records",
            "1M",
            "--rounds",
            "7",
            "--slice",
            "2",
            "--warmup",
            "3",
        ];
        assert_eq!(numbers(&given), (1_000_000, 7, 2.0, 3.0));
        let one_round = ["--shift-every", "1", "--rounds", "2"];
        assert!(matches!(setting(&one_round), Err(Failure::Impossible(_))));
    }
}
