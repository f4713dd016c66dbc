//! Compares a map that grows with one that is made for its records: `cargo run --release -p
//! timberline-bench --example growth -- [records] [rounds] [btree|art|masstree]...`.
//!
//! One thread inserts random 64-bit keys one by one, into a map made by `new`, then into one in
//! arenas of a limit that all records fit into. Before each, the machine has as much memory ready.
//! Times are the thread's CPU time with the kernel's part, and noisy; the output shows medians of
//! the rounds with the least and the most.

use std::process::ExitCode;
use std::sync::Arc;

use timberline_bench::Rounds;
use timberline_bench::workload::{KeySpace, load_order};
use timberline_placement::AllFast;
use timberline_placement::workers::thread_cpu_time;
use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, Native, TierId};
use timberline_tree::{Art, BTree, Masstree};

/// Memory for each record, bytes: more than any of the maps takes.
const RECORD: usize = 80;
const USAGE: &str = "usage: growth [records] [rounds] [btree|art|masstree]...";

fn arenas_for(records: u64) -> Arenas {
    let config = ArenasConfig::one_tier(records as usize * RECORD);
    Arenas::new(&config).expect("addresses")
}

/// Takes memory from the kernel and gives it back: the first touch of a virtual machine's memory
/// may cost more than all inserts.
fn have_ready(records: u64) {
    let arenas = arenas_for(records);
    while arenas.allocate(TierId::FAST, MAX_SLOT).is_ok() {}
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
            have_ready($records);
            grown.push(load(<$map>::new()));
            have_ready($records);
            let memory = Native(arenas_for($records));
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
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    let (Ok(records @ 1..), Ok(rounds @ 1..)) = (number(0, 20_000_000), number(1, 5)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let all = ["btree", "art", "masstree"].map(String::from);
    let maps = args.get(2..).filter(|maps| !maps.is_empty());
    for map in maps.unwrap_or(&all) {
        match map.as_str() {
            "btree" => measure!(BTree<u64, u64>, map, records, rounds),
            "art" => measure!(Art<u64, u64>, map, records, rounds),
            "masstree" => measure!(Masstree<u64, u64>, map, records, rounds),
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
