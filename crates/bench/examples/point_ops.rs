//! Measures operations on words: `cargo run --release -p timberline-bench --example point_ops --
//! [records] [random|dense] [rounds]`.
//!
//! One thread on this machine's memory, without placement. The operations take turns, and the
//! output shows the median of each one's rounds, with the fastest in parentheses. Times are noisy.
//! For a fixed number of rounds, instructions per operation can be counted instead: each operation
//! is a function with its own name.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use timberline_bench::workload::{KeySpace, Rng, Zipf, load_order};
use timberline_placement::AllFast;
use timberline_tier::{Arenas, ArenasConfig, Native};
use timberline_tree::BTree;

/// Operations per round.
const OPS: usize = 200_000;
/// Records per scan.
const SCANNED: usize = 50;

type Map = BTree<u64, u64, Native>;

/// The operations: name, number per round, and function.
type Operation = (&'static str, usize, fn(&Map, &[u64], &[u64]));

const OPERATIONS: [Operation; 6] = [
    ("get uniform", OPS, |map, uniform, _| gets(map, uniform)),
    ("get zipf 0.99", OPS, |map, _, zipf| gets(map, zipf)),
    ("get_many", OPS, |map, uniform, _| together(map, uniform)),
    ("update", OPS, |map, uniform, _| updates(map, uniform)),
    ("remove, insert", 2 * OPS, |map, uniform, _| {
        replaces(map, uniform)
    }),
    ("scanned record", OPS / 20 * SCANNED, |map, uniform, _| {
        scans(map, &uniform[..OPS / 20])
    }),
];

#[inline(never)]
fn gets(map: &Map, keys: &[u64]) {
    for &key in keys {
        black_box(map.get(&key));
    }
}

#[inline(never)]
fn together(map: &Map, keys: &[u64]) {
    let mut values = [None; 1_000];
    for keys in keys.chunks(values.len()) {
        map.get_many(keys, &mut values[..keys.len()]);
        black_box(&values);
    }
}

#[inline(never)]
fn updates(map: &Map, keys: &[u64]) {
    for &key in keys {
        black_box(map.update(&key, key));
    }
}

/// Far apart, so that neither benefits from the other's cached lines.
#[inline(never)]
fn replaces(map: &Map, keys: &[u64]) {
    for &key in keys {
        map.remove(&key);
    }
    inserts(map, keys);
}

#[inline(never)]
fn inserts(map: &Map, keys: &[u64]) {
    for &key in keys {
        map.insert(&key, key).expect("enough memory was given");
    }
}

#[inline(never)]
fn scans(map: &Map, keys: &[u64]) {
    for &key in keys {
        let mut sum = 0;
        map.scan(&key, SCANNED, |_, value| {
            sum ^= value;
            ControlFlow::Continue(())
        });
        black_box(sum);
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
    let dense = match args.get(1).map(String::as_str) {
        None | Some("random") => Some(false),
        Some("dense") => Some(true),
        Some(_) => None,
    };
    let (Ok(records @ 1..), Some(dense), Ok(rounds)) = (number(0, 2_000_000), dense, number(2, 9))
    else {
        eprintln!("usage: point_ops [records] [random|dense] [rounds]");
        return ExitCode::from(2);
    };
    let space = KeySpace::new(records).expect("a valid size");
    let key = |id: u64| if dense { id } else { space.key(id) };
    let bytes = records as usize * 48 + (64 << 20);
    let arenas = Arenas::new(&ArenasConfig::one_tier(bytes)).expect("addresses");
    let map = Map::in_memory(Native(arenas), Arc::new(AllFast)).expect("memory for a node");
    let order: Vec<u64> = load_order(records, 1, 0, 1).map(key).collect();
    let start = Instant::now();
    inserts(&map, &order);
    let load_ns = start.elapsed().as_nanos() as f64 / records as f64;
    let mut random = Rng::new(1, 0);
    let _held = std::env::var("HOLD").is_ok().then(|| map.domain().pin());
    let zipf = Zipf::new(records, 0.99);
    let mut nanos = vec![Vec::new(); OPERATIONS.len()];
    for _ in 0..rounds {
        let uniform: Vec<u64> = (0..OPS).map(|_| key(random.below(records))).collect();
        // The load order scatters ranks over the map.
        let skewed: Vec<u64> = (0..OPS)
            .map(|_| order[zipf.rank(&mut random) as usize])
            .collect();
        for ((_, count, operation), nanos) in OPERATIONS.iter().zip(&mut nanos) {
            let start = Instant::now();
            operation(&map, &uniform, &skewed);
            nanos.push(start.elapsed().as_nanos() as f64 / *count as f64);
        }
    }
    let stats = map.stats();
    let per_record = (stats.fast_bytes + stats.slow_bytes) as f64 / records as f64;
    print!(
        "{records} {} records, {per_record:.1} B each; load {load_ns:.0}",
        if dense { "dense" } else { "random" }
    );
    for ((name, ..), nanos) in OPERATIONS.iter().zip(&mut nanos) {
        nanos.sort_by(f64::total_cmp);
        let at = |index: usize| nanos.get(index).copied().unwrap_or(f64::NAN);
        print!("; {name} {:.0} ({:.0})", at(nanos.len() / 2), at(0));
    }
    println!(" ns");
    ExitCode::SUCCESS
}
