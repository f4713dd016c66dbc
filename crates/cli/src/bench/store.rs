//! `timberline bench --store`: the store under load, beside the disk's own reads.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;
use timberline_bench::report::grid::Grid;
use timberline_bench::report::write_file;
use timberline_bench::store::{
    Outcome, Rounds, Setting, SlowMemory, SlowPart, measure, measure_in_slow_memory,
};

use timberline_store::{Error as StoreError, IndexMap};

use super::{Args, ROUNDS};
use crate::cached::Cached;
use crate::disk::{self, Files};
use crate::loads::RECORDS;
use crate::parse::whole;
use crate::say::say;
use crate::setup::interrupts;
use crate::{Failure, folder};

/// Seconds of a slice.
const SLICE: f64 = 2.0;
/// Bytes of the longest value: a segment takes eight of them, and more.
const MOST: usize = 1 << 20;

#[derive(clap::Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// Measure the store instead of maps: load --records of --key-bytes and --value-bytes, get and
    /// overwrite them, in this folder, which must be new or empty and is removed at the end. Of the
    /// other options, --slice, --rounds, --seed, --json and --quiet apply
    #[arg(long, value_name = "DIR", conflicts_with_all = NOT_OF_A_STORE)]
    store: Option<PathBuf>,
    /// Memory for all of the process
    #[arg(
        long,
        default_value = "1GiB",
        value_parser = memory,
        requires = "store",
        value_name = "BYTES"
    )]
    memory_limit: u64,
    /// Which map the index is: `art` takes less processor time, `btree` less memory; by default
    /// `btree`, and `art` with --index-memory
    #[arg(long, requires = "store", value_name = "MAP")]
    index_map: Option<IndexMap>,
    /// Requests in flight
    #[arg(
        long,
        default_value_t = 16,
        value_parser = whole::<u16>(1..=4096),
        requires = "store",
        value_name = "N"
    )]
    in_flight: u16,
    /// Threads that share the gets where there is nothing else, and the requests in flight; with
    /// --index-memory or --cache-memory each reads by a ring of its own
    #[arg(
        long,
        default_value_t = 1,
        value_parser = whole::<u16>(1..=256),
        requires = "store",
        value_name = "N"
    )]
    get_threads: u16,
    /// Gets of Zipf 0.99 before those that are measured, so that the cache has what it would have
    /// after a while
    #[arg(
        long,
        value_parser = timberline_bench::run::count,
        requires = "store",
        conflicts_with = "index_memory",
        value_name = "COUNT"
    )]
    warm: Option<u64>,
    /// How files are read and written: by io_uring where it is allowed, otherwise by threads,
    /// unless it is said
    #[arg(long, value_enum, requires = "store", value_name = "HOW")]
    disk: Option<Files>,
    /// What is kept in memory of what was read or written
    #[arg(
        long,
        value_enum,
        default_value = "values",
        requires = "store",
        conflicts_with = "index_memory",
        value_name = "WHAT"
    )]
    cached: Cached,
    /// Bytes of that at most [default: what the index leaves; with --cache-memory a third of the
    /// records']
    #[arg(
        long,
        value_parser = memory,
        requires = "store",
        conflicts_with = "index_memory",
        value_name = "BYTES"
    )]
    cache_bytes: Option<u64>,
    /// The most bytes on the disk, which overwrites fill before they are measured [default: a
    /// quarter more than the records have]
    #[arg(long, value_parser = memory, requires = "store", value_name = "BYTES")]
    capacity: Option<u64>,
    /// Be a cache: when --capacity is used up, the oldest records go, but for those in memory; gets
    /// put what is not there
    #[arg(long, requires = "capacity")]
    evict: bool,
    /// Measure gets from stores with the index in emulated slow memory beside one with the index in
    /// DRAM, without caching values: profiles such as `us5`, or `us10:20%` for a fifth of the
    /// index's bytes in fast memory
    #[arg(
        long,
        value_delimiter = ',',
        requires = "store",
        value_name = "PROFILE[:PERCENT]"
    )]
    index_memory: Vec<SlowMemory>,
    /// The same with the cache there, and the index in DRAM
    #[arg(
        long,
        value_delimiter = ',',
        requires = "store",
        conflicts_with_all = ["index_memory", "warm"],
        value_name = "PROFILE[:PERCENT]"
    )]
    cache_memory: Vec<SlowMemory>,
}

