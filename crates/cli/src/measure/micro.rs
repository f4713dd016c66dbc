//! `timberline measure micro`: the microbenchmark of the throughput model.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use timberline_bench::micro::{Grid, Io, Outcome, Point, READ_BYTES, Setting, measure};
use timberline_bench::report::grid::Grid as Table;

use crate::Failure;
use crate::say::say;
use crate::setup::interrupts;

#[derive(clap::Args)]
#[command(
    after_help = "One core runs operations that chase pointers through emulated slow memory, \
    ten prefetches in flight, and then do one I/O. What is printed beside each measurement is the \
    prediction of Bando et al. (SIGMOD 2025). Their grid: --accesses 1,5,10,15 --add-access-ns \
    0,20,40 --add-submit-us 0,1,2 --add-complete-us 0,1,2 --latency-us \
    0.1,0.3,0.5,1,2,3,4,5,6,7,8,9,10"
)]
pub struct Args {
    /// Accesses to memory in an operation
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,15", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    accesses: Vec<u32>,
    /// Latencies of memory
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.5,1,2,5,10", value_name = "US",
        value_parser = number::<0, 1000>)]
    latency_us: Vec<f64>,
    /// Time to add to each access
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "NS",
        value_parser = number::<0, 100_000>)]
    add_access_ns: Vec<f64>,
    /// Time to add to each submission of an I/O [default: 0,2; with a timer 1.5,3.5]
    #[arg(long, value_delimiter = ',', value_name = "US",
        value_parser = number::<0, 1000>)]
    add_submit_us: Vec<f64>,
    /// Time to add to each completion of an I/O [default: 0; with a timer 0.2]
    #[arg(long, value_delimiter = ',', value_name = "US",
        value_parser = number::<0, 1000>)]
    add_complete_us: Vec<f64>,
    /// Numbers of operations in flight; the best of them counts
    #[arg(long, value_delimiter = ',', default_value = "12,16,24,32,64,128", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    tasks: Vec<u32>,
    /// Megabytes of memory to chase through
    #[arg(long, default_value_t = 64, value_name = "MB",
        value_parser = clap::value_parser!(u32).range(4..=65536))]
    megabytes: u32,
    /// Where the file to read is made, and removed at the end [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR", conflicts_with = "timer_us")]
    folder: Option<PathBuf>,
    /// Megabytes of the file
    #[arg(long, default_value_t = 256, value_name = "MB", conflicts_with = "timer_us",
        value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    file_megabytes: u32,
    /// Instead of reading a file, wait this long: where the disk would limit everything
    #[arg(long, value_name = "US", value_parser = number::<0, 100_000>)]
    timer_us: Option<f64>,
    /// Length of one measurement
    #[arg(long, default_value_t = 20, value_name = "MS",
        value_parser = clap::value_parser!(u32).range(1..=60_000))]
    milliseconds: u32,
    /// Measurements of each point and number of tasks
    #[arg(long, default_value_t = 5, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses a number of a range.
fn number<const LEAST: u32, const MOST: u32>(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (f64::from(LEAST)..=f64::from(MOST)).contains(&number) => Ok(number),
        _ => Err(format!("it has to be a number from {LEAST} to {MOST}")),
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
            read_bytes: READ_BYTES,
        },
    };
    let setting = Setting {
        memory_bytes: (args.megabytes as usize) << 20,
        slow_part: 1.0,
        memory_bytes_per_s: None,
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
        true => say(format_args!("{:#}", as_json(&outcome)))?,
        false => print(&setting.grid, &outcome)?,
    }
    match is_over() {
        true => Err(Failure::Interrupted(
            "interrupted: points or rounds are missing".to_owned(),
        )),
        false => Ok(()),
    }
}

fn as_json(outcome: &Outcome) -> Value {
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
        "emulated": true, "io": outcome.io, "switch_ns": costs.switch_s * 1e9,
        "access_ns": costs.access_s * 1e9, "io_us": costs.io_s * 1e6, "io_per_s": io_per_s,
        "points": outcome.points.iter().map(point).collect::<Vec<_>>(),
    })
}

fn print(grid: &Grid, outcome: &Outcome) -> Result<(), Failure> {
    let costs = &outcome.costs;
    let limit = match costs.io_per_s.is_finite() {
        true => format!("\nthe device does {:.0} a second", costs.io_per_s),
        false => String::new(),
    };
    say(format_args!(
        "memory is emulated; I/O: {}\nmeasured: {:.0} ns a switch, {:.0} ns an access, {:.2} us of \
         the core an I/O{limit}\n",
        outcome.io,
        costs.switch_s * 1e9,
        costs.access_s * 1e9,
        costs.io_s * 1e6,
    ))?;
    say(
        "Thousands of operations a second, and error of the model in percent.\nAdded: ns to an \
         access, us before and after an I/O.\n",
    )?;
    say(table(grid, outcome))?;
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
    let heads: Vec<String> = grid
        .latency_us
        .iter()
        .map(|us| format!("{us} us"))
        .collect();
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
