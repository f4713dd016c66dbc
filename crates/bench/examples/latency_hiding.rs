//! Measures how much memory latency overlapping lookups hide: `cargo run --release -p
//! timberline-bench --example latency_hiding -- [records] [plain|profile] [rounds]`.
//!
//! One thread, random keys. Three kinds of lookups take turns in one run: one by one, several in
//! flight by `get_many_deep`, and futures that an executor polls in turn. The output shows medians
//! over rounds, and ratios to lookups one by one, taken round by round. On an emulated profile all
//! nodes are slow. The bound there assumes that only the profile's limit of parallel prefetches
//! causes waiting: the charged time of a single lookup, divided by that limit.

use std::cell::Cell;
use std::hint::black_box;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Instant;

use timberline_bench::workload::{KeySpace, Rng, load_order};
use timberline_placement::{AllFast, AllSlow, Placement};
use timberline_tier::emulator::{Base, Emulated, Profile, thread_counts};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native};
use timberline_tree::{Art, BTree};

/// Lookups per round.
const LOOKUPS: usize = 200_000;

/// A map of words.
trait Map<M: Memory>: Sized {
    const NAME: &'static str;
    fn make(memory: M, placement: Arc<dyn Placement>) -> Self;
    fn memory(&self) -> &M;
    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>], depth: usize);
    async fn get_async(&self, key: u64) -> Option<u64>;
}

macro_rules! map {
    ($map:ident, $name:literal) => {
        impl<M: Memory> Map<M> for $map<u64, u64, M> {
            const NAME: &'static str = $name;
            fn make(memory: M, placement: Arc<dyn Placement>) -> Self {
                $map::in_memory(memory, placement).expect("memory for a node")
            }
            fn memory(&self) -> &M {
                self.memory()
            }
            fn insert(&self, key: u64, value: u64) {
                self.insert(&key, value).expect("enough memory");
            }
            #[inline(always)]
            fn get(&self, key: u64) -> Option<u64> {
                self.get(&key)
            }
            fn get_many(&self, keys: &[u64], values: &mut [Option<u64>], depth: usize) {
                self.get_many_deep(keys, values, depth);
            }
            async fn get_async(&self, key: u64) -> Option<u64> {
                self.get_async(&key).await
            }
        }
    };
}

map!(BTree, "btree");
map!(Art, "art");

/// Looks up one key after another until none are left.
async fn look_up<M: Memory, T: Map<M>>(map: &T, keys: &[u64], next: &Cell<usize>) {
    while next.get() < keys.len() {
        let index = next.replace(next.get() + 1);
        black_box(map.get_async(keys[index]).await);
    }
}

/// Polls this many tasks in turn until all keys are looked up.
fn execute<M: Memory, T: Map<M>>(map: &T, keys: &[u64], tasks: usize) {
    let next = Cell::new(0);
    let mut tasks: Vec<Pin<Box<_>>> = (0..tasks)
        .map(|_| Box::pin(look_up(map, keys, &next)))
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    while !tasks.is_empty() {
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
    }
}

/// The kinds of lookups.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    Together(usize),
    Tasks(usize),
}

const WAYS: [(&str, Way); 5] = [
    ("get", Way::OneByOne),
    ("get_many, 8", Way::Together(8)),
    ("get_many, 16", Way::Together(16)),
    ("get_many, 32", Way::Together(32)),
    ("get_async, 16", Way::Tasks(16)),
];

