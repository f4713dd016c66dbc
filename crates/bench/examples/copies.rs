//! What copies of hot records gain, by exact counts: two emulated tiers (DRAM and CXL, a fifth of
//! the map's bytes fast), `copies <records> <requests> <maps> <workloads>`, e.g. `copies 2000000
//! 6000000 masstree,art ycsb-c,hs-c`. Prints a Markdown table of missing lines and of what the
//! emulator charged, over the last third of the requests.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So all
//! counts repeat to the digit, and no duration matters.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use timberline_bench::workload::{KeySpace, Op, Workload, load_order};
use timberline_placement::workers::{Next, Worker};
use timberline_placement::{AllFast, HeatIn, Placement, Timberline, TimberlineConfig};
use timberline_research::{Interleave, Oracle};
use timberline_tier::emulator::{
    Base, CacheSize, Emulated, LineCounts, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Arenas, ArenasConfig, NO_LIMIT, TierConfig};
use timberline_tree::{Art, BTree, Masstree, Stats};

const PROFILE: &str = "cxl";
/// Percent of the map's bytes that are fast.
const SHARE: usize = 20;
/// A request takes this long by the worker's clock.
const REQUEST: Duration = Duration::from_micros(1);
/// The modelled cache, bytes: small beside the tree.
const CACHE: usize = 256 << 10;
/// Nodes of fast memory that the oracle leaves free.
const ORACLE_KEEPS: usize = 8;

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AllFast,
    Interleave,
    Oracle,
    /// With the largest fraction of fast memory for copies.
    Timberline(f64),
}

const KINDS: [(&str, Kind); 5] = [
    ("all-fast", Kind::AllFast),
    ("interleave", Kind::Interleave),
    ("oracle", Kind::Oracle),
    ("timberline-leaves", Kind::Timberline(0.0)),
    ("timberline", Kind::Timberline(0.75)),
];

/// Room for a tree of so many bytes: two tiers, or one.
fn arenas(kind: Kind, tree: usize) -> Arenas {
    let mut config = ArenasConfig::growing();
    if kind != Kind::AllFast {
        let fast = TierConfig::new(tree / 100 * SHARE, Vec::new());
        config.tiers = vec![fast, TierConfig::new(NO_LIMIT, Vec::new())];
    }
    config.chunk_bytes = 64 << 10;
    config.huge_pages = false;
    config.reach = 1 << 33;
    Arenas::new(&config).expect("addresses")
}

/// The requests of a run.
struct Requests {
    workload: Workload,
    space: KeySpace,
    count: u64,
}

/// What the last third of a run came to.
struct Outcome {
    lines: LineCounts,
    /// Nodes moved to faster and to slower tiers.
    moves: (u64, u64),
    stats: Stats,
}

macro_rules! runs {
    ($run:ident, $map:ident, $heat:expr) => {
        fn $run(kind: Kind, tree: usize, requests: &Requests) -> Outcome {
            let arenas = arenas(kind, tree);
            let mut workers: Vec<Box<dyn Worker>> = Vec::new();
            let mut oracle: Option<Arc<Oracle>> = None;
            let placement: Arc<dyn Placement> = match kind {
                Kind::AllFast => Arc::new(AllFast),
                Kind::Interleave => Arc::new(Interleave::new(SHARE as f64 / 100.0)),
                Kind::Oracle => oracle.insert(Arc::<Oracle>::default()).clone(),
                Kind::Timberline(copies) => {
                    let config = TimberlineConfig {
                        copies,
                        copies_beside_leaf_heat: copies,
                        ..Default::default()
                    };
                    let placement = Timberline::new(&arenas, $heat, config).expect("a heat table");
                    workers = placement.workers();
                    placement
                }
            };
            let profile = Profile::parse(PROFILE).expect("a known profile");
            let base = Base {
                latency_ns: 100.0,
                line_ns: 4.0,
                shared_line_ns: 0.0,
            };
            let memory = Emulated::new(arenas, profile, base);
            memory.set_charging(false);
            let map: $map<u64, u64, Emulated> = $map::in_memory(memory, placement).expect("memory");
            for id in load_order(requests.space.records(), 1, 0, 1) {
                map.insert(&requests.space.key(id), id).expect("memory");
            }
            let stream = || requests.workload.stream(&requests.space, 1, 0, 1);
            if let Some(oracle) = &oracle {
                oracle.begin_counting();
                let mut stream = stream();
                for _ in 0..requests.count {
                    map.get(&stream.next().key);
                }
                oracle.arrange(&*map.placed(), ORACLE_KEEPS);
            }
            set_thread_cache(CacheSize::new(CACHE).expect("a power of two"));
            let (mut due, mut stream) = (Duration::ZERO, stream());
            let (mut before, mut moved) = (thread_counts(), (0, 0));
            map.memory().set_charging(true);
            for nth in 0..requests.count {
                if nth == requests.count / 3 * 2 {
                    (before, moved) = (thread_counts(), map.moves());
                }
                let now = REQUEST * nth as u32;
                if now >= due && !workers.is_empty() {
                    map.memory().set_charging(false);
                    for worker in &mut workers {
                        if let Next::After(pause) = worker.step(&*map.placed(), now) {
                            due = now + pause;
                        }
                    }
                    map.memory().set_charging(true);
                }
                let request = stream.next();
                let key = &request.key;
                match request.op {
                    Op::Read => _ = map.get(key),
                    Op::Update => _ = map.update(key, nth),
                    Op::Insert => _ = map.insert(key, nth).expect("memory"),
                    Op::ReadModifyWrite => {
                        let now = map.get(key);
                        map.update(key, now.unwrap_or_default() + 1);
                    }
                    Op::Scan(_) => unreachable!("none of the workloads scans"),
                }
            }
            let lines = thread_counts() - before;
            map.memory().set_charging(false);
            let (up, down) = map.moves();
            Outcome {
                lines,
                moves: (up - moved.0, down - moved.1),
                stats: map.stats(),
            }
        }
    };
}

