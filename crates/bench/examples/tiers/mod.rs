//! A run of each placement in emulated tiers, and a Markdown table of what the emulator charged:
//! for examples that compare placements by counts, not by time.
//!
//! One thread, whose time is a microsecond a request; the worker runs between requests. So no
//! duration matters but that of the worker's own column.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_bench::workload::{KeySpace, Op, Request, Rng, load_order};
use timberline_placement::workers::{Next, Worker, thread_cpu_time};
use timberline_placement::{AllFast, HeatIn, NewNode, Placement, Timberline, TimberlineConfig};
use timberline_research::Oracle;
use timberline_tier::emulator::{
    Base, CacheSize, Emulated, LineCounts, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Arenas, ArenasConfig, NO_LIMIT, TierConfig, TierId};
use timberline_tree::{Art, BTree, Masstree};

/// A request takes this long by the workers' clock.
const REQUEST: Duration = Duration::from_micros(1);
/// The modelled cache, bytes: small beside the tree.
const CACHE: usize = 256 << 10;
/// The tiers, and when their worker runs.
pub struct Setting {
    /// The slower tiers, by the emulator's names.
    pub profile: &'static str,
    /// Percent of the tree's bytes in each tier but the slowest.
    pub percents: &'static [usize],
    /// Whether the worker runs during the load, too.
    pub works_while_loading: bool,
    /// What is compared, in this order, beside `all-fast`, which comes first.
    pub kinds: Vec<Kind>,
    /// Whether the emulator charges the requests. If it does not, the program counts as many
    /// instructions as the maps take, and little more.
    pub charges: bool,
}

/// The records of a run, and how many requests it has.
pub struct Size {
    pub records: u64,
    pub space: KeySpace,
    pub count: u64,
    /// Of the load's order and of the requests.
    pub seed: u64,
}

/// The records and the requests of a run.
pub trait Requests {
    fn size(&self) -> &Size;

    /// All of them in order, numbered from 0: the same ones in each call.
    fn each(&self, visit: &mut dyn FnMut(u64, Request));
}

/// Which node is where is a draw: leaves and inner nodes by the tiers' shares.
struct Interleave {
    nodes: AtomicU64,
    /// The sums of the tiers' percents.
    ends: Vec<usize>,
}

impl Interleave {
    fn of(percents: &[usize]) -> Interleave {
        let sum = |sum: &mut usize, percent: &usize| {
            *sum += percent;
            Some(*sum)
        };
        Interleave {
            nodes: AtomicU64::new(0),
            ends: percents.iter().scan(0, sum).collect(),
        }
    }
}

impl Placement for Interleave {
    fn place(&self, _: NewNode) -> TierId {
        let draw = Rng::new(self.nodes.fetch_add(1, Relaxed), 7).below(100) as usize;
        TierId(self.ends.iter().filter(|&&end| draw >= end).count() as u8)
    }
}

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    AllFast,
    Interleave,
    Oracle,
    Leaves,
    /// Leaves and copies of hot records.
    Timberline,
}

impl Kind {
    /// All but `all-fast` and those with copies.
    pub const OF_LEAVES: [Kind; 3] = [Kind::Interleave, Kind::Oracle, Kind::Leaves];

    /// All but `all-fast`.
    pub const ALL: [Kind; 4] = [
        Kind::Interleave,
        Kind::Oracle,
        Kind::Leaves,
        Kind::Timberline,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::AllFast => "all-fast",
            Kind::Interleave => "interleave",
            Kind::Oracle => "oracle",
            Kind::Leaves => "timberline-leaves",
            Kind::Timberline => "timberline",
        }
    }
}

impl Setting {
    /// Room for a tree of so many bytes: these tiers, or one.
    fn arenas(&self, kind: Kind, tree: usize) -> Arenas {
        let mut config = ArenasConfig::growing();
        if kind != Kind::AllFast {
            let limits = self.percents.iter().map(|percent| tree / 100 * percent);
            config.tiers = limits
                .chain([NO_LIMIT])
                .map(|limit| TierConfig::new(limit, Vec::new()))
                .collect();
        }
        config.chunk_bytes = 64 << 10;
        config.huge_pages = false;
        config.reach = 1 << 33;
        Arenas::new(&config).expect("addresses")
    }
}

