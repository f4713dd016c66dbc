//! Replayed traces.

use std::path::PathBuf;
use std::sync::Arc;

use timberline_bench::run::{Load, RecordFormat, Requests};
use timberline_bench::trace::{Trace, TraceFormat};

use super::{emulated_placements, plan, plausible, run_emulated, stream};

/// Writes a trace, reads it, and removes the file.
fn trace(name: &str, content: &[u8]) -> Trace {
    let file = format!("timberline-run-{}-{name}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(file);
    std::fs::write(&path, content).unwrap();
    let format = match name.strip_suffix(".alibaba") {
        Some(_) => TraceFormat::parse("alibaba"),
        None => TraceFormat::guess(&path),
    };
    let trace = Trace::open(&path, &format.unwrap());
    std::fs::remove_file(&path).unwrap();
    trace.unwrap()
}

/// A request every 100 µs; at five times the speed, some 2,500 are due in a slice of 50 ms.
#[test]
fn a_trace_is_replayed_at_its_times() {
    let rows = (0..3_000u64).map(|n| {
        let (device, block, us) = (n % 3, n * n % 1_009, 1_000_000 + 100 * n);
        format!("{device},R,{},4096,{us}\n", block * 4096)
    });
    let trace = trace("blocks.alibaba", rows.collect::<String>().as_bytes());
    let mut plan = plan(vec![Load {
        requests: Requests::Trace {
            trace: Arc::new(trace),
            speed: Some(5.0),
        },
        ..stream("hs-c", 1)
    }]);
    plan.placements = vec!["all-fast", "sidle"];
    plan.rounds = 2;
    for outcome in run_emulated(&plan) {
        plausible(&outcome);
        // On any machine, each request due in a slice was executed or missed.
        let turns = (outcome.ops_per_s * outcome.seconds) as u64 + outcome.unanswered;
        assert!(turns > 500, "{turns} turns");
    }
}

#[test]
fn a_trace_is_replayed_over_its_own_keys() {
    let keys = (0..3_000u32).map(|n| n * n % 1_009);
    let bytes: Vec<u8> = keys.flat_map(u32::to_le_bytes).collect();
    let trace = trace("squares.u32", &bytes);
    let records = trace.keys().len() as u64;
    let requests = Requests::Trace {
        trace: Arc::new(trace),
        speed: None,
    };
    let mut plan = plan(vec![Load {
        format: RecordFormat::default(),
        requests,
    }]);
    plan.threads = 3;
    let outcomes = run_emulated(&plan);
    assert_eq!(outcomes.len(), emulated_placements().len());
    for outcome in &outcomes {
        plausible(outcome);
        assert_eq!((&*outcome.workload, outcome.records), ("trace", records));
    }
}
