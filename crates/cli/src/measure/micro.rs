//! `timberline measure micro`: the microbenchmark of the throughput model.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use timberline_bench::micro::{Grid, Io, Outcome, Point, Setting, measure};
use timberline_bench::report::grid::Grid as Table;
use timberline_tier::topology::{NodeList, Topology};

use crate::parse::{number, whole};
use crate::say::say;
use crate::setup::interrupts;
use crate::{Failure, folder};

#[derive(clap::Args)]
#[command(
    after_help = "One core runs operations that chase pointers through slow memory, emulated with \
    ten prefetches in flight or that of --slow-node, and then do one I/O. What is printed beside \
    each measurement is the prediction of Bando et al. (SIGMOD 2025). Their grid: --accesses 1,5,10,15 --add-access-ns \
    0,20,40 --add-submit-us 0,1,2 --add-complete-us 0,1,2 --latency-us \
    0.1,0.3,0.5,1,2,3,4,5,6,7,8,9,10"
)]
pub struct Args {
    /// Accesses to memory in an operation
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,15", value_name = "N",
        value_parser = whole::<u32>(1..=1000))]
    accesses: Vec<u32>,
    /// Latencies of the emulated memory
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.5,1,2,5,10", value_name = "US",
        value_parser = number(0.0..=1000.0))]
    latency_us: Vec<f64>,
    /// Time to add to each access
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "NS",
        value_parser = number(0.0..=100_000.0))]
    add_access_ns: Vec<f64>,
    /// Time to add to each submission of an I/O [default: 0,2; with a timer 1.5,3.5]
    #[arg(long, value_delimiter = ',', value_name = "US",
        value_parser = number(0.0..=1000.0))]
    add_submit_us: Vec<f64>,
    /// Time to add to each completion of an I/O [default: 0; with a timer 0.2]
    #[arg(long, value_delimiter = ',', value_name = "US",
        value_parser = number(0.0..=1000.0))]
    add_complete_us: Vec<f64>,
    /// Numbers of operations in flight; the best of them counts
    #[arg(long, value_delimiter = ',', default_value = "12,16,24,32,64,128", value_name = "N",
        value_parser = whole::<u32>(1..=4096))]
    tasks: Vec<u32>,
    /// Megabytes of memory to chase through
    #[arg(long, default_value_t = 64, value_name = "MB",
        value_parser = whole::<u32>(4..=65536))]
    megabytes: u32,
    /// Fraction of the memory that is slow, 0 to 1; the rest is DRAM (ρ of the model)
    #[arg(long, default_value = "1", value_name = "FRACTION", value_parser = number(0.0..=1.0))]
    slow_part: f64,
    /// Bandwidth of the emulated memory, 1 to 1000000 [default: no limit]
    #[arg(long, value_name = "MB/S", value_parser = number(1.0..=1_000_000.0))]
    memory_mb_per_s: Option<f64>,
    /// Chase through the memory of this NUMA node, in place of emulated memory; nothing is added
    /// to its latency, which is measured
    #[arg(long, value_name = "NODE", conflicts_with_all = ["latency_us", "memory_mb_per_s"])]
    slow_node: Option<u32>,
    /// Where the file to read is made, and removed at the end [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR", conflicts_with = "timer_us")]
    folder: Option<PathBuf>,
    /// Megabytes of the file
    #[arg(long, default_value_t = 256, value_name = "MB", conflicts_with = "timer_us",
        value_parser = whole::<u32>(1..=1_048_576))]
    file_megabytes: u32,
    /// KiB of a read of the file: a multiple of 4 up to 1024
    #[arg(long, default_value = "4", value_name = "KIB", conflicts_with = "timer_us",
        value_parser = read_kib)]
    read_kib: usize,
    /// Instead of reading a file, wait this long: where the disk would limit everything
    #[arg(long, value_name = "US", value_parser = number(0.0..=100_000.0))]
    timer_us: Option<f64>,
    /// Length of one measurement
    #[arg(long, default_value_t = 20, value_name = "MS",
        value_parser = whole::<u32>(1..=60_000))]
    milliseconds: u32,
    /// Measurements of each point and number of tasks
    #[arg(long, default_value_t = 5, value_name = "N",
        value_parser = whole::<u32>(1..=1000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses the size of a read.
fn read_kib(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(kib) if (4..=1024).contains(&kib) && kib % 4 == 0 => Ok(kib),
        _ => Err("it has to be a multiple of 4 from 4 to 1024".to_owned()),
    }
}

