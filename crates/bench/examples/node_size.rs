//! Measures the effects of the node size: `cargo run --release -p timberline-bench --example
//! node_size [records]`.
//!
//! For each size: time of inserts and gets on this machine's memory (noisy), bytes per record, and
//! the emulator's charge for a get (profile `cxl`, all nodes slow; exactly repeatable).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use timberline_bench::workload::{KeySpace, Rng, load_order};
use timberline_placement::{AllFast, AllSlow};
use timberline_tier::emulator::{Base, Emulated, Profile, thread_counts};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native};
use timberline_tree::{BTree, btree};

const GETS: u64 = 2_000_000;

/// Nanoseconds per item of `work`, which does `count` items.
fn nanos(count: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn load<M: Memory, const WORDS: usize>(map: &BTree<u64, u64, M, WORDS>, space: &KeySpace) {
    for id in load_order(space.records(), 1, 0, 1) {
        map.insert(&space.key(id), id)
            .expect("enough memory was given");
    }
}

fn get<M: Memory, const WORDS: usize>(map: &BTree<u64, u64, M, WORDS>, space: &KeySpace) {
    let mut random = Rng::new(1, 0);
    for _ in 0..GETS {
        black_box(map.get(&space.key(random.below(space.records()))));
    }
}

fn measure<const WORDS: usize>(space: &KeySpace) {
    let bytes = space.records() as usize * 64 + (64 << 20);
    let arenas = Arenas::new(&ArenasConfig::one_tier(bytes)).expect("addresses");
    let map: BTree<u64, u64, Native, WORDS> =
        BTree::in_memory(Native(arenas), Arc::new(AllFast)).expect("memory for a node");
    let insert_ns = nanos(space.records(), || load(&map, space));
    let get_ns = nanos(GETS, || get(&map, space));
    let keys: Vec<u64> = {
        let mut random = Rng::new(1, 0);
        (0..GETS)
            .map(|_| space.key(random.below(space.records())))
            .collect()
    };
    let mut values = vec![None; keys.len()];
    let many_ns = nanos(GETS, || map.get_many(&keys, &mut values));
    let stats = map.stats();
    drop((map, values, keys));

    let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, bytes)).expect("addresses");
    let memory = Emulated::new(
        arenas,
        Profile::parse("cxl").expect("known"),
        Base::default(),
    );
    memory.set_charging(false);
    let map: BTree<u64, u64, Emulated, WORDS> =
        BTree::in_memory(memory, Arc::new(AllSlow)).expect("memory for a node");
    load(&map, space);
    map.memory().set_charging(true);
    let before = thread_counts();
    get(&map, space);
    let counts = thread_counts() - before;
    let per_get = |lines: u64| lines as f64 / GETS as f64;
    println!(
        "{:>5} B  {:>2} levels  insert {insert_ns:>5.0} ns  get {get_ns:>5.0} ns  get_many {many_ns:>5.0} ns  {:>5.2} B/record  \
         cxl, all slow: {:>5.2} lines missed, {:>5.2} cached, {:>6.1} ns charged a get",
        stats.node_bytes,
        stats.levels.len(),
        (stats.fast_bytes + stats.slow_bytes) as f64 / space.records() as f64,
        per_get(counts.slow),
        per_get(counts.cached),
        counts.charged_ns() as f64 / GETS as f64,
    );
}

fn main() {
    let records = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(2_000_000);
    let space = KeySpace::new(records).expect("a count from 1 on");
    println!("{records} random records, one thread");
    measure::<{ btree::NODE_256 }>(&space);
    measure::<{ btree::NODE_512 }>(&space);
    measure::<{ btree::NODE_1K }>(&space);
    measure::<{ btree::NODE_2K }>(&space);
    measure::<{ btree::NODE_4K }>(&space);
}
