//! The best node size depends on the tier of the nodes: the experiment of Weisgut et al., §5.4–5.5,
//! on emulated memory.
//!
//! `cargo run --release -p timberline-bench --example node_size_tiers [records [profile [rounds]]]`
//!
//! B+trees with nodes of 256 B to 4 KiB, with all, half or none of the nodes fast, take turns at a
//! read-heavy (95 % reads, 5 % inserts) and then a write-heavy (5 % reads, 95 % inserts) Zipfian
//! workload, on one thread per core. The output shows medians (least–most) of the rounds, and
//! ratios to all-fast.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use timberline_bench::workload::{Distribution, KeySpace, Mix, Op, Workload, load_order};
use timberline_placement::{AllFast, AllSlow, Placement};
use timberline_research::Interleave;
use timberline_tier::emulator::{Base, Emulated, Profile};
use timberline_tier::{Arenas, ArenasConfig, Memory};
use timberline_tree::{BTree, btree};

const PLACEMENTS: [&str; 3] = ["all-fast", "half", "all-slow"];
const MIXES: [(&str, u8); 2] = [("read-heavy", 95), ("write-heavy", 5)];
/// Requests of a thread per round.
const REQUESTS: u64 = 200_000;

/// One map, with its rounds so far in requests a second, by mix.
struct Subject {
    node_bytes: usize,
    placement: &'static str,
    rounds: [Vec<f64>; MIXES.len()],
    turn: Box<dyn FnMut(usize) -> f64>,
}

fn subject<const WORDS: usize>(
    placement: &'static str,
    space: &KeySpace,
    memory: &dyn Fn(Arenas) -> Emulated,
    threads: u64,
) -> Subject {
    let bytes = space.records() as usize * 128 + (64 << 20);
    let policy: Arc<dyn Placement> = match placement {
        "all-fast" => Arc::new(AllFast),
        "half" => Arc::new(Interleave::new(0.5)),
        _ => Arc::new(AllSlow),
    };
    let arenas = Arenas::new(&ArenasConfig::two_tiers(bytes, bytes)).expect("addresses");
    let memory = memory(arenas);
    memory.set_charging(false);
    let map: BTree<u64, u64, Emulated, WORDS> =
        BTree::in_memory(memory, policy).expect("memory for a node");
    for id in load_order(space.records(), 1, 0, 1) {
        let key = space.key(id);
        map.insert(&key, key).expect("enough memory was given");
    }
    let streams = |reads: u8| -> Vec<_> {
        let mix = Mix {
            read: reads,
            insert: 100 - reads,
            ..Mix::NONE
        };
        let zipf = Distribution::parse("zipfian:0.99").expect("known");
        let workload = Workload::parse("ycsb-c").expect("known");
        let workload = workload.with_mix(mix).with_distribution(zipf);
        // Seeds differ by mix, but inserted keys have numbers: the second mix overwrites those of
        // the first.
        (0..threads)
            .map(|thread| workload.stream(space, u64::from(reads), thread, threads))
            .collect()
    };
    let mut sources = MIXES.map(|(_, reads)| streams(reads));
    Subject {
        node_bytes: BTree::<u64, u64, Emulated, WORDS>::NODE_BYTES,
        placement,
        rounds: Default::default(),
        turn: Box::new(move |mix| {
            map.memory().set_charging(true);
            let start = Instant::now();
            std::thread::scope(|scope| {
                for stream in &mut sources[mix] {
                    scope.spawn(|| run(&map, stream));
                }
            });
            let seconds = start.elapsed().as_secs_f64();
            map.memory().set_charging(false);
            (threads * REQUESTS) as f64 / seconds
        }),
    }
}

fn run<M: Memory, const WORDS: usize>(
    map: &BTree<u64, u64, M, WORDS>,
    stream: &mut timberline_bench::workload::Stream,
) {
    for _ in 0..REQUESTS {
        let request = stream.next();
        match request.op {
            Op::Insert => {
                let inserted = map.insert(&request.key, request.key);
                black_box(inserted.expect("enough memory was given"));
            }
            _ => {
                black_box(map.get(&request.key));
            }
        }
    }
}

/// Median, minimum and maximum.
fn spread(rounds: &[f64]) -> [f64; 3] {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    [
        sorted[sorted.len() / 2],
        sorted[0],
        sorted[sorted.len() - 1],
    ]
}

fn main() {
    let argument = |nth, default: &str| std::env::args().nth(nth).unwrap_or(default.into());
    let number = |text: String| -> u64 { text.parse().expect("a number") };
    let records = number(argument(1, "2000000"));
    let rounds = number(argument(3, "5"));
    let profile = argument(2, "cxl-fpga");
    let profile = Profile::parse(&profile).unwrap_or_else(|error| panic!("{error}"));
    let base = Base::measure().expect("memory to measure");
    let space = KeySpace::new(records).expect("a count from 1 on");
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let memory = |arenas| Emulated::new(arenas, profile.clone(), base);
    let mut subjects = Vec::new();
    for placement in PLACEMENTS {
        subjects.extend(
            [
                subject::<{ btree::NODE_256 }>,
                subject::<{ btree::NODE_512 }>,
                subject::<{ btree::NODE_1K }>,
                subject::<{ btree::NODE_2K }>,
                subject::<{ btree::NODE_4K }>,
            ]
            .map(|subject| subject(placement, &space, &memory, threads)),
        );
    }
    for mix in 0..MIXES.len() {
        for subject in &mut subjects {
            (subject.turn)(mix);
        }
        for _ in 0..rounds {
            for subject in &mut subjects {
                let ops = (subject.turn)(mix);
                subject.rounds[mix].push(ops);
            }
        }
    }
    println!(
        "{records} records, {threads} threads, profile {} (emulated), {:.0} ns base latency, {rounds} rounds",
        profile.name(),
        base.latency_ns
    );
    for (mix, (name, _)) in MIXES.iter().enumerate() {
        println!("{name}: M requests/s, median (least-most), and the ratio to all-fast");
        for fast in subjects
            .iter()
            .filter(|subject| subject.placement == "all-fast")
        {
            print!("{:>6} B", fast.node_bytes);
            for subject in subjects
                .iter()
                .filter(|it| it.node_bytes == fast.node_bytes)
            {
                let [median, least, most] = spread(&subject.rounds[mix]).map(|ops| ops / 1e6);
                let ratios: Vec<f64> = subject.rounds[mix]
                    .iter()
                    .zip(&fast.rounds[mix])
                    .map(|(own, fast)| own / fast)
                    .collect();
                print!(
                    "   {} {median:.2} ({least:.2}-{most:.2}) {:.2}",
                    subject.placement,
                    spread(&ratios)[0]
                );
            }
            println!();
        }
    }
}
