//! What maps are loaded with and asked for: workloads or a trace, and what their records look like.

use std::path::PathBuf;

use timberline_bench::run::{RequestSetting, count};

/// Arguments that say what is asked.
#[derive(clap::Args)]
pub struct Loads {
    /// Records to load
    #[arg(long, default_value = "2M", value_parser = count, value_name = "N")]
    pub records: u64,
    /// Workloads to run, one after the other: hs-a…d, ycsb-a…f, tpcc (its accesses, as many warehouses as fit into --records; tpcc:W has W)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "hs-c,ycsb-c",
        value_name = "NAMES"
    )]
    workloads: Vec<String>,
    /// Other request distribution for all workloads, e.g. `zipfian:0.8`, `selfsimilar:0.2`, `uniform`, `hotspot:0.05:0.9`
    #[arg(long, value_name = "SPEC")]
    distribution: Option<String>,
    /// Take the lines of this file for keys, with numbers behind them once all are taken [default: numbers of 64 bits]
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    keys: Option<PathBuf>,
    /// Bytes of a key, 8 to 128; above 8 for art and masstree: the number over and over
    #[arg(
        long,
        default_value_t = 8,
        value_name = "BYTES",
        conflicts_with = "keys"
    )]
    pub key_bytes: usize,
    /// Bytes of a value, 8 to 2048; above 8 they lie in blocks beside the leaves
    #[arg(long, default_value_t = 8, value_name = "BYTES")]
    pub value_bytes: usize,
    /// Replay this trace instead of a workload, at the times it tells, if it does: latencies then count from when a request was due
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How the trace is written [default: by its name], e.g. `alibaba`, `csv:key=lbn,op=op,read=28,write=2a,time=time,unit=us`, `u32`,
    /// `lines`
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<String>,
    /// Replay the trace so many times as fast as it was [default: 1]
    #[arg(
        long,
        value_name = "X",
        requires = "trace",
        conflicts_with = "closed_loop"
    )]
    speed: Option<f64>,
    /// Replay the trace as fast as the map answers, whatever times it tells
    #[arg(long, requires = "trace")]
    closed_loop: bool,
}

impl Loads {
    /// Where requests come from.
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