runs!(
    btree,
    BTree,
    HeatIn::Table {
        node_bytes: BTree::<u64, u64>::NODE_BYTES
    }
);
runs!(art, Art, HeatIn::Leaf { leaf_bytes: 40 });
runs!(masstree, Masstree, HeatIn::Leaf { leaf_bytes: 256 });

type Run = fn(Kind, usize, &Requests) -> Outcome;

const MAPS: [(&str, Run); 3] = [("btree", btree), ("art", art), ("masstree", masstree)];

/// Shows all placements of a map on a workload.
fn compare(name: &str, run: Run, requests: &Requests) {
    let mut tree = 0;
    let (mut best, mut worst) = (0.0, 0.0);
    for (placement, kind) in KINDS {
        let Outcome {
            lines,
            moves,
            stats,
        } = run(kind, tree, requests);
        let each = |count: u64| count as f64 / (requests.count - requests.count / 3 * 2) as f64;
        let charge = each(lines.charged_ns());
        match kind {
            Kind::AllFast => (tree, best) = (stats.fast_bytes, charge),
            Kind::Interleave => worst = charge,
            _ => {}
        }
        println!(
            "| {name} | {} | {placement} | {:.3} | {:.3} | {charge:.1} | {:.3} | {:.2} | {} |",
            requests.workload.name(),
            each(lines.fast),
            each(lines.slow),
            (worst - charge) / (worst - best),
            stats.copies_bytes as f64 / (tree / 100 * SHARE).max(1) as f64,
            moves.0 + moves.1,
        );
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [records, count, maps, workloads] = &arguments[..] else {
        eprintln!("usage: copies <records> <requests> <maps> <workloads>");
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse().ok().filter(|&it: &u64| it >= 1000);
    let (Some(records), Some(count)) = (number(records), number(count)) else {
        eprintln!("records and requests are numbers from 1000 on");
        return ExitCode::from(2);
    };
    let header =
        "map | workload | placement | fast | slow | charge, ns | regained | copies | moves";
    println!("| {header} |\n|{}", "---|".repeat(9));
    for map in maps.split(',') {
        let Some((name, run)) = MAPS.into_iter().find(|(name, _)| *name == map) else {
            eprintln!("unknown map {map}: possible are btree, art, masstree");
            return ExitCode::from(2);
        };
        for workload in workloads.split(',') {
            let workload = match Workload::parse(workload) {
                Ok(workload) if workload.mix().scan == 0 => workload,
                _ => {
                    eprintln!("{workload}: give workloads without scans, as ycsb-c or hs-c");
                    return ExitCode::from(2);
                }
            };
            let space = KeySpace::new(records).expect("a size within the range");
            let requests = Requests {
                workload,
                space,
                count,
            };
            compare(name, run, &requests);
        }
    }
    ExitCode::SUCCESS
}