/// Arguments, and groups of them, that say nothing about a store.
const NOT_OF_A_STORE: [&str; 21] = [
    "workloads",
    "distribution",
    "keys",
    "trace",
    "threads",
    "worker_cores",
    "index",
    "placements",
    "processes",
    "warmup",
    "shift_every",
    "quick",
    "MemoryArgs",
    "Emulation",
    "Nodes",
    "Sidle",
    "RemoteArgs",
    "LiveView",
    "csv",
    "markdown",
    "html",
];
/// What may stand beside --store instead of them.
pub const OF_A_STORE: &str = "with --store there may be --records, --key-bytes, --value-bytes, \
     --slice, --rounds, --seed, --json, --quiet and what `bench --help` lists under Store";

impl StoreArgs {
    /// Which map the index is: in slow memory, the one that needs few of its lines.
    fn index_map(&self) -> IndexMap {
        self.index_map
            .unwrap_or(match self.index_memory.is_empty() {
                true => IndexMap::default(),
                false => IndexMap::Art,
            })
    }
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = timberline_server::bytes(text);
    bytes.ok_or_else(|| "it takes a number with a unit: KB, MB or GB".into())
}

impl StoreArgs {
    /// What is in slow memory, and in which kinds, one after the other.
    fn slow_memory(&self) -> Option<(SlowPart, &[SlowMemory])> {
        let parts = [
            (SlowPart::Index, &self.index_memory),
            (SlowPart::Cache, &self.cache_memory),
        ];
        let given = parts.into_iter().find(|(_, kinds)| !kinds.is_empty());
        given.map(|(part, kinds)| (part, &kinds[..]))
    }

