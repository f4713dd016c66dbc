//! Three emulated tiers (DRAM, CXL, remote), Zipf and a hot set that moves: `three_tiers <records>
//! <requests> [<map>]`. Prints a Markdown table of missing lines by tier and of what the emulator
//! charged.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So no
//! duration matters. Counts repeat to the digit, but for `timberline-leaves` on ART.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_bench::workload::{KeySpace, Rng, Zipf, load_order};
use timberline_placement::workers::{Next, Worker};
use timberline_placement::{AllFast, HeatIn, NewNode, Placement, Timberline, TimberlineConfig};
use timberline_research::Oracle;
use timberline_tier::emulator::{
    Base, CacheSize, Emulated, LineCounts, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Arenas, ArenasConfig, NO_LIMIT, TierConfig, TierId};
use timberline_tree::{Art, BTree, Masstree};

/// The second tier is CXL memory, the third remote memory of a microsecond.
const PROFILE: &str = "cxl+us1";
/// Percent of the tree's bytes that are fast and in the middle.
const SHARES: [usize; 2] = [10, 20];
/// A request takes this long by the workers' clock.
const REQUEST: Duration = Duration::from_micros(1);
/// Zipf's exponent.
const THETA: f64 = 0.99;
/// The modelled cache, bytes: small beside the tree.
const CACHE: usize = 256 << 10;
/// The hot set moves this many times in a run, in the workload where it does.
const MOVES: u64 = 4;

/// Which node is where is a draw: leaves and inner nodes by the tiers' shares.
#[derive(Default)]
struct Interleave(AtomicU64);

