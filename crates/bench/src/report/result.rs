//! The figures of a run, under the names that checks read from `timberline bench --json FILE`.
//!
//! Invariants: a field has the same name here and in the file, and names do not change; each figure
//! has the unit of its name (`_ns`, `_bytes`, `_s`) or is a ratio where 1 is the whole; an
//! unavailable figure is `null`, never a zero that looks measured. The slowest and fastest rounds
//! accompany a median.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use timberline_tier::emulator::LineCounts;
use timberline_tier::tiering::KernelMoves;

use super::machine::{Machine, now};
use super::paired::Ratio;
use crate::run::Setting;

/// The version of [the JSON's schema](https://json-schema.org), `docs/bench.schema.json`. It grows
/// when a field changes its meaning or is removed, not when one is added.
pub const SCHEMA_VERSION: u32 = 3;

/// Where, when and how a run was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// [`SCHEMA_VERSION`]; 0 in files older than the field.
    pub schema_version: u32,
    /// When it started, in UTC, as `YYYY-MM-DD HH:MM:SS`.
    pub date: String,
    /// The command line, as typed.
    pub command: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// Name of the emulator's profile; `native` for real memory.
    pub profile: String,
    /// Measured latency of the fast tier, ns per dependent load.
    pub base_latency_ns: f64,
    /// Whether the slow tier's slowness was emulated.
    pub emulated: bool,
    /// The seed that repeats the requests.
    pub seed: u64,
    /// Versions of the programs and crates involved, by name.
    pub versions: BTreeMap<String, String>,
    /// Caveats for the reader, one sentence each.
    pub notes: Vec<String>,
    /// The replay speed of a trace, 1 as recorded; `null` for a closed loop, in which each request
    /// waits for the response to the previous one.
    pub speed: Option<f64>,
    /// The bounds of placements of each grain, for each map and workload.
    pub bounds: Vec<Bounds>,
    /// How the emulator was calibrated, for each map and workload; empty for real memory.
    pub calibrations: Vec<Calibration>,
    /// All settings of the command; `null` if the file combines several runs.
    pub setting: Option<Setting>,
}

impl Meta {
    /// Current time, this machine, this command and version; the command fills in the rest.
    pub fn here(version: &str) -> Meta {
        Meta {
            schema_version: SCHEMA_VERSION,
            date: now(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: Machine::here(),
            versions: [("timberline".into(), version.into())].into(),
            ..Meta::default()
        }
    }
}

/// The bounds of placements of each grain on one workload: the largest fraction of accesses served
/// from fast memory, given exact frequencies and the best use of the budget ([`crate::bound`]).
/// `null` if frequencies are unknown.
///
/// For a trace, the frequencies are those of the whole trace; an adaptive placement could beat the
/// bound. For workloads they are those of one moment, so the bounds also hold for adaptive
/// placements. For `latest` it is the first moment, and [no later one has higher
/// bounds](crate::workload::Workload::frequencies).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// The map.
    pub index: String,
    /// The workload.
    pub workload: String,
    /// For 4 KiB pages, as the map lies in memory after loading.
    pub bound_page_fast_share: Option<f64>,
    /// For leaves.
    pub bound_leaf_fast_share: Option<f64>,
    /// For single records, each with its part of its leaf's bytes.
    pub bound_record_fast_share: Option<f64>,
}

/// The emulator's calibration for one map and workload: tier 0's costs at the map's footprint, and
/// the ratio of latencies that is achieved with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// The map.
    pub index: String,
    /// The workload.
    pub workload: String,
    /// Bytes of each tier in which it was measured: those of the map, from 1 MiB to 1 GiB.
    pub footprint_bytes: u64,
    /// A dependent load in tier 0, ns.
    pub base_latency_ns: f64,
    /// Each further line of a visit to tier 0, ns.
    pub base_line_ns: f64,
    /// A line of tier 0 where all cores read at once, all of them together, ns: the inverse of the
    /// machine's bandwidth.
    pub shared_line_ns: f64,
    /// A dependent load in tier 1 over one in tier 0, as measured.
    pub ratio: f64,
    /// The same, as the profile has it.
    pub ratio_of_profile: f64,
}