    /// Whether the store is to be measured.
    pub fn is_given(&self) -> bool {
        self.store.is_some()
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let seconds = args.comparison.slice.unwrap_or(SLICE);
    let rounds = args.comparison.rounds.unwrap_or(ROUNDS);
    let value_bytes = args.loads.value_bytes;
    let possible = Duration::try_from_secs_f64(seconds).ok();
    let slice = possible.filter(|it| !it.is_zero()).ok_or_else(|| {
        Failure::Impossible(format!("--slice {seconds}: give more than 0 seconds"))
    })?;
    if rounds == 0 {
        return Err(Failure::Impossible("--rounds 0: give at least 1".into()));
    }
    let records = args.loads.records.unwrap_or(RECORDS);
    if records < 1000 || value_bytes > MOST {
        return Err(Failure::Impossible(format!(
            "{records} records of {value_bytes} bytes: a store is measured with at least 1000, \
             of at most {MOST}"
        )));
    }
    let folder = args.store.store.as_deref().unwrap_or(Path::new(""));
    folder::there_or_new(folder).map_err(|it| it.and("--store takes one that is new or empty"))?;
    args.output.outputs.check_json()?;
    let setting = Setting {
        folder: folder.into(),
        records,
        key_bytes: args.loads.key_bytes.unwrap_or(Setting::KEY_BYTES),
        value_bytes,
        capacity: args.store.capacity,
        evict: args.store.evict,
        cached: args.store.cached.into(),
        cache_bytes: args.store.cache_bytes,
        memory_bytes: args.store.memory_limit,
        index_map: args.store.index_map(),
        in_flight: args.store.in_flight.into(),
        threads: args.store.get_threads.into(),
        warm: args.store.warm.unwrap_or(0),
        slice,
        rounds,
        seed: args.comparison.seed,
        files: disk::kind(args.store.disk),
    };
    // In front of the disk, which may have threads.
    timberline_tier::keep_large_blocks_apart();
    timberline_tier::share_one_heap();
    // Before anything is made.
    timberline_io::Disk::open_by(setting.files, 1).map_err(|it| disk::refused(&it))?;
    setting.check().map_err(Failure::Impossible)?;
    let interrupted = interrupts()?;
    let is_over = || interrupted.load(Relaxed);
    let slow = args.store.slow_memory();
    let outcome = match slow {
        None => measure(&setting, &is_over),
        Some((part, kinds)) => measure_in_slow_memory(&setting, part, kinds, &is_over),
    };
    let outcome = outcome.map_err(|line| failed(line, &setting))?;
    if is_over() {
        let line = "interrupted: figures would be of a part of the run";
        return Err(Failure::Interrupted(line.into()));
    }
    let json = json!({
        "setting": setting,
        "emulated": slow.map_or(&[][..], |(_, kinds)| kinds),
        "slow": slow.map(|(part, _)| part),
        "outcome": outcome
    });
    match args.output.outputs.json_file() {
        Some(path) if path == "-" => return say(format_args!("{json:#}")),
        Some(path) => write_file(path, &format!("{json:#}\n")).map_err(Failure::failed)?,
        None => {}
    }
    match slow {
        None => {}
        Some((SlowPart::Index, _)) => {
            say("EMULATED: slow memory of the index. A get is a lookup and a read of the disk.")?;
        }
        Some((SlowPart::Cache, _)) => say("EMULATED: slow memory of the cache.")?,
    }
    print(&setting, &outcome)
}

/// Why nothing was measured: where it was memory, what was asked for.
fn failed(line: String, setting: &Setting) -> Failure {
    match line.contains(&StoreError::OutOfMemory.to_string()) {
        true => Failure::Impossible(format!(
            "{} records do not fit into {} MB: give fewer with --records, or more memory with \
             --memory-limit",
            setting.records,
            setting.memory_bytes >> 20
        )),
        false => Failure::Failed(line),
    }
}

fn print(setting: &Setting, outcome: &Outcome) -> Result<(), Failure> {
    say(format_args!(
        "{} records of {} bytes, {} in flight on one thread{}\n\
         {} MiB of memory, index: {}; disk: {}\n",
        setting.records,
        setting.value_bytes,
        setting.in_flight,
        match setting.threads {
            1 => String::new(),
            threads => format!(", gets on {threads}"),
        },
        setting.memory_bytes >> 20,
        setting.index_map,
        outcome.disk
    ))?;
    let mut table = Grid::new([
        (["", ""], true),
        (["a second", "median (range)"], false),
        (["core", "us"], false),
        (["p99", "us"], false),
        (["read", "bytes"], false),
        (["written", "bytes"], false),
    ]);
    for row in &outcome.rows {
        let rounds = [&row.core_us, &row.p99_us];
        let [core, p99] = rounds.map(|it| format!("{:.1}", it.median));
        let bytes = [&row.read_bytes, &row.written_bytes];
        let [read, written] = bytes.map(|it| format!("{:.0}", it.median));
        let per_s = shown(&row.per_s, |it| format!("{it:.0}"));
        table.row(vec![row.name.clone(), per_s, core, p99, read, written]);
    }
    say(table.render().trim_end())?;
    say("")?;
    for figure in &outcome.figures {
        let values = shown(&figure.values, |it| format!("{it:.2}"));
        say(format_args!("{}: {values}", figure.name))?;
    }
    Ok(())
}

/// The median, and the range where there is one.
fn shown(rounds: &Rounds, value: impl Fn(f64) -> String) -> String {
    let Rounds {
        median,
        least,
        most,
    } = *rounds;
    match least == most {
        true => value(median),
        false => format!("{} ({}–{})", value(median), value(least), value(most)),
    }
}