/// Whether this machine has that memory, and enough of it.
fn check_node(node: u32, bytes: u64) -> Result<(), Failure> {
    let topology = Topology::discover(Path::new("/")).map_err(Failure::impossible)?;
    let usable = topology.nodes().iter().filter(|it| it.is_usable());
    let Some(found) = usable.clone().find(|it| it.id == node) else {
        let all: NodeList = usable.map(|it| it.id).collect();
        return Err(Failure::Impossible(format!(
            "--slow-node {node}: there is no such NUMA node with memory; choose from {all}"
        )));
    };
    match found.total_bytes > bytes {
        true => Ok(()),
        false => Err(Failure::Impossible(format!(
            "--megabytes {}: NUMA node {node} has {} MB in all",
            bytes >> 20,
            found.total_bytes >> 20
        ))),
    }
}

fn given_or(given: &[f64], otherwise: &[f64]) -> Vec<f64> {
    if given.is_empty() { otherwise } else { given }.to_vec()
}

pub fn run(args: &Args) -> Result<(), Failure> {
    // A timer needs no work of the core; a file's read has its own.
    let (submit_us, complete_us) = match args.timer_us {
        Some(_) => ([1.5, 3.5], 0.2),
        None => ([0.0, 2.0], 0.0),
    };
    let (submit_us, complete_us) = (&submit_us[..], &[complete_us][..]);
    let io = match args.timer_us {
        Some(us) => Io::Timer(Duration::from_secs_f64(us * 1e-6)),
        None => Io::File {
            folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
            bytes: u64::from(args.file_megabytes) << 20,
            read_bytes: args.read_kib << 10,
        },
    };
    if let Some(folder) = &args.folder {
        folder::there(folder).map_err(|it| it.of("--folder"))?;
    }
    if let Some(node) = args.slow_node {
        check_node(node, u64::from(args.megabytes) << 20)?;
    }
    let setting = Setting {
        memory_bytes: (args.megabytes as usize) << 20,
        slow_part: args.slow_part,
        memory_bytes_per_s: args.memory_mb_per_s.map(|mb| mb * 1e6),
        slow_node: args.slow_node,
        io,
        slice: Duration::from_millis(args.milliseconds.into()),
        rounds: args.rounds as usize,
        tasks: args.tasks.iter().map(|&tasks| tasks as usize).collect(),
        grid: Grid {
            accesses: args.accesses.clone(),
            access_ns: args.add_access_ns.clone(),
            submit_us: given_or(&args.add_submit_us, submit_us),
            complete_us: given_or(&args.add_complete_us, complete_us),
            latency_us: args.latency_us.clone(),
        },
    };
    let interrupted = interrupts()?;
    let is_over = || interrupted.load(Relaxed);
    let outcome = measure(&setting, &is_over).map_err(Failure::failed)?;
    match args.json {
        true => say(format_args!("{:#}", as_json(&setting, &outcome)))?,
        false => print(&setting, &outcome)?,
    }
    match is_over() {
        true => Err(Failure::Interrupted(
            "interrupted: points or rounds are missing".to_owned(),
        )),
        false => Ok(()),
    }
}

