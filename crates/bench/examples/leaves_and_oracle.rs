//! `timberline-leaves` beside `oracle` in two emulated tiers: `leaves_and_oracle <records>
//! <requests> [<workload>,... [<map>]]`. Prints a Markdown table of missing lines, of what the
//! emulator charged in the second half of the requests, and of the nodes moved meanwhile.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So no
//! duration matters. Workloads are those of `timberline bench`; in one whose name ends in `+moves`
//! the hot set moves.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_bench::workload::{
    KeySpace, Op, Permutation, Request, Rng, Stream, Workload, Zipf, load_order,
};
use timberline_placement::workers::{Next, Worker};
use timberline_placement::{AllFast, HeatIn, NewNode, Placement, Timberline, TimberlineConfig};
use timberline_research::Oracle;
use timberline_tier::emulator::{
    Base, CacheSize, Emulated, LineCounts, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Arenas, ArenasConfig, NO_LIMIT, TierConfig, TierId};
use timberline_tree::{Art, BTree, Masstree};

/// The slow tier.
const PROFILE: &str = "cxl";
/// Percent of the tree's bytes that are fast.
const SHARE: usize = 20;
/// A request takes this long by the workers' clock.
const REQUEST: Duration = Duration::from_micros(1);
/// The modelled cache, bytes: small beside the tree.
const CACHE: usize = 256 << 10;
/// The hot set is at so many places in a run, in a workload whose name ends in `+moves`.
const MOVES: u64 = 4;
const SEED: u64 = 1;

/// Which node is where is a draw.
#[derive(Default)]
struct Interleave(AtomicU64);

impl Placement for Interleave {
    fn place(&self, _: NewNode) -> TierId {
        let draw = Rng::new(self.0.fetch_add(1, Relaxed), 7).below(100) as usize;
        TierId(u8::from(draw >= SHARE))
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

/// The records and the requests of a run.
struct Requests {
    name: String,
    records: u64,
    space: KeySpace,
    law: Law,
    /// Requests from one move of the hot set to the next.
    moves_every: u64,
    count: u64,
}

/// Which records are asked for.
enum Law {
    /// As the workload has it; a hot region moves by its epochs.
    Workload(Workload),
    /// Zipf's law; the record of rank r is the r-th in this order.
    Zipf(Zipf, Permutation),
}

/// The requests of a run, in order.
enum Drawn<'a> {
    Workload(Box<Stream>),
    Zipf(&'a Zipf, &'a Permutation, Rng),
}

impl Requests {
    /// Those of a workload by name; `None` if there is none of this name.
    fn parse(name: &str, records: u64, count: u64) -> Option<Requests> {
        let moving = name.strip_suffix("+moves");
        let law = match moving.unwrap_or(name) {
            "ycsb-c" => {
                let order = Permutation::new(records, Rng::new(SEED, 11));
                Law::Zipf(Zipf::new(records, 0.99), order)
            }
            other => Law::Workload(Workload::parse(other).ok()?),
        };
        Some(Requests {
            name: name.into(),
            records,
            space: KeySpace::new(records).ok()?,
            law,
            moves_every: if moving.is_some() {
                count / MOVES
            } else {
                count
            },
            count,
        })
    }