/// One placement on one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The map, e.g. `btree`.
    pub index: String,
    /// The placement, e.g. `timberline`.
    pub placement: String,
    /// The workload, e.g. `hs-c`.
    pub workload: String,
    /// Records in the map when measuring began.
    pub records: u64,
    /// Request threads.
    pub threads: usize,
    /// Measured time, all rounds together, s.
    pub seconds: f64,
    /// Fast-memory budget over the map's bytes.
    pub fast_budget_ratio: f64,

    /// Requests a second: the median round.
    pub ops_per_s: f64,
    /// Requests a second: the slowest round.
    pub ops_per_s_min: f64,
    /// Requests a second: the fastest round.
    pub ops_per_s_max: f64,
    /// Requests a second of each round. Round `i` of one placement ran next to round `i` of the
    /// others.
    pub rounds: Vec<f64>,
    /// The number of `rounds` of each process, in their order; empty if one process ran all.
    pub process_rounds: Vec<usize>,

    /// Median latency of a request, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// Requests of a trace that were due within a round but not executed by its end. Latencies
    /// count them as if they completed then.
    pub unanswered: u64,

    /// Lines fetched from the fast tier, per request.
    pub lines_fast_per_op: f64,
    /// Lines fetched from slow tiers, per request.
    pub lines_slow_per_op: f64,
    /// Lines found in the modelled CPU cache, per request.
    pub lines_cached_per_op: f64,
    /// The emulator's charge for the slow lines of a request, ns, by definition, whatever time it
    /// took.
    pub charged_ns_per_op: f64,
    /// How long a request waited for lines that it had prefetched, ns. Unlike the charge, it
    /// depends on the machine's speed.
    pub waited_ns_per_op: f64,
    /// Fast lines over all lines fetched; `null` where none were counted.
    pub fast_share: Option<f64>,

    /// The bound of `fast_share` for placements of this grain, from the given frequencies; `null`
    /// without them, and if the hot set moves with the requests: the frequencies are averages, and
    /// an adaptive placement could beat their bound.
    pub fast_share_bound: Option<f64>,

    /// Nodes (or pages, if pages are placed) moved to a faster tier.
    pub promoted: u64,
    /// The same, to a slower tier.
    pub demoted: u64,
    /// CPU time of the background workers over the CPU time of the whole run.
    pub worker_cpu_ratio: f64,
    /// Cores that the background workers kept busy: their CPU time over the measured time.
    pub worker_cores: f64,
    /// Requests per second of the request threads' CPU time: throughput if workers had cores of
    /// their own.
    pub ops_per_cpu_s: f64,

    /// Bytes in the fast tier at the end.
    pub fast_bytes: u64,
    /// Bytes in slow tiers at the end.
    pub slow_bytes: u64,
    /// Peak bytes in the fast tier.
    pub fast_bytes_peak: u64,
    /// The budget of the fast tier; 0 if it has none.
    pub fast_budget_bytes: u64,
    /// Excess of the peak over the budget; not 0 means a bug.
    pub over_budget_bytes: u64,
    /// Pages that the kernel put on a NUMA node other than their tier's; `null` if no tier is
    /// bound.
    pub misplaced_pages: Option<u64>,
    /// Bytes of both tiers over the records in the map.
    pub bytes_per_record: f64,

    /// Whether the slow tier's slowness was emulated.
    pub emulated: bool,

    /// `all-fast`'s throughput minus `interleave`'s, over `interleave`'s: the cost of slow memory,
    /// by which `regained` divides. The median of the rounds.
    pub gap: Option<f64>,
    /// The noise of `gap`: twice its standard error, from the median deviation of the rounds.
    pub gap_noise: Option<f64>,
    /// Fraction of the cost of slow memory that was regained: 0 is `interleave`, 1 is `all-fast`.
    /// The median of the rounds. `null` where `gap` is within its noise, or below 0.05.
    pub regained: Option<f64>,
    /// The smallest `regained` of a round.
    pub regained_min: Option<f64>,
    /// The largest `regained` of a round.
    pub regained_max: Option<f64>,
    /// The lower end of the 95 % interval of `regained`; `null` for fewer than six rounds.
    pub regained_low: Option<f64>,
    /// The upper end of the 95 % interval of `regained`.
    pub regained_high: Option<f64>,
    /// `regained` by what the emulator charged a request: free of noise, and of what workers and
    /// bookkeeping cost. `null` if nothing was charged.
    pub regained_by_charge: Option<f64>,
    /// `regained` by requests per second of the request threads' CPU time.
    pub regained_by_cpu: Option<f64>,
    /// `regained` by the median latency.
    pub regained_by_p50: Option<f64>,
    /// `regained` over the oracle's `regained`.
    pub regained_to_oracle: Option<f64>,
    /// `fast_share` over the oracle's `fast_share`.
    pub fast_share_to_oracle: Option<f64>,
    /// Throughput over `interleave`'s: the median of the rounds.
    pub ratio_to_interleave: Option<f64>,
    /// The lower end of its 95 % interval; `null` for fewer than six rounds.
    pub ratio_to_interleave_low: Option<f64>,
    /// The upper end of its 95 % interval.
    pub ratio_to_interleave_high: Option<f64>,
    /// Throughput over `all-fast`'s: the median of the rounds.
    pub ratio_to_all_fast: Option<f64>,
    /// The lower end of its 95 % interval; `null` for fewer than six rounds.
    pub ratio_to_all_fast_low: Option<f64>,
    /// The upper end of its 95 % interval.
    pub ratio_to_all_fast_high: Option<f64>,
    /// Throughput over `oracle`'s: the median of the rounds.
    pub ratio_to_oracle: Option<f64>,
    /// The lower end of its 95 % interval; `null` for fewer than six rounds.
    pub ratio_to_oracle_low: Option<f64>,
    /// The upper end of its 95 % interval.
    pub ratio_to_oracle_high: Option<f64>,

    /// Time from a shift of the hot region until `regained` is back to 90 % of its level, s: the
    /// median over the shifts; `null` where none was measured.
    pub recovery_s: Option<f64>,
    /// The longest such time, s.
    pub recovery_s_max: Option<f64>,
    /// The same for the fast share, which does not depend on the machine's speed: the median over
    /// the shifts, s.
    pub fast_share_recovery_s: Option<f64>,
    /// The longest such time, s.
    pub fast_share_recovery_s_max: Option<f64>,

    /// The run over time, rounds joined end to end.
    pub series: Vec<Sample>,
    /// The levels of the tree by tier at the end, root first.
    pub levels: Vec<LevelFill>,
    /// Bytes in the fast tier for copies of records, which are in no level.
    pub copies_bytes: u64,
    /// All tiers at the end, the fast one first, where there are more than two; otherwise empty.
    pub tiers: Vec<TierFill>,
}

