//! `timberline bench --remote`: the B+tree over memory servers, on a simulated cluster or over
//! processes.

mod balance;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};
use timberline_bench::Rounds;
use timberline_bench::remote::{
    Design, Each, Handover, PoolOutcome, Row, Setting, Workload, measure, measure_balance,
    measure_handover, measure_pool, optimal_reads,
};
use timberline_bench::report::grid::Grid;
use timberline_bench::report::write_file;
use timberline_remote::fabric::{FabricKind, TransportOptions};
use timberline_remote::pool::FINDERS;
use timberline_remote::{Error, Etcd, ServerId};
use timberline_tier::topology::Topology;

use super::Args;
use crate::Failure;
use crate::known::known;
use crate::loads::RECORDS;
use crate::parse::{address, whole};
use crate::pool::key;
use crate::say::say;
use crate::setup::{available, interrupts};

#[derive(clap::Args)]
#[command(next_help_heading = "Memory servers")]
pub struct RemoteArgs {
    /// Measure the B+tree over memory servers instead: --records on a simulated cluster, operations
    /// of the network counted, throughput modelled. Of the other options, --seed and --json apply
    #[arg(long)]
    remote: bool,
    /// Use these memory servers (`timberline pool`), whose memory nobody has used yet, instead of a
    /// simulation, with one compute server: this process. Throughput is measured, beside bare reads
    #[arg(
        long,
        value_delimiter = ',',
        requires = "remote",
        conflicts_with_all = [
            "compute_servers",
            "memory_servers",
            "network_ns",
            "gigabits",
            "local_ns",
            "offload_threads"
        ],
        value_parser = address,
        value_name = "ADDRESS:PORT"
    )]
    servers: Vec<SocketAddr>,
    /// How these memory servers are reached: what they were started with
    #[arg(
        long,
        requires = "servers",
        default_value_t,
        value_name = "tcp|libfabric:PROVIDER"
    )]
    fabric: FabricKind,
    /// File with the key of these memory servers
    #[arg(long, requires = "servers", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Measure how half of the keys change hands under load, between two compute servers in this
    /// process
    #[arg(
        long,
        requires = "servers",
        conflicts_with_all = ["designs", "remote_workloads"]
    )]
    repartition: bool,
    /// Let keys follow the load by themselves. With --repartition, the second compute server gets
    /// keys because it has none; without --servers, a hot spot moves over a simulated cluster,
    /// whose keys stay and then follow it
    #[arg(long, requires = "remote", conflicts_with_all = ["designs", "remote_workloads"])]
    balance: bool,
    /// Where an etcd serves clients, such as http://127.0.0.1:2379, with commas between several
    /// servers: it has the owners of keys and the compute servers' leases, not the memory servers
    #[arg(long, requires = "repartition", value_parser = Etcd::new, value_name = "URLS")]
    etcd: Option<Etcd>,
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
        value_parser = whole::<u16>(1..=1024),
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
    /// Designs to compare: copies, copies-offload, dex, dex-offload, dex-eager, dex-adaptive,
    /// p-sherman-like, p-smart-like, partitioned; without partitions sherman-like,
    /// sherman-versions, smart-like, baseline [default: all; with --servers those with partitions]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = known(Design::ALL.map(Design::name)),
        hide_possible_values = true,
        requires = "remote",
        value_name = "NAMES"
    )]
    designs: Vec<String>,
    /// Workloads: read-only, read-intensive, write-intensive, insert-intensive, scan-intensive
    /// [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = known(Workload::ALL.map(Workload::name)),
        hide_possible_values = true,
        requires = "remote",
        value_name = "NAMES"
    )]
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
    /// Threads of each memory server that look for leaves, in the designs that offload
    #[arg(
        long,
        default_value_t = FINDERS as u16,
        value_parser = whole::<u16>(1..=1024),
        requires = "remote",
        value_name = "N"
    )]
    offload_threads: u16,
}

fn servers() -> impl Fn(&str) -> Result<u16, String> + Clone {
    whole::<u16>(1..=64)
}

