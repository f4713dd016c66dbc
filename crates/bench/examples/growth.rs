//! Compares a map that grows with one that is made for its records: `cargo run --release -p
//! timberline-bench --example growth -- [records] [rounds] [btree|art|masstree]...`.
//!
//! One thread inserts random 64-bit keys one by one, into a map made by `new`, then into one in
//! arenas of a limit that all records fit into. Before each, the machine has as much memory ready.
//! Times are the thread's CPU time with the kernel's part, and noisy; the output shows medians of
//! the rounds with the least and the most.

mod args;

use std::process::ExitCode;
use std::sync::Arc;

use args::Args;
use timberline_bench::workload::{KeySpace, load_order};
use timberline_bench::{Rounds, have_ready};
use timberline_placement::AllFast;
use timberline_placement::workers::thread_cpu_time;
use timberline_tier::{Arenas, ArenasConfig, Native};
use timberline_tree::{Art, BTree, Masstree};

/// Memory for each record, bytes: more than any of the maps takes.
const RECORD: usize = 80;
const USAGE: &str = "usage: growth [records] [rounds] [btree|art|masstree]...";

/// Memory for a map of so many records.
fn bytes(records: u64) -> usize {
    records as usize * RECORD
}

/// Measures a kind of map, and prints a line.
macro_rules! measure {
    ($map:ty, $name:expr, $records:expr, $rounds:expr) => {{
        let space = KeySpace::new($records).expect("a valid size");
        let load = |map: $map| {
            let start = thread_cpu_time();
            for id in load_order($records, 1, 0, 1) {
                map.insert(&space.key(id), id).expect("memory");
            }
            (thread_cpu_time() - start).as_secs_f64() * 1e9 / $records as f64
        };
        let (mut grown, mut made) = (Vec::new(), Vec::new());
        for _ in 0..$rounds {
            have_ready(bytes($records));
            grown.push(load(<$map>::new()));
            have_ready(bytes($records));
            let config = ArenasConfig::one_tier(bytes($records));
            let memory = Native(Arenas::new(&config).expect("addresses"));
            made.push(load(
                <$map>::in_memory(memory, Arc::new(AllFast)).expect("memory"),
            ));
        }
        let ratios: Vec<f64> = made
            .iter()
            .zip(&grown)
            .map(|(made, grown)| made / grown)
            .collect();
        let [grown, made, ratio] = [grown, made, ratios].map(|it| Rounds::new(&it));
        println!(
            "{}: {:.0} ns an insert where it grows, {:.0} where it is made for all; \
             speed ÷ {:.3} ({:.3} to {:.3})",
            $name, grown.median, made.median, ratio.median, ratio.least, ratio.most
        );
    }};
}

fn main() -> ExitCode {
    let Some(args) = Args::parse(20_000_000, 5) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    for map in args.maps {
        match map {
            "btree" => measure!(BTree<u64, u64>, map, args.records, args.rounds),
            "art" => measure!(Art<u64, u64>, map, args.records, args.rounds),
            _ => measure!(Masstree<u64, u64>, map, args.records, args.rounds),
        }
    }
    ExitCode::SUCCESS
}
