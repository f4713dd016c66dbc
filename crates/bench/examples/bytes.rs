//! Bytes a record that a map takes in plain memory and with its placement: `cargo run --release -p
//! timberline-bench --example bytes -- [records] [rounds] [btree|art|masstree]...`.
//!
//! Random 64-bit keys, words as values. The second map has a fifth of the first one's bytes as fast
//! memory, and its worker runs. Counts differ from round to round by what thread caches hold and by
//! what the worker has moved; the output shows the last.

mod args;

use std::process::ExitCode;

use args::Args;
use timberline_bench::workload::{KeySpace, load_order};
use timberline_tree::{Art, BTree, Masstree};

const USAGE: &str = "usage: bytes [records] [rounds] [btree|art|masstree]...";

/// Loads a kind of map in both memories, and prints a line.
macro_rules! measure {
    ($map:ident, $name:expr, $args:expr) => {{
        let records = $args.records;
        let space = KeySpace::new(records).expect("a valid size");
        let load = |map: $map<u64, u64>| {
            for id in load_order(records, 1, 0, 1) {
                map.insert(&space.key(id), id).expect("memory");
            }
            let (fast, slow) = map.committed();
            (map.stats().bytes_in_nodes, fast + slow)
        };
        let (mut plain, mut placed) = ((0, 0), (0, 0));
        for _ in 0..$args.rounds {
            plain = load($map::new());
            let builder = $map::builder().fast_memory(plain.1 / 5);
            placed = load(builder.slow_memory(4 * plain.1).build().expect("memory"));
        }
        let each = |bytes: usize| bytes as f64 / records as f64;
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} |",
            $name,
            each(plain.0),
            each(placed.0),
            each(plain.1),
            each(placed.1),
        );
    }};
}

fn main() -> ExitCode {
    let Some(args) = Args::parse(2_000_000, 1) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("| map | in nodes, plain | placed | committed, plain | placed |");
    println!("|---|---|---|---|---|");
    for &name in &args.maps {
        match name {
            "btree" => measure!(BTree, name, args),
            "art" => measure!(Art, name, args),
            _ => measure!(Masstree, name, args),
        }
    }
    ExitCode::SUCCESS
}