fn as_json(setting: &Setting, outcome: &Outcome) -> Value {
    let costs = &outcome.costs;
    let point = |it: &Point| {
        json!({
            "accesses": it.accesses, "added_access_ns": it.added_s[0] * 1e9,
            "added_submit_us": it.added_s[1] * 1e6, "added_complete_us": it.added_s[2] * 1e6,
            "latency_us": it.latency_s * 1e6, "tasks": it.tasks,
            "per_s": it.per_s[0], "per_s_median": it.per_s[1], "per_s_min": it.per_s[2],
            "predicted_per_s": it.predicted_per_s, "masking_per_s": it.masking_per_s,
            "error": it.error(), "masking_error": it.masking_error(),
        })
    };
    let io_per_s = costs.io_per_s.is_finite().then_some(costs.io_per_s);
    json!({
        "emulated": setting.slow_node.is_none(), "slow_node": setting.slow_node,
        "slow_part": setting.slow_part, "memory_bytes_per_s": setting.memory_bytes_per_s,
        "io": outcome.io, "switch_ns": costs.switch_s * 1e9,
        "access_ns": costs.access_s * 1e9, "io_us": costs.io_s * 1e6, "io_per_s": io_per_s,
        "points": outcome.points.iter().map(point).collect::<Vec<_>>(),
    })
}

/// What the slow memory is.
fn memory(setting: &Setting, outcome: &Outcome) -> String {
    let part = match setting.slow_part {
        1.0 => String::new(),
        part => format!(", {:.0} % of the accesses", 100.0 * part),
    };
    match (setting.slow_node, outcome.latencies_s.first()) {
        (Some(node), Some(latency_s)) => format!(
            "slow memory: NUMA node {node}{part}, as it is: 0 us are added to its {:.0} ns",
            latency_s * 1e9
        ),
        _ => format!("slow memory is emulated{part}"),
    }
}

fn print(setting: &Setting, outcome: &Outcome) -> Result<(), Failure> {
    let costs = &outcome.costs;
    let limit = match costs.io_per_s.is_finite() {
        true => format!("\nthe device does {:.0} a second", costs.io_per_s),
        false => String::new(),
    };
    say(format_args!(
        "{}\nI/O: {}\nmeasured: {:.0} ns a switch, {:.0} ns an access, {:.2} us of \
         the core an I/O{limit}\n",
        memory(setting, outcome),
        outcome.io,
        costs.switch_s * 1e9,
        costs.access_s * 1e9,
        costs.io_s * 1e6,
    ))?;
    say(
        "Thousands of operations a second, and error of the model in percent.\nAdded: ns to an \
         access, us before and after an I/O.\n",
    )?;
    say(table(&setting.grid, outcome))?;
    let errors = |of: fn(&Point) -> f64| {
        let mut all: Vec<f64> = outcome.points.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| 100.0 * all.get(index).copied().unwrap_or(f64::NAN);
        let (least, most) = (at(0), at(all.len().saturating_sub(1)));
        format!(
            "{least:+.1} % to {most:+.1} %, median {:+.1} %",
            at(all.len() / 2)
        )
    };
    say(format_args!(
        "\nerror of the model: {}\nerror of masking only: {}",
        errors(Point::error),
        errors(Point::masking_error)
    ))
}

/// A row for each operation, a column for each latency.
fn table(grid: &Grid, outcome: &Outcome) -> String {
    let us = |seconds: &f64| format!("{} us", (seconds * 1e9).round() / 1e3);
    let heads: Vec<String> = outcome.latencies_s.iter().map(us).collect();
    let fixed = [(["", "accesses"], false), (["added", "ns, us / us"], true)];
    let latencies = heads.iter().map(|head| (["", head.as_str()], false));
    let mut table = Table::new(fixed.into_iter().chain(latencies));
    let operations = grid.operations();
    for (nth, (accesses, added_s)) in operations.iter().enumerate() {
        let mut cells = vec![
            accesses.to_string(),
            format!(
                "{:.0}, {:.1} / {:.1}",
                added_s[0] * 1e9,
                added_s[1] * 1e6,
                added_s[2] * 1e6
            ),
        ];
        cells.extend((0..heads.len()).map(|latency| {
            let point = outcome.points.get(latency * operations.len() + nth);
            point.map_or("–".to_owned(), |point| {
                format!("{:.0} {:+.0}", point.per_s[0] / 1e3, 100.0 * point.error())
            })
        }));
        table.row(cells);
    }
    table.render().trim_end().to_owned()
}