/// How full a tier is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierFill {
    /// Bytes in the tier.
    pub bytes: u64,
    /// The most that it may have; `null` for a tier that the placement does not use.
    pub limit_bytes: Option<u64>,
}

/// One moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Measured time of this placement so far, s.
    pub at_s: f64,
    /// Requests a second since the previous sample.
    pub ops_per_s: f64,
    /// Fast share since the previous sample; `null` if no lines were counted.
    pub fast_share: Option<f64>,
    /// Bytes in the fast tier now.
    pub fast_bytes: u64,
    /// Nodes or pages promoted since the first turn; an oracle arranges its map before it.
    pub promoted: u64,
    /// Nodes or pages demoted since the first turn.
    pub demoted: u64,
    /// The kernel's page moves on the whole machine since it took over the map; `null` if it does
    /// not place the map's pages.
    pub kernel: Option<KernelMoves>,
}

/// The nodes of one level by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelFill {
    /// The level; the root is 0.
    pub level: u8,
    /// Nodes in the fast tier.
    pub nodes_fast: u64,
    /// Nodes in slow tiers.
    pub nodes_slow: u64,
    /// Their bytes in the fast tier.
    pub bytes_fast: u64,
    /// Their bytes in slow tiers.
    pub bytes_slow: u64,
}

impl Outcome {
    /// Sets each round's requests a second, and the median, slowest and fastest of them. Without
    /// rounds all figures are zero.
    pub fn set_rounds(&mut self, rounds: Vec<f64>) {
        self.ops_per_s = median(&rounds).unwrap_or(0.0);
        self.ops_per_s_min = rounds.iter().copied().reduce(f64::min).unwrap_or(0.0);
        self.ops_per_s_max = rounds.iter().copied().reduce(f64::max).unwrap_or(0.0);
        self.rounds = rounds;
    }

    /// The rounds of each process.
    pub fn processes(&self) -> Vec<&[f64]> {
        let mut left = &self.rounds[..];
        let mut take = |count: usize| {
            let (rounds, others) = left.split_at(count.min(left.len()));
            left = others;
            rounds
        };
        match self.process_rounds.is_empty() {
            true => vec![&self.rounds],
            false => self.process_rounds.iter().map(|&it| take(it)).collect(),
        }
    }