/// What the measured half of a run came to.
struct Outcome {
    lines: LineCounts,
    /// Nodes moved to faster and to slower tiers.
    moves: (u64, u64),
    /// CPU time of the workers.
    workers: Duration,
    /// Requests while there was a page of copies.
    with_pages: u64,
    /// Bytes of nodes, and of copies at the end.
    bytes: usize,
    copies: usize,
}

/// What the workers have come to.
#[derive(Clone, Copy, Default)]
struct Work {
    cpu: Duration,
    /// Pages of copies now, and requests so far while there was one.
    pages: usize,
    with_pages: u64,
}

macro_rules! runs {
    ($run:ident, $ask:ident, $map:ident, $heat:expr) => {
        fn $run(kind: Kind, tree: usize, setting: &Setting, requests: &dyn Requests) -> Outcome {
            let arenas = setting.arenas(kind, tree);
            let mut workers: Vec<Box<dyn Worker>> = Vec::new();
            let mut oracle: Option<Arc<Oracle>> = None;
            let placement: Arc<dyn Placement> = match kind {
                Kind::AllFast => Arc::new(AllFast),
                Kind::Interleave => Arc::new(Interleave::of(setting.percents)),
                Kind::Oracle => oracle.insert(Arc::<Oracle>::default()).clone(),
                Kind::Leaves | Kind::Timberline => {
                    let mut config = TimberlineConfig::default();
                    if kind == Kind::Leaves {
                        config.copies = 0.0;
                    }
                    let placement = Timberline::new(&arenas, $heat, config).expect("a heat table");
                    workers = placement.workers();
                    placement
                }
            };
            let profile = Profile::parse(setting.profile).expect("a known profile");
            let base = Base {
                latency_ns: 100.0,
                line_ns: 4.0,
                shared_line_ns: 0.0,
            };
            let memory = Emulated::new(arenas, profile, base);
            memory.set_charging(false);
            let map: $map<u64, u64, Emulated> = $map::in_memory(memory, placement).expect("memory");
            let (mut due, mut work) = (Duration::ZERO, Work::default());
            let mut step = |nth: u64, charges: bool| {
                let now = REQUEST * nth as u32;
                if now >= due && !workers.is_empty() {
                    map.memory().set_charging(false);
                    let begun = thread_cpu_time();
                    for worker in &mut workers {
                        if let Next::After(pause) = worker.step(&*map.placed(), now) {
                            due = now + pause;
                        }
                    }
                    work.cpu += thread_cpu_time() - begun;
                    work.pages = map.placed().record_pages().0;
                    map.memory().set_charging(charges);
                }
                work.with_pages += u64::from(work.pages > 0);
                work
            };
            let Size {
                records,
                space,
                count,
                seed,
            } = requests.size();
            let (records, count) = (*records, *count);
            for (nth, id) in load_order(records, *seed, 0, 1).enumerate() {
                if setting.works_while_loading {
                    step(nth as u64, false);
                }
                map.insert(&space.key(id), id).expect("memory");
            }
            let begun = match setting.works_while_loading {
                true => records,
                false => 0,
            };
            if let Some(oracle) = &oracle {
                oracle.begin_counting();
                requests.each(&mut |_, request| match request.op {
                    // They don't tell what will be read.
                    Op::Insert => {}
                    Op::Scan(_) => $ask(&map, &request, 0),
                    _ => _ = map.get(&request.key),
                });
                oracle.arrange(&*map.placed(), 8);
            }
            set_thread_cache(CacheSize::new(CACHE).expect("a power of two"));
            let mut before = thread_counts();
            let (mut moved, mut earlier, mut work) = ((0, 0), Work::default(), Work::default());
            map.memory().set_charging(setting.charges);
            requests.each(&mut |nth, request| {
                work = step(begun + nth, setting.charges);
                if nth == count / 2 {
                    (before, moved, earlier) = (thread_counts(), map.moves(), work);
                }
                $ask(&map, &request, nth);
            });
            let lines = thread_counts() - before;
            map.memory().set_charging(false);
            let ((up, down), stats) = (map.moves(), map.stats());
            Outcome {
                lines,
                moves: (up - moved.0, down - moved.1),
                workers: work.cpu - earlier.cpu,
                with_pages: work.with_pages - earlier.with_pages,
                bytes: stats.fast_bytes + stats.slow_bytes,
                copies: stats.record_pages * map.placed().node_bytes(),
            }
        }

        /// A request. Out of line, so that a profile tells it from the rest.
        #[inline(never)]
        fn $ask(map: &$map<u64, u64, Emulated>, request: &Request, nth: u64) {
            let read = || map.get(&request.key).expect("it was inserted");
            match request.op {
                Op::Insert => _ = map.insert(&request.key, nth).expect("memory"),
                Op::Update => _ = map.update(&request.key, nth),
                Op::ReadModifyWrite => _ = map.update(&request.key, read() + 1),
                Op::Read => _ = black_box(read()),
                Op::Scan(limit) => {
                    let visit = |_, value| {
                        black_box(value);
                        ControlFlow::Continue(())
                    };
                    map.scan(&request.key, limit.into(), visit);
                }
            }
        }
    };
}

