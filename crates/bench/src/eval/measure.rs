//! What is measured of each of those that a run compares.

use serde::{Deserialize, Serialize};

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests a second. For a prediction, those that the model has.
    Throughput,
    /// Requests a second over those of `interleave` in the same run: comparable among runs, even if
    /// the machine's speed differs between them.
    Improvement,
    /// Median latency, µs.
    P50,
    /// 90th percentile, µs.
    P90,
    /// 99th percentile, µs.
    P99,
    /// `regained`.
    Regained,
    /// The same by what the emulator charged, which has no noise.
    RegainedByCharge,
    /// The same by throughput per second of the request threads' CPU time.
    RegainedByCpu,
    /// Lines fetched from fast memory over all fetched lines.
    FastShare,
    /// CPU time of background workers over that of the run.
    WorkerShare,
    /// Cores that background workers kept busy.
    WorkerCores,
    /// Fast memory in use over its budget, averaged over the second half of the run.
    FastUse,
    /// Time from a shift of the hot region until `regained` is back to 90 % of its level, s: the
    /// median of the shifts.
    Recovery,
    /// The same for the fast share, which does not depend on the machine's speed.
    ShareRecovery,
    /// Nodes or pages promoted and demoted.
    Moves,
    /// Requests a second of a simulated cluster's own time, in millions.
    ModelledThroughput,
    /// One-sided reads, writes, atomic operations and calls of memory servers a request.
    Operations,
    /// One-sided reads a request.
    Reads,
    /// One-sided writes a request.
    Writes,
    /// Atomic operations a request.
    Atomics,
    /// Calls of memory servers a request.
    Calls,
    /// Bytes on the network a request.
    NetworkBytes,
    /// Simulated seconds until keys had another owner, for a GiB of the cache that they were in.
    HandOver,
    /// CPU time of a request, µs.
    CoreTime,
    /// Lines of slow memory that a request read.
    SlowLines,
    /// Time that a request waited for slow memory, µs.
    Waited,
    /// The part of the gets that found a record: less than 1 in a cache.
    Found,
}

impl Measure {
    /// Its name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Throughput => "throughput",
            Measure::Improvement => "improvement over the baseline",
            Measure::P50 => "median latency, µs",
            Measure::P90 => "90th percentile, µs",
            Measure::P99 => "99th percentile, µs",
            Measure::Regained => "regained",
            Measure::RegainedByCharge => "regained by charge",
            Measure::RegainedByCpu => "regained by CPU time of requests",
            Measure::FastShare => "fast share",
            Measure::WorkerShare => "CPU time of workers over all CPU time",
            Measure::WorkerCores => "cores of workers",
            Measure::FastUse => "fast memory in use over its budget",
            Measure::Recovery => "seconds until 90 % of `regained` is back",
            Measure::ShareRecovery => "seconds until 90 % of the fast share is back",
            Measure::Moves => "moves",
            Measure::ModelledThroughput => "modelled throughput, million requests/s",
            Measure::Operations => "network operations a request",
            Measure::Reads => "reads a request",
            Measure::Writes => "writes a request",
            Measure::Atomics => "atomics a request",
            Measure::Calls => "calls a request",
            Measure::NetworkBytes => "bytes on the network a request",
            Measure::HandOver => "simulated seconds of a hand-over for a GiB of cache",
            Measure::CoreTime => "CPU time a request, µs",
            Measure::SlowLines => "slow lines a request",
            Measure::Waited => "µs waited for slow memory a request",
            Measure::Found => "part of the gets that found a record",
        }
    }
}
