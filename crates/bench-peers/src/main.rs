//! Compares the workspace's maps with the concurrent ordered maps that people use today.
//!
//! `cargo run --release -p bench-peers -- --rows random,urls/scans --json FILE`. The method, and
//! the list of peers left out, are in this crate's `README.md`.
//!
//! Exit code 0: success. 1: the run failed. 2: bad input; one line says what is wrong and what is
//! possible.

mod check;
mod child;
mod index;
mod keys;
mod memory;
mod peers;
mod result;
mod rows;
mod runner;
mod subjects;
mod table;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::error::ErrorKind;
use timberline_bench::report::{Meta, check_writable, write_file};
use timberline_bench::run::count;
use timberline_tier::topology::Topology;

use crate::keys::Strings;
use crate::memory::{Pages, available_bytes};
use crate::result::Report;
use crate::runner::Plan;
use crate::subjects::Side;

/// Compare the workspace's maps with other concurrent ordered maps, side by side.
#[derive(Parser)]
#[command(name = "bench-peers", version, max_term_width = 100)]
struct Args {
    /// Rows: KEYS or KEYS/WORKLOAD. KEYS: random, dense, uuid4, uuid7, urls, words; u64, strings,
    /// all. WORKLOAD: load, uniform, zipf, updates, scans, latest, load-many; or one of
    /// `timberline bench`, with `:uniform` behind it for uniform requests
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all",
        value_name = "ROWS"
    )]
    rows: Vec<String>,
    /// Subjects: all, ours, tiers, peers, or names
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "all",
        value_parser = PossibleValuesParser::new(subjects::names()),
        value_name = "NAMES"
    )]
    index: Vec<String>,
    /// Sizes of pages, of everybody's memory: 4k, 2m
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "4k,2m",
        value_name = "SIZES"
    )]
    pages: Vec<Pages>,
    /// Request threads
    #[arg(long, default_value = "2", value_parser = up_to(1024), value_name = "NUMBER")]
    threads: u64,
    /// Records to load, such as 200k or 10M
    #[arg(long, default_value = "2M", value_parser = count, value_name = "N")]
    records: u64,
    /// Rounds, in each of which all subjects load anew and take turns
    #[arg(long, default_value_t = 5, value_parser = up_to(10_000), value_name = "N")]
    rounds: u64,
    /// Measured seconds of a workload in each round
    #[arg(long, default_value_t = 0.5, value_parser = seconds, value_name = "SECONDS")]
    slice: f64,
    /// Seconds instead of minutes: 200k records, 2 rounds of 0.02 s; shows that all works
    #[arg(long, conflicts_with_all = ["records", "rounds", "slice"])]
    quick: bool,
    /// File of URLs, one a line [default: made-up URLs]
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// File of words, one a line [default: made-up words]
    #[arg(long, value_name = "FILE")]
    words: Option<PathBuf>,
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
fn up_to(most: u64) -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..=most)
}

impl Args {
    fn plan(&self) -> Result<Plan, String> {
        let (records, rounds, slice) = match self.quick {
            true => (200_000, 2, 0.02),
            false => (self.records, self.rounds, self.slice),
        };
        let mut pages = self.pages.clone();
        pages.sort();
        pages.dedup();
        let plan = Plan {
            subjects: subjects::chosen(&self.index)?,
            rows: rows::rows(&self.rows)?,
            pages,
            threads: self.threads,
            records,
            rounds: rounds as usize,
            slice: Duration::from_secs_f64(slice),
            seed: self.seed,
            urls: self.urls.clone(),
            words: self.words.clone(),
            quiet: self.quiet,
        };
        for &keys in plan.rows.keys() {
            if let Some(file) = plan.file(keys) {
                Strings::of(keys, Some(file))?;
            }
        }
        plan.check_memory(available_bytes())?;
        if let Some(path) = &self.json {
            check_writable(path)?;
        }
        Ok(plan)
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(child::CHILD) {
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
    let came = runner::run(plan, &interrupted);
    let mut notes = came.excluded;
    notes.push(pages_note());
    if interrupted.load(Relaxed) {
        notes.push("Interrupted: figures cover the rounds until then.".into());
    }
    let mut meta = Meta {
        profile: "native".into(),
        seed: plan.seed,
        notes,
        ..Meta::here(env!("CARGO_PKG_VERSION"))
    };
    let peers = plan.subjects.iter().filter(|row| row.side == Side::Peer);
    let versions = peers.map(|row| (row.name.to_string(), row.version.to_string()));
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
        write_file(path, &(text + "\n")).map_err(|error| error.to_string())?;
    }
    match came.ours_failed {
        true => Err("one of our maps answered wrongly; the last note tells which".into()),
        false => Ok(()),
    }
}

fn pages_note() -> String {
    let mode = Topology::discover(Path::new("/"))
        .ok()
        .and_then(|topology| topology.kernel().transparent_huge_pages.clone());
    let mode = mode.map_or("an unknown mode".into(), |mode| format!("mode `{mode}`"));
    format!("Allocator: jemalloc. The kernel gives 2 MiB pages in {mode}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        for (option, value, said) in [
            ("--threads", "0", "1..=1024"),
            ("--rounds", "0", "1..=10000"),
            ("--slice", "0", "0.01 to 3600"),
            ("--pages", "big", "4k, 2m"),
            ("--index", "sled", "all, ours, tiers, peers, empty, btree"),
        ] {
            let parsed = Args::try_parse_from(["bench-peers", option, value]);
            let line = parsed.err().unwrap().to_string();
            assert!(line.contains(said) && line.contains(value), "{line}");
        }
    }

    #[test]
    fn what_is_not_possible_is_said_in_one_line() {
        let refused = |option: &str, value: &str| {
            let args = ["bench-peers", option, value];
            let plan = Args::try_parse_from(args).unwrap().plan();
            plan.err().unwrap()
        };
        let line = refused("--json", "/nonexistent/x.json");
        assert!(
            line.starts_with("can't write to /nonexistent/x.json: "),
            "{line}"
        );
        let line = refused("--urls", "/nonexistent/urls.txt");
        assert!(
            line.starts_with("can't read the keys in /nonexistent/urls.txt: "),
            "{line}"
        );
        let line = refused("--rows", "ints");
        assert!(line.starts_with("--rows ints: unknown keys"), "{line}");
    }
}