impl RemoteArgs {
    /// Whether the tree over memory servers is to be measured.
    pub fn is_given(&self) -> bool {
        self.remote
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let given = &args.remote;
    let mut setting = Setting {
        records: args.loads.records.unwrap_or(RECORDS),
        compute_servers: given.compute_servers,
        memory_servers: given.memory_servers,
        threads: given.compute_threads.into(),
        cache: given.cache,
        skew: given.skew,
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
        gigabits: given.gigabits,
        local_ns: given.local_ns,
        finders: given.offload_threads,
        seed: args.comparison.seed,
    };
    if given.designs.is_empty() && !given.servers.is_empty() {
        setting.designs.retain(|it| it.is_partitioned());
    }
    check(given, &setting)?;
    args.output.outputs.check_json()?;
    let interrupted = interrupts()?;
    let is_over = || interrupted.load(Relaxed);
    if given.servers.is_empty() && given.balance {
        let measured = measure_balance(&setting, &is_over).map_err(failure)?;
        let runs = measured.ok_or_else(interrupted_run)?;
        if write_json(args, &json!({ "setting": setting, "balance": runs }))? {
            return Ok(());
        }
        return balance::print(&setting, &runs);
    }
    if given.servers.is_empty() {
        let rows = measure(&setting, &is_over).map_err(failure)?;
        if is_over() {
            return Err(interrupted_run());
        }
        let is_read = setting.workloads.contains(&Workload::ReadOnly);
        let optimal = is_read.then(|| optimal_reads(&setting));
        let json = json!({ "setting": setting, "rows": rows, "optimal_reads": optimal });
        if write_json(args, &json)? {
            return Ok(());
        }
        return print(&setting, &rows, optimal);
    }
    let options = TransportOptions {
        key: given.key_file.as_deref().map(key).transpose()?,
        ..TransportOptions::default()
    };
    if let Some(etcd) = &given.etcd {
        timberline_io::wait_for(etcd.check()).map_err(failure)?;
    }
    let connect = || {
        let connected = given.fabric.connect(&given.servers, &options);
        connected.map_err(Failure::impossible)
    };
    let fabric = connect()?;
    if given.repartition {
        let fabrics = [fabric, connect()?];
        let etcd = given.etcd.clone();
        let measured = measure_handover(&setting, fabrics, given.balance, etcd, &is_over);
        let measured = measured.map_err(failure)?;
        let handover = measured.ok_or_else(interrupted_run)?;
        if write_json(args, &json!({ "setting": setting, "handover": handover }))? {
            return Ok(());
        }
        return print_handover(&setting, &handover);
    }
    let measured = measure_pool(&setting, fabric, &is_over);
    let outcome = timberline_io::wait_for(measured).map_err(failure)?;
    let outcome = outcome.ok_or_else(interrupted_run)?;
    if write_json(args, &json!({ "setting": setting, "outcome": outcome }))? {
        return Ok(());
    }
    print_pool(given.servers.len(), &setting, &outcome)
}

/// Whether the arguments can be measured, as far as that is known before.
fn check(given: &RemoteArgs, setting: &Setting) -> Result<(), Failure> {
    let topology = Topology::discover(Path::new("/")).map_err(Failure::failed)?;
    let memory = available(&topology);
    let mut seen = HashSet::new();
    if let Some(address) = given.servers.iter().find(|it| !seen.insert(**it)) {
        let line = format!("--servers: {address} is there twice; it is one memory server");
        return Err(Failure::Impossible(line));
    }
    let servers = given.servers.len();
    let servers = ServerId::try_from(servers)
        .map_err(|_| Failure::impossible(Error::TooManyServers(servers)))?;
    if servers > 0 && given.balance && !given.repartition {
        let line = "--balance with --servers: give --repartition, too";
        return Err(Failure::Impossible(line.into()));
    }
    let checked = match servers {
        0 if given.balance => setting.check_balanced(memory),
        0 => setting.check_simulated(memory),
        _ if given.repartition => setting.check_handover(servers, memory, given.balance),
        _ => setting.check_over(servers, memory),
    };
    checked.map_err(Failure::impossible)
}

/// Bad input, if the memory servers or the cache do not fit what was asked for.
fn failure(error: Error) -> Failure {
    match error {
        Error::Etcd(_) => Failure::Impossible(format!("--etcd: {error}")),
        Error::PoolInUse => Failure::Impossible(format!("--servers: {error}")),
        Error::PoolFull(_) => Failure::Impossible(format!(
            "{error}: give it more --memory, or fewer --records and --requests"
        )),
        Error::CacheTooSmall { .. } => Failure::Impossible(format!("--cache: {error}")),
        Error::OutOfMemory(_) => Failure::Impossible(format!("--records, --cache: {error}")),
        _ => Failure::failed(error),
    }
}

fn interrupted_run() -> Failure {
    Failure::Interrupted("interrupted: figures would be of a part of the run".into())
}

/// Writes the figures as JSON, if that is asked for. Says whether stdout has them.
fn write_json(args: &Args, figures: &Value) -> Result<bool, Failure> {
    match args.output.outputs.json_file() {
        Some(path) if path == "-" => say(format_args!("{figures:#}")).map(|()| true),
        Some(path) => {
            let failed = |error| Failure::Failed(format!("{}: {error}", path.display()));
            write_file(path, &format!("{figures:#}\n")).map_err(failed)?;
            Ok(false)
        }
        None => Ok(false),
    }
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

fn print(setting: &Setting, rows: &[Row], optimal: Option<f64>) -> Result<(), Failure> {
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
    let operations = [READS, WRITES, ATOMICS, CALLS, BYTES];
    let mut table = grid(&operations, &[["modelled", "M/s"]]);
    for row in rows {
        table.row(cells(
            row.workload,
            row.design,
            &operations,
            &row.each,
            [format!("{:.1}", row.modelled_mops)],
        ));
    }
    say(table.render().trim_end())?;
    match optimal {
        Some(reads) => say(format_args!(
            "\nA cache of as many bytes of nodes that knows all requests beforehand: {reads:.3} \
             reads a request (read-only)."
        )),
        None => Ok(()),
    }
}

fn print_pool(servers: usize, setting: &Setting, outcome: &PoolOutcome) -> Result<(), Failure> {
    say(format_args!(
        "{servers} memory servers by TCP, one compute server with a cache of {} KiB; {} records of \
         16 bytes\n{} requests in flight; theta {}\n{} thousand bare reads of a node a second\n",
        setting.cache_bytes() >> 10,
        setting.records,
        setting.threads,
        setting.skew,
        spread(&outcome.echo.kops, 0),
    ))?;
    let operations = [READS, WRITES, BYTES];
    let figures = [["thousands a second", ""], ["reads to", "bare ones"]];
    let mut table = grid(&operations, &figures);
    for row in &outcome.rows {
        let of_echo = format!("{:.2}", row.of_echo.median);
        let figures = [spread(&row.kops, 0), of_echo];
        table.row(cells(
            row.workload,
            row.design,
            &operations,
            &row.each,
            figures,
        ));
    }
    say(table.render().trim_end())
}

fn print_handover(setting: &Setting, handover: &Handover) -> Result<(), Failure> {
    say(format_args!(
        "{} records of 16 bytes; two compute servers with caches of {} KiB; {} requests in flight; \
         theta {}, half of them updates\n\n\
         keys changed hands in {:.0} ms ({:.0} ms until they were given)\n\
         {} writes, {:.1} MiB over the network; {} requests refused\n\
         {} acknowledged changes read back, {} lost\n\n\
         thousands of requests a second, by tenths of a second:",
        setting.records,
        setting.cache_bytes() >> 10,
        setting.threads,
        setting.skew,
        handover.unserved_ms,
        handover.given_ms,
        handover.writes,
        handover.bytes as f64 / f64::from(1 << 20),
        handover.refused,
        handover.checked,
        handover.lost,
    ))?;
    let (before, after) = handover.kops.split_at(handover.begin);
    let row = |kops: &[f64]| {
        let cells: Vec<_> = kops.iter().map(|kops| format!("{kops:.0}")).collect();
        cells.join(" ")
    };
    say(format_args!("{} | {}", row(before), row(after)))
}

/// A median, and the range of the rounds.
fn spread(rounds: &Rounds, digits: usize) -> String {
    let Rounds {
        median,
        least,
        most,
    } = rounds;
    format!("{median:.digits$} [{least:.digits$}, {most:.digits$}]")
}

/// An operation of the network, and its number a request.
type Operation = (&'static str, fn(&Each) -> String);

const READS: Operation = ("reads", |each| format!("{:.3}", each.reads));
const WRITES: Operation = ("writes", |each| format!("{:.3}", each.writes));
const ATOMICS: Operation = ("atomics", |each| format!("{:.3}", each.atomics));
const CALLS: Operation = ("calls", |each| format!("{:.4}", each.calls));
const BYTES: Operation = ("bytes", |each| format!("{:.0}", each.bytes));

/// A table of operations a request, and of these figures.
fn grid(operations: &[Operation], figures: &[[&'static str; 2]]) -> Grid<'static> {
    let operations = operations
        .iter()
        .map(|(name, _)| ([*name, "a request"], false));
    let names = [(["workload", ""], true), (["design", ""], true)];
    let figures = figures.iter().map(|head| (*head, false));
    Grid::new(names.into_iter().chain(operations).chain(figures))
}

fn cells<const FIGURES: usize>(
    workload: Workload,
    design: Design,
    operations: &[Operation],
    each: &Each,
    figures: [String; FIGURES],
) -> Vec<String> {
    let names = [workload.name().into(), design.name().into()];
    let operations = operations.iter().map(|(_, cell)| cell(each));
    names.into_iter().chain(operations).chain(figures).collect()
}