runs!(
    btree,
    ask_btree,
    BTree,
    HeatIn::Table {
        node_bytes: BTree::<u64, u64>::NODE_BYTES
    }
);
runs!(art, ask_art, Art, HeatIn::Leaf { leaf_bytes: 40 });
runs!(
    masstree,
    ask_masstree,
    Masstree,
    HeatIn::Leaf { leaf_bytes: 256 }
);

/// Runs a placement in tiers for a tree of so many bytes.
type Run = fn(Kind, usize, &Setting, &dyn Requests) -> Outcome;

/// A map to run placements of.
#[derive(Clone, Copy)]
pub struct Map {
    name: &'static str,
    run: Run,
}

/// All maps, or only the one of this name; `None` if there is none of this name.
pub fn maps(only: Option<&str>) -> Option<Vec<Map>> {
    let all: [(&'static str, Run); 3] = [("B+tree", btree), ("ART", art), ("Masstree", masstree)];
    let is_asked_for = |&(name, _): &(&str, Run)| only.is_none_or(|only| only == name);
    let asked_for = all.into_iter().filter(is_asked_for);
    let maps: Vec<Map> = asked_for.map(|(name, run)| Map { name, run }).collect();
    (!maps.is_empty()).then_some(maps)
}

/// The placements of these names, parted by commas, or those of leaves; `None` if a name is not one
/// of theirs.
pub fn kinds(names: Option<&str>) -> Option<Vec<Kind>> {
    let named = |name| Kind::ALL.into_iter().find(|kind| kind.name() == name);
    match names {
        Some(names) => names.split(',').map(named).collect(),
        None => Some(Kind::OF_LEAVES.to_vec()),
    }
}

/// The head of the table that [`compare`] adds rows to.
pub fn print_head() {
    println!(
        "| map | workload | placement | fast | slow | charge, ns | regained | ÷ oracle | moves | \
         workers, ns | with pages | copies |"
    );
    println!("|{}", "---|".repeat(12));
}

/// Runs each placement and prints a row for it, of the second half of the requests: missing lines,
/// charge and the workers' CPU time of a request, nodes moved, and the fraction of requests while
/// there were copies; and the copies at the end, as a fraction of fast memory.
pub fn compare(map: Map, workload: &str, setting: &Setting, requests: &dyn Requests) {
    let mut tree = 0;
    let (mut best, mut worst, mut oracles) = (0.0, f64::NAN, f64::NAN);
    for &kind in [Kind::AllFast].iter().chain(&setting.kinds) {
        let outcome = (map.run)(kind, tree, setting, requests);
        let count = requests.size().count;
        let measured = (count - count / 2) as f64;
        let each = |count: u64| count as f64 / measured;
        let charge = each(outcome.lines.charged_ns());
        match kind {
            Kind::AllFast => (tree, best) = (outcome.bytes, charge),
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
        let fast = (tree / 100 * setting.percents[0]).max(1);
        println!(
            "| {} | {workload} | {} | {:.3} | {:.3} | {charge:.1} | {} | {} | {} | {:.1} | \
             {:.3} | {:.3} |",
            map.name,
            kind.name(),
            each(outcome.lines.fast),
            each(outcome.lines.slow),
            shown(regained),
            shown(regained / oracles),
            outcome.moves.0 + outcome.moves.1,
            outcome.workers.as_nanos() as f64 / measured,
            each(outcome.with_pages),
            outcome.copies as f64 / fast as f64,
        );
    }
}
