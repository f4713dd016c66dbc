//! Side by side: the workspace's maps and the concurrent ordered maps that Rust users take today.
//!
//! `cargo run --release -p bench-peers -- --workload ycsb-c --json FILE`. How it measures, and which peers are
//! left out, is in this crate's `README.md`.
//!
//! Exit code 0: done. 1: it went wrong. 2: something asked for is not possible; one line says what, and what is.

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

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use clap::error::ErrorKind;
use timberline_bench::report::{Machine, Meta, utc_date};
use timberline_tier::topology::Topology;

use crate::contenders::Side;
use crate::keys::Lines;
use crate::plan::{Pages, Plan};
use crate::progress::Progress;
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
    dist: Vec<String>,
    /// Keys: random, dense (words of 64 bits), urls, words (byte strings)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "random,dense",
        value_name = "NAMES"
    )]
    keys: Vec<String>,
    /// Numbers of request threads, one after the other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2",
        value_name = "NUMBERS"
    )]
    threads: Vec<usize>,
    /// Records to load, such as 200k or 10M
    #[arg(long, default_value = "2M", value_name = "N")]
    records: String,
    /// Contenders: all, ours, peers, or their names
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all",
        value_name = "NAMES"
    )]
    index: Vec<String>,
    /// Peers side by side at a time, ours beside each batch of them [default: all]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Rounds, in each of which all contenders take turns
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Measured seconds of a contender in each round
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    slice: f64,
    /// Who asks for 2 MiB pages: as-is (our arenas do, malloc does not), huge (malloc too), small (nobody)
    #[arg(long, default_value = "as-is", value_name = "PAGES")]
    pages: String,
    /// The file of URLs
    #[arg(long, default_value = "../shared/data/urls.txt", value_name = "FILE")]
    urls: PathBuf,
    /// The file of words
    #[arg(long, default_value = "../shared/data/words.txt", value_name = "FILE")]
    words: PathBuf,
    /// Seed of all requests
    #[arg(long, default_value_t = 42, value_name = "N")]
    seed: u64,
    /// Write the figures here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

/// Reads `10M`, `200k`, `1000`.
fn count(text: &str) -> Result<u64, String> {
    let bad = || format!("--records `{text}`: give a number from 1 on, such as 10M, 200k or 5000");
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|&n| n > 0).ok_or_else(bad)
}

impl Args {
    fn plan(&self) -> Result<Plan, String> {
        if let Some(threads) = self.threads.iter().find(|n| !(1..=1024).contains(*n)) {
            return Err(format!("--threads {threads}: give 1 to 1024"));
        }
        if !(1..=10_000).contains(&self.rounds) {
            return Err(format!("--rounds {}: give 1 to 10000", self.rounds));
        }
        if !(0.01..=3600.0).contains(&self.slice) {
            return Err(format!(
                "--slice {}: give seconds from 0.01 to 3600",
                self.slice
            ));
        }
        if self.batch == Some(0) {
            return Err("--batch 0: give 1 or more".into());
        }
        let records = count(&self.records)?;
        if records < self.rounds as u64 {
            return Err(format!(
                "--records {records}: give at least one for each of the {} rounds",
                self.rounds
            ));
        }
        let (load, cases) = plan::cases(&self.workload, &self.dist)?;
        let plan = Plan {
            rows: plan::rows(&self.index)?,
            batch: self.batch.unwrap_or(usize::MAX),
            keys: plan::keys(&self.keys)?,
            threads: self.threads.clone(),
            load,
            cases,
            records,
            rounds: self.rounds,
            slice: Duration::from_secs_f64(self.slice),
            seed: self.seed,
            urls: self.urls.clone(),
            words: self.words.clone(),
            pages: Pages::parse(&self.pages)?,
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

/// Free memory, bytes; no limit where the kernel does not tell.
fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

/// Finds out before a run, not after it, that its figures have nowhere to go.
fn check_writable(path: &Path) -> Result<(), String> {
    let is_new = !path.exists();
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    opened.map_err(|error| format!("can't write to {}: {error}", path.display()))?;
    if is_new {
        // What is left over is an empty file.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
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

/// The help in full; of an error, what is wrong in one line.
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
    let date = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut progress = Progress::new(runner::expected_seconds(plan), args.quiet);
    let came = runner::run(plan, &mut progress, &interrupted);
    let mut notes = came.excluded;
    notes.push(pages_note(plan.pages));
    if interrupted.load(Relaxed) {
        notes.push("Interrupted: figures are of what was measured until then.".into());
    }
    let versions = plan.rows.iter().filter(|row| row.side == Side::Peer);
    let versions = versions.map(|row| (row.name.to_string(), row.version.to_string()));
    let own = (
        "timberline".to_string(),
        env!("CARGO_PKG_VERSION").to_string(),
    );
    let report = Report {
        meta: Meta {
            date: utc_date(date),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::here(),
            profile: "native".into(),
            seed: plan.seed,
            versions: versions.chain([own]).collect(),
            notes,
            ..Meta::default()
        },
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
        Pages::Huge => "our arenas ask for 2 MiB pages, and malloc does for everybody",
        Pages::Small => "nobody asks for 2 MiB pages",
    };
    match mode {
        Some(mode) => format!("Pages: {who}; the kernel gives them in mode `{mode}`."),
        None => format!("Pages: {who}; the kernel does not say whether it gives them."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(count("10M"), Ok(10_000_000));
        assert_eq!(count("200k"), Ok(200_000));
        assert_eq!(count("7"), Ok(7));
        for bad in ["", "0", "-1", "2X", "M", "99999999999999999999"] {
            assert!(count(bad).unwrap_err().contains("10M"), "{bad}");
        }
    }

    fn refused(args: &[&str]) -> String {
        let args = [&["bench-peers"], args].concat();
        Args::try_parse_from(args).unwrap().plan().err().unwrap()
    }

    #[test]
    fn what_is_not_possible_is_said_in_one_line() {
        for (args, said) in [
            (["--threads", "0"], "--threads 0: give 1 to 1024"),
            (["--rounds", "0"], "--rounds 0: give 1 to 10000"),
            (
                ["--slice", "0"],
                "--slice 0: give seconds from 0.01 to 3600",
            ),
            (["--batch", "0"], "--batch 0: give 1 or more"),
            (
                ["--records", "3"],
                "--records 3: give at least one for each of the 5 rounds",
            ),
            (
                ["--pages", "big"],
                "unknown --pages `big`; possible: as-is, huge, small",
            ),
            (
                ["--json", "/nonexistent/x.json"],
                "can't write to /nonexistent/x.json: ",
            ),
        ] {
            let line = refused(&args);
            assert!(line.starts_with(said) && !line.contains('\n'), "{line}");
        }
        let line = refused(&["--keys", "urls", "--urls", "/nonexistent/urls.txt"]);
        assert!(
            line.starts_with("can't read the keys in /nonexistent/urls.txt: ")
                && line.ends_with("--urls or --words"),
            "{line}"
        );
    }
}