impl Placement for Interleave {
    fn place(&self, _: NewNode) -> TierId {
        let draw = Rng::new(self.0.fetch_add(1, Relaxed), 7).below(100) as usize;
        let ends = [SHARES[0], SHARES[0] + SHARES[1]];
        TierId(ends.iter().filter(|&&end| draw >= end).count() as u8)
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AllFast,
    Interleave,
    Oracle,
    Timberline,
}

const KINDS: [(&str, Kind); 4] = [
    ("all-fast", Kind::AllFast),
    ("interleave", Kind::Interleave),
    ("oracle", Kind::Oracle),
    ("timberline-leaves", Kind::Timberline),
];

/// The requests of a run: ranks of a Zipf distribution, spread over the keys.
struct Requests {
    space: KeySpace,
    zipf: Zipf,
    records: u64,
    /// Each epoch's hot keys are others.
    moves_every: Option<u64>,
}

impl Requests {
    fn key(&self, nth: u64, random: &mut Rng) -> u64 {
        let epoch = self.moves_every.map_or(0, |every| nth / every);
        let rank = self.zipf.rank(random);
        self.space
            .key((rank + epoch * self.records / 3) % self.records)
    }
}

/// Room for a tree of so many bytes: three tiers, or one.
fn arenas(kind: Kind, tree: usize) -> Arenas {
    let mut config = ArenasConfig::growing();
    if kind != Kind::AllFast {
        let limits = SHARES.map(|share| TierConfig::new(tree / 100 * share, Vec::new()));
        config.tiers = limits.to_vec();
        config.tiers.push(TierConfig::new(NO_LIMIT, Vec::new()));
    }
    config.chunk_bytes = 64 << 10;
    config.huge_pages = false;
    config.reach = 1 << 33;
    Arenas::new(&config).expect("addresses")
}

/// What the measured half of a run came to.
struct Outcome {
    lines: LineCounts,
    /// Nodes moved to faster and to slower tiers.
    moves: (u64, u64),
}

macro_rules! runs {
    ($run:ident, $map:ident, $heat:expr) => {
        fn $run(kind: Kind, tree: usize, requests: &Requests, count: u64) -> (Outcome, usize) {
            let arenas = arenas(kind, tree);
            let mut workers: Vec<Box<dyn Worker>> = Vec::new();
            let mut oracle: Option<Arc<Oracle>> = None;
            let placement: Arc<dyn Placement> = match kind {
                Kind::AllFast => Arc::new(AllFast),
                Kind::Interleave => Arc::<Interleave>::default(),
                Kind::Oracle => oracle.insert(Arc::<Oracle>::default()).clone(),
                Kind::Timberline => {
                    let config = TimberlineConfig {
                        copies: 0.0,
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
            for id in load_order(requests.records, 1, 0, 1) {
                map.insert(&requests.space.key(id), id).expect("memory");
            }
            if let Some(oracle) = &oracle {
                oracle.begin_counting();
                let mut random = Rng::new(1, 0);
                for nth in 0..count {
                    map.get(&requests.key(nth, &mut random));
                }
                oracle.arrange(&*map.placed(), 8);
            }
            set_thread_cache(CacheSize::new(CACHE).expect("a power of two"));
            let mut due = Duration::ZERO;
            let mut random = Rng::new(1, 0);
            let mut before = thread_counts();
            let mut moved = (0, 0);
            map.memory().set_charging(true);
            for nth in 0..count {
                if nth == count / 2 {
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
                map.get(&requests.key(nth, &mut random))
                    .expect("it was inserted");
            }
            let (up, down) = map.moves();
            let outcome = Outcome {
                lines: thread_counts() - before,
                moves: (up - moved.0, down - moved.1),
            };
            let stats = map.stats();
            (outcome, stats.fast_bytes + stats.slow_bytes)
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

type Run = fn(Kind, usize, &Requests, u64) -> (Outcome, usize);

fn main() -> ExitCode {
    let maps: [(&str, Run); 3] = [("B+tree", btree), ("ART", art), ("Masstree", masstree)];
    let mut given: Vec<String> = std::env::args().skip(1).collect();
    let only = given.get(2).cloned();
    given.truncate(2);
    let numbers: Option<Vec<u64>> = given.iter().map(|it| it.parse().ok()).collect();
    let is_map = |name: &String| maps.iter().any(|(map, _)| map == name);
    let (records, count) = match numbers.as_deref() {
        Some(&[records, count])
            if records.min(count) >= 1000 && only.as_ref().is_none_or(is_map) =>
        {
            (records, count)
        }
        _ => {
            eprintln!(
                "usage: three_tiers <records> <requests> [<map>], records and requests at least \
                 1000, the map B+tree, ART or Masstree"
            );
            return ExitCode::from(2);
        }
    };
    println!("| map | hot set | placement | fast | slower | charge, ns | regained | moves |");
    println!("|---|---|---|---|---|---|---|---|");
    let is_asked_for = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, run) in maps.into_iter().filter(|(name, _)| is_asked_for(name)) {
        for moves in [false, true] {
            let requests = Requests {
                space: KeySpace::new(records).expect("a size within the range"),
                zipf: Zipf::new(records, THETA),
                records,
                moves_every: moves.then_some(count / MOVES),
            };
            let mut tree = 0;
            let (mut best, mut worst) = (0.0, 0.0);
            for (placement, kind) in KINDS {
                let (outcome, bytes) = run(kind, tree, &requests, count);
                let measured = (count - count / 2) as f64;
                let each = |count: u64| count as f64 / measured;
                let charge = each(outcome.lines.charged_ns());
                match kind {
                    Kind::AllFast => (tree, best) = (bytes, charge),
                    Kind::Interleave => worst = charge,
                    _ => {}
                }
                let regained = (worst - charge) / (worst - best);
                println!(
                    "| {name} | {} | {placement} | {:.3} | {:.3} | {charge:.1} | {regained:.3} | {} |",
                    if moves { "moves" } else { "stays" },
                    each(outcome.lines.fast),
                    each(outcome.lines.slow),
                    outcome.moves.0 + outcome.moves.1,
                );
            }
        }
    }
    ExitCode::SUCCESS
}
