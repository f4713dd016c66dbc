//! Measures the cost of drawing a request: the benchmark's own part of its figures.
//!
//! `cargo run --release -p timberline-bench --example generate [RECORDS]`

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use timberline_bench::workload::{Distribution, KeySpace, Workload};

const REQUESTS: u32 = 2_000_000;
const ROUNDS: usize = 5;

/// The median of a few rounds, ns per call.
fn cost(mut request: impl FnMut() -> u64) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..REQUESTS {
                black_box(request());
            }
            start.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let records = std::env::args()
        .nth(1)
        .map_or(Ok(20_000_000), |records| records.parse())?;
    let space = KeySpace::new(records)?;
    println!("{records} records, one thread, median of {ROUNDS}, ns per request\n");
    for name in Workload::names() {
        let workload = Workload::parse(name)?;
        let mut stream = workload.stream(&space, 1, 0, 1);
        println!("{:6.1}  {workload}", cost(|| stream.next().key));
    }
    println!();
    for name in [
        "uniform",
        "zipfian:0.5:unscrambled",
        "zipfian:0.99:unscrambled",
        "zipfian:0.99:scrambled",
        "zipfian:1:scrambled",
        "zipfian:1.5:scrambled",
        "selfsimilar:0.2",
        "hotspot:0.05:0.9",
        "latest",
    ] {
        let workload = Workload::parse("hs-c")?.with_distribution(Distribution::parse(name)?);
        let mut stream = workload.stream(&space, 1, 0, 1);
        println!("{:6.1}  {name}, reads only", cost(|| stream.next_key()));
    }
    Ok(())
}
