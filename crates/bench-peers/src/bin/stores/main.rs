//! Compares the workspace's store with other embedded stores, under the load of `timberline bench
//! --store`.
//!
//! `cargo run --release -p bench-peers --bin stores -- DIR --records 2M`. Each store has a process
//! of its own, and a control group that limits its memory with the page cache in it; one runs at a
//! time. Exit code 0: success. 1: the run failed. 2: bad input.

mod cgroup;
mod engines;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod table;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use timberline_bench::run::count;
use timberline_bench::store::{Cached, Outcome, Setting, measure, measure_engine};
use timberline_store::IndexMap;

use crate::cgroup::Group;
use crate::engines::{OURS, names, opener};

/// One allocator for all.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What ours has it do, as [`Options::memory_bytes`](timberline_store::Options) advises: all
/// threads share a heap, whose free pages go back soon. Others keep its defaults: with these, one
/// of them was slower.
const OF_OURS: &str = "narenas:1,dirty_decay_ms:500";
/// Where jemalloc looks for that.
const CONFIGURATION: &str = "MALLOC_CONF";

/// Compare stores on disk, side by side.
#[derive(Parser)]
#[command(name = "stores", version, max_term_width = 100)]
struct Args {
    /// Where each store is made, one after the other; a new or empty folder, removed at the end
    folder: PathBuf,
    /// Stores
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    stores: Vec<String>,
    /// Records
    #[arg(long, default_value = "1M", value_parser = count)]
    records: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 1000)]
    value_bytes: usize,
    /// Memory for each process, in MiB
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Which map the index of ours is: art or btree
    #[arg(long, default_value_t)]
    index_map: IndexMap,
    /// The control group of a process has this many times its memory, page cache included; a store
    /// that takes more is killed, and left out
    #[arg(long, default_value_t = 2.0)]
    group: f64,
    /// Requests in flight: of ours on one thread, gets on --threads, of others a thread each
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,
    /// Threads that share the gets of ours
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Gets of Zipf 0.99 before those that are measured
    #[arg(long, value_parser = count)]
    warm: Option<u64>,
    /// Seconds of a measurement
    #[arg(long, default_value_t = 4.0)]
    slice: f64,
    /// Measurements of each kind
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Of all requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this store here, and print the outcome as JSON
    #[arg(long, hide = true)]
    child: Option<String>,
}

impl Args {
    fn setting(&self) -> Result<Setting, String> {
        let slice = Duration::try_from_secs_f64(self.slice).ok();
        let slice = slice.filter(|it| !it.is_zero());
        let setting = Setting {
            folder: self.folder.clone(),
            records: self.records,
            key_bytes: Setting::KEY_BYTES,
            value_bytes: self.value_bytes,
            capacity: None,
            evict: false,
            cached: Cached::Values,
            cache_bytes: None,
            memory_bytes: u64::from(self.memory) << 20,
            index_map: self.index_map,
            in_flight: self.in_flight.into(),
            threads: self.threads.into(),
            warm: self.warm.unwrap_or(0),
            slice: slice.ok_or("--slice: give more than 0 seconds")?,
            rounds: self.rounds.into(),
            seed: self.seed,
            files: None,
        };
        if self.records < 1000 {
            return Err("--records: give at least 1000".into());
        }
        setting.check().map(|()| setting)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let setting = match args.setting() {
        Ok(setting) => setting,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let done = match &args.child {
        Some(name) => child(name, &setting),
        None => compare(&args, &setting),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures one store in this process.
fn child(name: &str, setting: &Setting) -> Result<(), String> {
    let outcome = match name {
        OURS => measure(setting, &|| false)?,
        _ => {
            let (disk, open) = opener(name).ok_or("there is no such store")?;
            measure_engine(setting, disk, open, &|| false)?
        }
    };
    let json = serde_json::to_string(&outcome).map_err(|error| error.to_string())?;
    println!("{json}");
    Ok(())
}

/// Measures each store in a process of its own, and shows all.
fn compare(args: &Args, setting: &Setting) -> Result<(), String> {
    let chosen = match args.stores.is_empty() {
        true => names().into_iter().map(String::from).collect(),
        false => args.stores.clone(),
    };
    let mut outcomes = Vec::new();
    for name in chosen {
        eprintln!("measuring {name}");
        let bytes = setting.memory_bytes as f64 * args.group;
        let group = Group::new(&name, bytes as u64);
        if let Err(why) = &group {
            eprintln!("its page cache has no limit: {why}");
        }
        match in_a_child(&name, group.ok().as_ref()) {
            Ok(outcome) => outcomes.push((name, outcome)),
            Err(why) => eprintln!("{name} is left out: {why}"),
        }
        let _ = std::fs::remove_dir_all(&setting.folder);
    }
    print!("{}", table::shown(&outcomes));
    Ok(())
}

fn in_a_child(name: &str, group: Option<&Group>) -> Result<Outcome, String> {
    let said = |error: std::io::Error| error.to_string();
    let mut child = Command::new(std::env::current_exe().map_err(said)?);
    child
        .args(std::env::args_os().skip(1))
        .args(["--child", name]);
    child.stdout(Stdio::piped());
    if name == OURS && std::env::var_os(CONFIGURATION).is_none() {
        child.env(CONFIGURATION, OF_OURS);
    }
    let child = match group {
        Some(group) => group.spawn(child).map_err(said)?,
        None => child.spawn().map_err(said)?,
    };
    let output = child.wait_with_output().map_err(said)?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()),
        false => Err(format!("it ended with {}", output.status)),
    }
}