    /// The ratio to `interleave`'s throughput, if it has an interval.
    pub fn to_interleave(&self) -> Option<Ratio> {
        Ratio::between(
            self.ratio_to_interleave,
            self.ratio_to_interleave_low,
            self.ratio_to_interleave_high,
        )
    }

    /// The ratio to `all-fast`'s throughput, if it has an interval.
    pub fn to_all_fast(&self) -> Option<Ratio> {
        Ratio::between(
            self.ratio_to_all_fast,
            self.ratio_to_all_fast_low,
            self.ratio_to_all_fast_high,
        )
    }

    /// The ratio to `oracle`'s throughput, if it has an interval.
    pub fn to_oracle(&self) -> Option<Ratio> {
        Ratio::between(
            self.ratio_to_oracle,
            self.ratio_to_oracle_low,
            self.ratio_to_oracle_high,
        )
    }

    /// Sets the percentiles of request latencies, ns.
    pub fn set_percentiles(&mut self, nanos: [u64; 4]) {
        [self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns] = nanos;
    }

    /// Sets the lines and charges per request from the counts of `ops` requests, and the fast
    /// share. Figures per request are 0 if `ops` is 0.
    pub fn set_lines(&mut self, lines: &LineCounts, ops: u64) {
        let per_op = |count: u64| count as f64 / ops.max(1) as f64;
        self.lines_fast_per_op = per_op(lines.fast);
        self.lines_slow_per_op = per_op(lines.slow);
        self.lines_cached_per_op = per_op(lines.cached);
        self.charged_ns_per_op = per_op(lines.charged_ps) / 1000.0;
        self.waited_ns_per_op = per_op(lines.waited_ps) / 1000.0;
        self.fast_share = fast_share(lines.fast, lines.slow);
    }
}

/// An empty histogram of latencies up to 10 s, ns.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds")
}

/// The 50th, 90th, 99th and 99.9th percentile.
pub fn percentiles(latencies: &Histogram<u64>) -> [u64; 4] {
    [0.5, 0.9, 0.99, 0.999].map(|quantile| latencies.value_at_quantile(quantile))
}

/// Fast lines over all lines fetched, or `None` where nothing was fetched.
pub fn fast_share(fast: u64, slow: u64) -> Option<f64> {
    let all = fast + slow;
    (all > 0).then(|| fast as f64 / all as f64)
}

/// The middle value, or the mean of the two middle ones; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[sorted.len() / 2 - 1] + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_give_median_and_range() {
        let mut outcome = Outcome::default();
        outcome.set_rounds(vec![3.0, 1.0, 2.0, 10.0]);
        assert_eq!(
            (
                outcome.ops_per_s,
                outcome.ops_per_s_min,
                outcome.ops_per_s_max
            ),
            (2.5, 1.0, 10.0)
        );
        outcome.set_rounds(Vec::new());
        assert_eq!((outcome.ops_per_s, outcome.ops_per_s_max), (0.0, 0.0));
        assert_eq!(median(&[5.0]), Some(5.0));
    }

    #[test]
    fn lines_give_the_fast_share() {
        let mut outcome = Outcome::default();
        let lines = LineCounts {
            fast: 30,
            slow: 10,
            cached: 80,
            charged_ps: 1_140_000,
            waited_ps: 500,
            unvisited: 3,
        };
        outcome.set_lines(&lines, 10);
        assert_eq!(outcome.lines_fast_per_op, 3.0);
        assert_eq!(outcome.lines_cached_per_op, 8.0);
        assert_eq!(outcome.charged_ns_per_op, 114.0);
        assert_eq!(outcome.waited_ns_per_op, 0.05);
        assert_eq!(outcome.fast_share, Some(0.75));
        outcome.set_lines(&LineCounts::default(), 0);
        assert_eq!((outcome.fast_share, outcome.lines_slow_per_op), (None, 0.0));
    }

    #[test]
    fn latencies_give_percentiles_in_order() {
        let mut nanos = Histogram::<u64>::new(3).unwrap();
        for value in 1..=1000 {
            nanos.record(value).unwrap();
        }
        let mut outcome = Outcome::default();
        outcome.set_percentiles(percentiles(&nanos));
        assert_eq!(
            (
                outcome.p50_ns,
                outcome.p90_ns,
                outcome.p99_ns,
                outcome.p999_ns
            ),
            (500, 900, 990, 999)
        );
    }
}
