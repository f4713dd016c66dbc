//! `timberline bench --remote`: the B+tree over memory servers, on a simulated cluster.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;
use timberline_bench::remote::{Design, Row, Setting, Workload, measure};
use timberline_bench::report::grid::Grid;
use timberline_bench::report::write_file;

use super::Args;
use crate::Failure;
use crate::say::say;
use crate::setup::interrupts;

#[derive(clap::Args)]
#[command(next_help_heading = "Memory servers")]
pub struct RemoteArgs {
    /// Measure the B+tree over memory servers instead: --records on a simulated cluster, operations
    /// of the network counted, throughput modelled. Of the options above, --seed and --json apply
    #[arg(long)]
    remote: bool,
    /// Compute servers, each with the same share of the keys
    #[arg(long, default_value_t = 4, value_parser = servers(), requires = "remote", value_name = "N")]
    compute_servers: u16,
    /// Memory servers
    #[arg(long, default_value_t = 4, value_parser = servers(), requires = "remote", value_name = "N")]
    memory_servers: u16,
    /// Requests under way at a time on each compute server
    #[arg(
        long,
        default_value_t = 36,
        value_parser = clap::value_parser!(u16).range(1..=1024),
        requires = "remote",
        value_name = "N"
    )]
    compute_threads: u16,
    /// Cache of each compute server, as a part of all records' bytes
    #[arg(long, default_value_t = 0.08, requires = "remote", value_name = "PART")]
    cache: f64,
    /// θ of the requests' keys; 0 is uniform
    #[arg(
        long,
        default_value_t = 0.99,
        requires = "remote",
        value_name = "THETA"
    )]
    skew: f64,
    /// Requests to count, after as many for warm-up
    #[arg(
        long,
        default_value_t = 1_000_000,
        requires = "remote",
        value_name = "N"
    )]
    requests: u64,
    /// Designs to compare: copies, dex, dex-eager, p-sherman-like [default: all]
    #[arg(long, value_delimiter = ',', requires = "remote", value_name = "NAMES")]
    designs: Vec<String>,
    /// Workloads: read-only, read-intensive, write-intensive, insert-intensive, scan-intensive
    /// [default: all]
    #[arg(long, value_delimiter = ',', requires = "remote", value_name = "NAMES")]
    remote_workloads: Vec<String>,
    /// From start to completion of a small operation, in nanoseconds
    #[arg(long, default_value_t = 2_000, requires = "remote", value_name = "NS")]
    network_ns: u64,
    /// Of each server's port, in Gb/s
    #[arg(
        long,
        default_value_t = 100.0,
        requires = "remote",
        value_name = "GB/S"
    )]
    gigabits: f64,
    /// What a request takes on its compute server beside the network, in nanoseconds
    #[arg(long, default_value_t = 400, requires = "remote", value_name = "NS")]
    local_ns: u64,
}

fn servers() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=64)
}

impl RemoteArgs {
    /// Whether the tree over memory servers is to be measured.
    pub fn is_given(&self) -> bool {
        self.remote
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let given = &args.remote;
    let within = |name: &str, value: f64, is_possible: bool, what: &str| match is_possible {
        true => Ok(()),
        false => Err(Failure::Impossible(format!("--{name} {value}: {what}"))),
    };
    let records = args.loads.records;
    within("records", records as f64, records >= 1_000, "at least 1000")?;
    let cache = given.cache;
    within(
        "cache",
        cache,
        cache > 0.0 && cache <= 100.0,
        "more than 0, at most 100",
    )?;
    let skew = given.skew;
    within(
        "skew",
        skew,
        (0.0..2.0).contains(&skew),
        "at least 0, less than 2",
    )?;
    let gigabits = given.gigabits;
    within("gigabits", gigabits, gigabits > 0.0, "more than 0")?;
    within(
        "requests",
        given.requests as f64,
        given.requests > 0,
        "at least 1",
    )?;
    let setting = Setting {
        records,
        compute_servers: given.compute_servers,
        memory_servers: given.memory_servers,
        threads: given.compute_threads.into(),
        cache,
        skew,
        warmup: given.requests,
        requests: given.requests,
        designs: chosen("design", &given.designs, &Design::ALL, Design::name)?,
        workloads: chosen(
            "workload",
            &given.remote_workloads,
            &Workload::ALL,
            Workload::name,
        )?,
        latency_ns: given.network_ns,
        gigabits,
        local_ns: given.local_ns,
        seed: args.comparison.seed,
    };
    let interrupted = interrupts()?;
    let is_over = || interrupted.load(Relaxed);
    let rows = measure(&setting, &is_over).map_err(Failure::Failed)?;
    if is_over() {
        let line = "interrupted: figures would be of a part of the run";
        return Err(Failure::Interrupted(line.into()));
    }
    let json = json!({ "setting": setting, "rows": rows });
    match args.output.outputs.json_file() {
        Some(path) if path == "-" => return say(format_args!("{json:#}")),
        Some(path) => {
            let failed = |error| Failure::Failed(format!("{}: {error}", path.display()));
            write_file(path, &format!("{json:#}\n")).map_err(failed)?;
        }
        None => {}
    }
    print(&setting, &rows)
}

/// Those of `all` that have these names; all, if none is given.
fn chosen<T: Copy>(
    what: &str,
    names: &[String],
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, Failure> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let find = |name: &String| {
        let found = all.iter().copied().find(|&it| name_of(it) == name);
        found.ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|&it| name_of(it)).collect();
            let known = known.join(", ");
            Failure::Impossible(format!("there is no {what} {name:?}; there are {known}"))
        })
    };
    names.iter().map(find).collect()
}

fn print(setting: &Setting, rows: &[Row]) -> Result<(), Failure> {
    say(format_args!(
        "SIMULATED: {} compute servers with caches of {} KiB, {} memory servers; {} records of 16 \
         bytes\n{} requests in flight on each; network of {} ns and {} Gb/s; {} ns beside it; \
         theta {}\n",
        setting.compute_servers,
        setting.cache_bytes() >> 10,
        setting.memory_servers,
        setting.records,
        setting.threads,
        setting.latency_ns,
        setting.gigabits,
        setting.local_ns,
        setting.skew,
    ))?;
    let mut table = Grid::new([
        (["workload", ""], true),
        (["design", ""], true),
        (["reads", "a request"], false),
        (["writes", "a request"], false),
        (["atomics", "a request"], false),
        (["calls", "a request"], false),
        (["bytes", "a request"], false),
        (["modelled", "M/s"], false),
    ]);
    for row in rows {
        table.row(vec![
            row.workload.name().into(),
            row.design.name().into(),
            format!("{:.3}", row.reads),
            format!("{:.3}", row.writes),
            format!("{:.3}", row.atomics),
            format!("{:.4}", row.calls),
            format!("{:.0}", row.bytes),
            format!("{:.1}", row.modelled_mops),
        ]);
    }
    say(table.render().trim_end())
}