fn run<M: Memory, T: Map<M>>(map: &T, keys: &[u64], way: Way, values: &mut [Option<u64>]) {
    match way {
        Way::OneByOne => keys.iter().for_each(|&key| {
            black_box(map.get(key));
        }),
        Way::Together(depth) => map.get_many(keys, values, depth),
        Way::Tasks(tasks) => execute(map, keys, tasks),
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Loads a map, with `charging` off meanwhile, and measures it. `bound` gives the charge of a
/// single lookup and its lower bound, in nanoseconds.
fn measure<M: Memory, T: Map<M>>(
    memory: M,
    placement: Arc<dyn Placement>,
    charging: fn(&M, bool),
    bound: &dyn Fn(&M) -> Option<(f64, f64)>,
    space: &KeySpace,
    rounds: usize,
) {
    charging(&memory, false);
    let map = T::make(memory, placement);
    for id in load_order(space.records(), 1, 0, 1) {
        map.insert(space.key(id), id);
    }
    charging(map.memory(), true);
    let mut random = Rng::new(1, 0);
    let mut values = vec![None; LOOKUPS];
    let mut nanos = WAYS.map(|_| Vec::new());
    let mut bounds = Vec::new();
    for _ in 0..rounds {
        let keys: Vec<u64> = (0..LOOKUPS)
            .map(|_| space.key(random.below(space.records())))
            .collect();
        for ((_, way), nanos) in WAYS.iter().zip(&mut nanos) {
            let (start, _) = (Instant::now(), bound(map.memory()));
            run(&map, &keys, *way, &mut values);
            nanos.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            if matches!(way, Way::OneByOne) {
                bounds.extend(bound(map.memory()));
            }
        }
    }
    let alone = nanos[0].clone();
    for ((name, _), nanos) in WAYS.iter().zip(&mut nanos) {
        let mut ratios: Vec<f64> = alone
            .iter()
            .zip(&*nanos)
            .map(|(one, it)| one / it)
            .collect();
        let ratio = median(&mut ratios);
        println!(
            "{:>6}  {name:<14} {:>6.0} ns  {ratio:>5.2} × get [{:.2}, {:.2}]",
            T::NAME,
            median(nanos),
            ratios[0],
            ratios[ratios.len() - 1],
        );
    }
    let of = |pick: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = bounds.iter().map(pick).collect();
        (!values.is_empty()).then(|| median(&mut values))
    };
    if let (Some(charged), Some(least)) = (of(|it| it.0), of(|it| it.1)) {
        println!(
            "{:>6}  emulated: a get by itself is charged {charged:.0} ns, the bound is {least:.0} ns",
            T::NAME
        );
    }
}

/// Measures both maps, one after the other.
fn both<M: Memory>(
    memory: impl Fn() -> M,
    placement: Arc<dyn Placement>,
    charging: fn(&M, bool),
    bound: &dyn Fn(&M) -> Option<(f64, f64)>,
    space: &KeySpace,
    rounds: usize,
) -> ExitCode {
    let btree = measure::<_, BTree<u64, u64, M>>;
    btree(memory(), placement.clone(), charging, bound, space, rounds);
    let art = measure::<_, Art<u64, u64, M>>;
    art(memory(), placement, charging, bound, space, rounds);
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (records, profile, rounds) = (args.next(), args.next(), args.next());
    let records = records.unwrap_or("2000000".into()).parse();
    let rounds = rounds.unwrap_or("9".into()).parse();
    let profile = profile.unwrap_or("plain".into());
    let (Ok(records), Ok(rounds)) = (records, rounds) else {
        eprintln!("give a number of records, `plain` or a profile, and a number of rounds");
        return ExitCode::from(2);
    };
    let (Ok(space), 1..) = (KeySpace::new(records), rounds) else {
        eprintln!("give at least one record and one round");
        return ExitCode::from(2);
    };
    let bytes = records as usize * 64 + (64 << 20);
    if profile == "plain" {
        let memory = || Native(Arenas::new(&ArenasConfig::one_tier(bytes)).expect("addresses"));
        let bound = |_: &Native| None;
        return both(memory, Arc::new(AllFast), |_, _| (), &bound, &space, rounds);
    }
    let (profile, base) = match (Profile::parse(&profile), Base::measure()) {
        (Ok(profile), Ok(base)) => (profile, base),
        (Err(unknown), _) => {
            eprintln!("{unknown}, or `plain`");
            return ExitCode::from(2);
        }
        (_, Err(error)) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let memory = || {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, bytes)).expect("addresses");
        Emulated::new(arenas, profile.clone(), base)
    };
    let (counted, in_flight) = (Cell::new(thread_counts()), profile.in_flight() as f64);
    // The charge since the last call, per lookup, and the same divided by the limit of parallel
    // prefetches.
    let bound = |_: &Emulated| {
        let since = thread_counts() - counted.replace(thread_counts());
        let charged = since.charged_ns() as f64 / LOOKUPS as f64;
        Some((charged, charged / in_flight))
    };
    let charging = Emulated::set_charging;
    both(memory, Arc::new(AllSlow), charging, &bound, &space, rounds)
}