    /// All of them.
    fn each(&self, mut visit: impl FnMut(u64, Request)) {
        let mut drawn = match &self.law {
            Law::Workload(workload) => {
                workload.hot_epoch().set(0);
                let stream = workload.stream(&self.space, SEED, 0, 1);
                Drawn::Workload(Box::new(stream))
            }
            Law::Zipf(zipf, order) => Drawn::Zipf(zipf, order, Rng::new(SEED, 0)),
        };
        for nth in 0..self.count {
            let epoch = nth / self.moves_every;
            let request = match &mut drawn {
                Drawn::Workload(stream) => {
                    if let Law::Workload(workload) = &self.law {
                        workload.hot_epoch().set(epoch);
                    }
                    stream.next()
                }
                Drawn::Zipf(zipf, order, random) => {
                    let rank = zipf.rank(random) + epoch * self.records / 3;
                    let key = self.space.key(order.at(rank % self.records));
                    Request { op: Op::Read, key }
                }
            };
            visit(nth, request);
        }
    }
}

/// Room for a tree of so many bytes: two tiers, or one.
fn arenas(kind: Kind, tree: usize) -> Arenas {
    let mut config = ArenasConfig::growing();
    if kind != Kind::AllFast {
        config.tiers = vec![
            TierConfig::new(tree / 100 * SHARE, Vec::new()),
            TierConfig::new(NO_LIMIT, Vec::new()),
        ];
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
        fn $run(kind: Kind, tree: usize, requests: &Requests) -> (Outcome, usize) {
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
            let mut due = Duration::ZERO;
            let mut step = |nth: u64, charges: bool| {
                let now = REQUEST * nth as u32;
                if now >= due && !workers.is_empty() {
                    map.memory().set_charging(false);
                    for worker in &mut workers {
                        if let Next::After(pause) = worker.step(&*map.placed(), now) {
                            due = now + pause;
                        }
                    }
                    map.memory().set_charging(charges);
                }
            };
            for (nth, id) in load_order(requests.records, SEED, 0, 1).enumerate() {
                step(nth as u64, false);
                map.insert(&requests.space.key(id), id).expect("memory");
            }
            if let Some(oracle) = &oracle {
                oracle.begin_counting();
                requests.each(|_, request| {
                    map.get(&request.key);
                });
                oracle.arrange(&*map.placed(), 8);
            }
            set_thread_cache(CacheSize::new(CACHE).expect("a power of two"));
            let mut before = thread_counts();
            let mut moved = (0, 0);
            map.memory().set_charging(true);
            requests.each(|nth, request| {
                if nth == requests.count / 2 {
                    (before, moved) = (thread_counts(), map.moves());
                }
                step(requests.records + nth, true);
                match request.op {
                    Op::Insert | Op::Update => {
                        map.insert(&request.key, nth).expect("memory");
                    }
                    _ => {
                        map.get(&request.key).expect("it was inserted");
                    }
                }
            });
            let (up, down) = map.moves();
            let outcome = Outcome {
                lines: thread_counts() - before,
                moves: (up - moved.0, down - moved.1),
            };
            map.memory().set_charging(false);
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

type Run = fn(Kind, usize, &Requests) -> (Outcome, usize);

const WORKLOADS: [&str; 5] = ["ycsb-c", "hs-c", "ycsb-d", "ycsb-c+moves", "hs-c+moves"];

fn main() -> ExitCode {
    let maps: [(&str, Run); 3] = [("B+tree", btree), ("ART", art), ("Masstree", masstree)];
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| given.get(at)?.parse().ok().filter(|&it: &u64| it >= 1000);
    let (Some(records), Some(count)) = (number(0), number(1)) else {
        eprintln!("usage: leaves_and_oracle <records> <requests> [<workload>,... [<map>]]");
        return ExitCode::from(2);
    };
    let workloads = match given.get(2) {
        Some(one) => one.split(',').collect(),
        None => WORKLOADS.to_vec(),
    };
    println!(
        "| map | workload | placement | fast | slow | charge, ns | regained | ÷ oracle | moves |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let is_asked_for = |name: &str| given.get(3).is_none_or(|only| only == name);
    for (name, run) in maps.into_iter().filter(|(name, _)| is_asked_for(name)) {
        for workload in &workloads {
            let Some(requests) = Requests::parse(workload, records, count) else {
                eprintln!("unknown workload `{workload}`");
                return ExitCode::from(2);
            };
            let mut tree = 0;
            let (mut best, mut worst, mut oracles) = (0.0, 0.0, 0.0);
            for (placement, kind) in KINDS {
                let (outcome, bytes) = run(kind, tree, &requests);
                let measured = (count - count / 2) as f64;
                let each = |count: u64| count as f64 / measured;
                let charge = each(outcome.lines.charged_ns());
                match kind {
                    Kind::AllFast => (tree, best) = (bytes, charge),
                    Kind::Interleave => worst = charge,
                    _ => {}
                }
                let regained = (worst - charge) / (worst - best);
                if kind == Kind::Oracle {
                    oracles = regained;
                }
                // Until the references have run, there is nothing to compare with.
                let shown = |it: f64| match it.is_finite() {
                    true => format!("{it:.3}"),
                    false => "–".into(),
                };
                println!(
                    "| {name} | {} | {placement} | {:.3} | {:.3} | {charge:.1} | {} | {} | {} |",
                    requests.name,
                    each(outcome.lines.fast),
                    each(outcome.lines.slow),
                    shown(regained),
                    shown(regained / oracles),
                    outcome.moves.0 + outcome.moves.1,
                );
            }
        }
    }
    ExitCode::SUCCESS
}
