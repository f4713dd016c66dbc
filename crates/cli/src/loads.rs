//! The load of a run: the requests (workloads or a trace) and the form of the records.

use std::path::PathBuf;

use timberline_bench::run::{RequestSetting, count};
use timberline_bench::workload::{Tpcc, Workload};

use crate::known::known;

/// Records to load, if no number is given.
pub const RECORDS: u64 = 2_000_000;

/// Bytes of a map's keys, if no number is given.
pub const KEY_BYTES: usize = 8;

/// Arguments that describe the load.
#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
pub struct Loads {
    /// Records to load [default: 2M; quick: 200k]
    #[arg(long, value_parser = count, value_name = "N")]
    pub records: Option<u64>,
    /// Workloads to run, one after the other: hs-a…d (hot spot: 90 % of requests go to 5 % of
    /// contiguous keys; a: half updates, b: 5 % updates, c: reads only, d: 5 % inserts), ycsb-a…f,
    /// tpcc (its index accesses, with as many warehouses as fit --records; tpcc:W for W)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hs-c,ycsb-c",
        value_parser = known(Workload::names().chain(Tpcc::NAMES)),
        hide_possible_values = true,
        value_name = "NAMES"
    )]
    workloads: Vec<String>,
    /// Request distribution for all workloads, e.g. `zipfian:0.8`, `selfsimilar:0.2`, `uniform`,
    /// `hotspot:0.05:0.9`
    #[arg(long, value_name = "SPEC")]
    distribution: Option<String>,
    /// Use the lines of this file as keys; later rounds through the file append a number [default:
    /// 64-bit numbers]
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    keys: Option<PathBuf>,
    /// Bytes of a key, 8 to 128; above 8 for art, masstree and stores only: the number repeated
    /// [default: 8; of a store: 16]
    #[arg(long, value_name = "BYTES", conflicts_with = "keys")]
    pub key_bytes: Option<usize>,
    /// Bytes of a value, 8 to 2048; above 8 they are stored outside the leaves
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    pub value_bytes: usize,
    /// Replay this trace instead of a workload. Timestamped traces are replayed on schedule:
    /// latencies count from when a request was due
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Format of the trace [default: by its name], e.g. `u32`, `lines`, `alibaba`,
    /// `csv:key=lbn,op=op,read=28,write=2a`
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<String>,
    /// Replay speed: 2 is twice as fast as recorded [default: 1]
    #[arg(
        long,
        value_name = "X",
        requires = "trace",
        conflicts_with = "closed_loop"
    )]
    speed: Option<f64>,
    /// Replay the trace as fast as the map answers, and ignore its timestamps
    #[arg(long, requires = "trace")]
    closed_loop: bool,
}

impl Loads {
    /// The source of the requests.
    pub fn requests(&self) -> RequestSetting {
        match &self.trace {
            Some(path) => RequestSetting::Trace {
                path: path.clone(),
                format: self.trace_format.clone(),
                speed: self.speed,
                closed_loop: self.closed_loop,
            },
            None => RequestSetting::Workloads {
                names: self.workloads.clone(),
                distribution: self.distribution.clone(),
                keys: self.keys.clone(),
            },
        }
    }
}
