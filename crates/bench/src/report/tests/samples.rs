//! Synthetic outcomes for the tests of this module: every field set, none measured.

use timberline_tier::tiering::KernelMoves;

use crate::report::compare::fill_comparisons;
use crate::report::machine::Machine;
use crate::report::result::{LevelFill, Meta, Outcome, Sample};
use crate::report::written::Report;

/// Placement, throughput (Mops/s), fast share.
const PLACEMENTS: [(&str, f64, f64); 7] = [
    ("all-fast", 6.1, 1.0),
    ("all-slow", 2.45, 0.0),
    ("interleave", 2.9, 0.2),
    ("inner-fast", 3.6, 0.52),
    ("oracle", 5.6, 0.91),
    ("sidle", 4.7, 0.8),
    ("timberline", 5.45, 0.89),
];

/// The same report as from real slow memory.
pub fn on_real_memory() -> Report {
    let mut report = report();
    report.meta.emulated = false;
    for outcome in &mut report.results {
        outcome.emulated = false;
    }
    report
}

/// The first workload on a machine whose kernel places the pages of one more placement, and lacks
/// DAMON.
pub fn left_to_kernel() -> Report {
    let mut report = on_real_memory();
    report.results.truncate(PLACEMENTS.len());
    let mut kernels = report.results[0].clone();
    kernels.placement = "kernel".into();
    for (tick, sample) in (1..).zip(&mut kernels.series) {
        sample.kernel = Some(KernelMoves {
            pgpromote_success: Some(40 * tick),
            pgdemote_kswapd: Some(10 * tick),
            pgdemote_direct: Some(0),
            numa_hint_faults: Some(90 * tick),
            numa_pages_migrated: Some(40 * tick),
            ..KernelMoves::default()
        });
    }
    report.results.push(kernels);
    report
}

/// Two workloads, seven placements, three rounds.
pub fn report() -> Report {
    run(&["hs-c", "ycsb-a"])
}

/// One workload for each name, each slightly slower than the previous one.
pub fn run(workloads: &[&str]) -> Report {
    let mut results = Vec::new();
    for (nth, workload) in workloads.iter().enumerate() {
        for (placement, mops, fast_share) in PLACEMENTS {
            results.push(outcome(
                placement,
                workload,
                mops * 1e6 / (1.0 + 0.15 * nth as f64),
                fast_share,
            ));
        }
    }
    fill_comparisons(&mut results);
    Report {
        meta: meta(),
        results,
    }
}

fn meta() -> Meta {
    Meta {
        date: "2024-02-29 12:00:00".into(),
        command: "timberline bench --profile cxl --records 2M".into(),
        machine: Machine {
            cpu: "Example CPU @ 2.0 GHz".into(),
            cores: 2,
            memory_bytes: 8 << 30,
            kernel: "Linux 6.1.0".into(),
        },
        profile: "cxl".into(),
        base_latency_ns: 92.4,
        emulated: true,
        seed: 42,
        versions: [("timberline".to_string(), "0.1.0".to_string())].into(),
        notes: vec!["Cores are shared with other tenants.".into()],
        ..Meta::default()
    }
}

fn outcome(placement: &str, workload: &str, ops: f64, fast_share: f64) -> Outcome {
    let moves = matches!(placement, "sidle" | "timberline");
    let tree: u64 = 44 << 20;
    let budget = tree / 5;
    let fast_bytes = match placement {
        "all-fast" => tree,
        "all-slow" => 0,
        _ => budget - (64 << 10),
    };
    let mut outcome = Outcome {
        index: "btree".into(),
        placement: placement.into(),
        workload: workload.into(),
        records: 2_000_000,
        threads: 2,
        seconds: 6.0,
        fast_budget_ratio: 0.2,
        p50_ns: (1.7e9 / ops) as u64,
        p90_ns: (2.4e9 / ops) as u64,
        p99_ns: (6.2e9 / ops) as u64,
        p999_ns: (31e9 / ops) as u64,
        lines_fast_per_op: 9.0 * fast_share,
        lines_slow_per_op: 9.0 * (1.0 - fast_share),
        lines_cached_per_op: 5.5,
        charged_ns_per_op: 9.0 * 110.0 * (1.0 - fast_share),
        fast_share: Some(fast_share),
        promoted: if moves { 12_400 } else { 0 },
        demoted: if moves { 11_050 } else { 0 },
        worker_cpu_ratio: if moves { 0.0042 } else { 0.0 },
        worker_cores: if moves { 0.0084 } else { 0.0 },
        ops_per_cpu_s: ops / 2.0,
        fast_bytes,
        slow_bytes: tree - fast_bytes,
        fast_bytes_peak: fast_bytes,
        fast_budget_bytes: if placement == "all-fast" { 0 } else { budget },
        bytes_per_record: tree as f64 / 2e6,
        emulated: true,
        series: series(ops, fast_share, fast_bytes, moves),
        levels: levels(placement, tree, fast_bytes),
        ..Outcome::default()
    };
    // Rounds drift together, and each placement slightly on its own.
    let own = 1.0 + 0.003 * (placement.len() % 4) as f64;
    outcome.set_rounds(
        [0.98 / own, 0.99, 1.0, 1.0, 1.01, 1.03 * own]
            .map(|it| ops * it)
            .to_vec(),
    );
    outcome
}

/// Six seconds; a placement that moves nodes warms up for the first two.
fn series(ops: f64, fast_share: f64, fast_bytes: u64, moves: bool) -> Vec<Sample> {
    let sample = |i: u64| {
        let warmth = if moves {
            (0.5 + i as f64 / 40.0).min(1.0)
        } else {
            1.0
        };
        let ripple = 1.0 + 0.015 * ((i * 37 % 11) as f64 / 5.0 - 1.0);
        Sample {
            at_s: i as f64 / 10.0,
            ops_per_s: ops * warmth * ripple,
            fast_share: Some(fast_share * warmth),
            fast_bytes,
            promoted: if moves { 200 * i } else { 0 },
            demoted: if moves { 180 * i } else { 0 },
            kernel: None,
        }
    };
    (1..=60).map(sample).collect()
}

/// A tree of four levels; leaves use the fast memory that inner nodes leave free.
fn levels(placement: &str, tree: u64, fast_bytes: u64) -> Vec<LevelFill> {
    let sizes = [1024, 18 << 10, 640 << 10];
    let leaves = tree - sizes.iter().sum::<u64>();
    let mut free = fast_bytes;
    let scattered = placement == "interleave";
    let fill = |(level, bytes): (usize, u64)| {
        let bytes_fast = if scattered {
            bytes / 5
        } else {
            bytes.min(free)
        };
        free -= bytes_fast.min(free);
        LevelFill {
            level: level as u8,
            nodes_fast: bytes_fast.div_ceil(1024),
            nodes_slow: (bytes - bytes_fast) / 1024,
            bytes_fast,
            bytes_slow: bytes - bytes_fast,
        }
    };
    sizes
        .into_iter()
        .chain([leaves])
        .enumerate()
        .map(fill)
        .collect()
}
