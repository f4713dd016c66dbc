//! Compares the workspace's maps with the concurrent ordered maps that Rust users have today.
//!
//! `cargo run --release -p bench-peers -- --workload ycsb-c --json FILE`. The method, and the list
//! of peers left out, are in this crate's `README.md`.
//!
//! Exit code 0: success. 1: the run failed. 2: bad input; one line says what is wrong and what is
//! possible.

mod allocator;
mod case;
mod check;
mod child;
mod contender;
mod contenders;
mod footprint;
mod index;
mod keys;
mod ours;
mod part;
mod peers;
mod plan;
mod process;
mod progress;
mod protocol;
mod result;
mod runner;
mod table;

use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::error::ErrorKind;
use timberline_bench::report::{Meta, check_writable};
use timberline_bench::run::count;
use timberline_tier::topology::Topology;

use crate::case::Spread;
use crate::contenders::Side;
use crate::keys::Lines;
use crate::plan::{Pages, Plan, WORKLOADS};
use crate::progress::Progress;
use crate::protocol::KeyKind;
use crate::result::Report;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Compare the workspace's maps with other concurrent ordered maps, side by side.
#[derive(Parser)]
#[command(name = "bench-peers", version, max_term_width = 100)]
struct Args {
    /// Workloads: load, ycsb-a … ycsb-f, or all
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all",
        value_parser = PossibleValuesParser::new(iter::once("all").chain(WORKLOADS)),
        value_name = "NAMES"
    )]
    workload: Vec<String>,
    /// Distributions of the requests: uniform, zipf (0.99)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "uniform,zipf",
        value_name = "NAMES"
    )]
    dist: Vec<Spread>,
    /// Kinds of keys: random, dense (64-bit words), urls, words (byte strings)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "random,dense",
        value_name = "NAMES"
    )]
    keys: Vec<KeyKind>,
    /// Numbers of request threads, measured one after the other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2",
        value_parser = up_to(1024),
        value_name = "NUMBERS"
    )]
    threads: Vec<usize>,
    /// Records to load, such as 200k or 10M
    #[arg(long, default_value = "2M", value_parser = count, value_name = "N")]
    records: u64,
    /// Contenders: all, ours, peers, or names
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all",
        value_parser = PossibleValuesParser::new(plan::names()),
        value_name = "NAMES"
    )]
    index: Vec<String>,
    /// Peers per batch; our maps run in each batch [default: all in one batch]
    #[arg(long, value_parser = up_to(u64::MAX), value_name = "N")]
    batch: Option<usize>,
    /// Rounds, in each of which all contenders take turns
    #[arg(long, default_value_t = 5, value_parser = up_to(10_000), value_name = "N")]
    rounds: usize,
    /// Measured seconds of a contender in each round
    #[arg(long, default_value_t = 0.5, value_parser = seconds, value_name = "SECONDS")]
    slice: f64,
    /// 2 MiB pages: as-is (our arenas ask for them, malloc does not), huge (malloc also asks),
    /// small (no allocator asks)
    #[arg(long, default_value = "as-is", value_name = "PAGES")]
    pages: Pages,
    /// File of URLs, one a line
    #[arg(long, default_value = "../shared/data/urls.txt", value_name = "FILE")]
    urls: PathBuf,
    /// File of words, one a line
    #[arg(long, default_value = "../shared/data/words.txt", value_name = "FILE")]
    words: PathBuf,
    /// Seed of all requests
    #[arg(long, default_value_t = 42, value_name = "N")]
    seed: u64,
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Parses seconds from 0.01 to 3600.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().unwrap_or(f64::NAN);
    match (0.01..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("give seconds from 0.01 to 3600".into()),
    }
}

/// Parses a number from 1 to `most`.
fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

impl Args {
    fn plan(&self) -> Result<Plan, String> {
        let records = self.records;
        if records < self.rounds as u64 {
            return Err(format!(
                "--records {records}: give at least one for each of the {} rounds",
                self.rounds
            ));
        }
        let (load, cases) = plan::cases(&self.workload, &self.dist);
        let plan = Plan {
            rows: plan::rows(&self.index)?,
            batch: self.batch.unwrap_or(usize::MAX),
            keys: plan::in_order(&self.keys),
            threads: self.threads.clone(),
            load,
            cases,
            records,
            rounds: self.rounds,
            slice: Duration::from_secs_f64(self.slice),
            seed: self.seed,
            urls: self.urls.clone(),
            words: self.words.clone(),
            pages: self.pages,
        };
        for &keys in &plan.keys {
            if let Some(file) = plan.file(keys) {
                let read = Lines::read(&file);
                read.map_err(|error| format!("{error}; name another with --urls or --words"))?;
            }
        }
        plan.check_memory(available_bytes())?;
        if let Some(path) = &self.json {
            check_writable(path)?;
        }
        Ok(plan)
    }
}

/// Free memory, bytes; unlimited where the kernel does not report it.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(process::CHILD) {
        let order = args.next().unwrap_or_default();
        return end(child::serve(&order), 1);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    match args.plan() {
        Ok(plan) => end(run(&args, &plan), 1),
        Err(line) => end(Err(line), 2),
    }
}

fn end(done: Result<(), String>, code: u8) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("error: {line}");
            ExitCode::from(code)
        }
    }
}

/// The full help, or for an error one line that says what is wrong.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        print!("{error}");
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = paragraph.split_whitespace().collect();
    eprintln!("{} (see --help)", words.join(" "));
    ExitCode::from(2)
}

fn run(args: &Args, plan: &Plan) -> Result<(), String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || flag.store(true, Relaxed)).map_err(|error| error.to_string())?;
    let mut progress = Progress::new(runner::expected_seconds(plan), args.quiet);
    let came = runner::run(plan, &mut progress, &interrupted);
    let mut notes = came.excluded;
    notes.push(pages_note(plan.pages));
    if interrupted.load(Relaxed) {
        notes.push("Interrupted: figures cover the measurements until then.".into());
    }
    let versions = plan.rows.iter().filter(|row| row.side == Side::Peer);
    let versions = versions.map(|row| (row.name.to_string(), row.version.to_string()));
    let mut meta = Meta {
        profile: "native".into(),
        seed: plan.seed,
        notes,
        ..Meta::here(env!("CARGO_PKG_VERSION"))
    };
    meta.versions.extend(versions);
    let report = Report {
        meta,
        results: came.results,
    };
    print!("{}", table::render(&report.results));
    for note in &report.meta.notes {
        println!("note: {note}");
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n")
            .map_err(|error| format!("can't write to {}: {error}", path.display()))?;
    }
    Ok(())
}

fn pages_note(pages: Pages) -> String {
    let mode = Topology::discover(Path::new("/"))
        .ok()
        .and_then(|topology| topology.kernel().transparent_huge_pages.clone());
    let who = match pages {
        Pages::AsIs => "our arenas ask for 2 MiB pages, malloc does not",
        Pages::Huge => "our arenas and malloc ask for 2 MiB pages",
        Pages::Small => "no allocator asks for 2 MiB pages",
    };
    match mode {
        Some(mode) => format!("Pages: {who}; the kernel gives them in mode `{mode}`."),
        None => format!("Pages: {who}; the kernel does not report its mode."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(args: &[&str]) -> String {
        let args = [&["bench-peers"], args].concat();
        Args::try_parse_from(args).unwrap().plan().err().unwrap()
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for (option, value, said) in [
            ("--threads", "0", "1..=1024"),
            ("--rounds", "0", "1..=10000"),
            ("--slice", "0", "0.01 to 3600"),
            ("--batch", "0", "1.."),
            ("--pages", "big", "as-is, huge, small"),
            ("--keys", "ints", "random, dense, urls, words"),
            ("--dist", "normal", "uniform, zipf"),
            ("--index", "sled", "all, ours, peers, empty, btree"),
            ("--workload", "hs-c", "load, ycsb-c"),
        ] {
            let parsed = Args::try_parse_from(["bench-peers", option, value]);
            let line = parsed.err().unwrap().to_string();
            assert!(line.contains(said) && line.contains(value), "{line}");
        }
    }

    #[test]
    fn what_is_not_possible_is_said_in_one_line() {
        let line = refused(&["--records", "3"]);
        assert_eq!(
            line,
            "--records 3: give at least one for each of the 5 rounds"
        );
        let line = refused(&["--json", "/nonexistent/x.json"]);
        assert!(
            line.starts_with("can't write to /nonexistent/x.json: "),
            "{line}"
        );
        let line = refused(&["--keys", "urls", "--urls", "/nonexistent/urls.txt"]);
        assert!(
            line.starts_with("can't read the keys in /nonexistent/urls.txt: ")
                && line.ends_with("--urls or --words"),
            "{line}"
        );
    }
}
