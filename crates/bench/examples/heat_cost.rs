//! Gets on a tree with and without heat tracking, to count instructions: `heat_cost <variant>
//! <gets>`. `cargo xtask callgrind` runs it.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use timberline_bench::workload::{KeySpace, Rng, load_order};
use timberline_placement::{AllFast, HeatIn, Placement, Timberline, TimberlineConfig};
use timberline_research::{Sidle, SidleConfig};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native};
use timberline_tree::BTree;

const RECORDS: u64 = 100_000;
const VARIANTS: &str =
    "untracked, tracked (one access in 64), dense (one in 4), sidle (every access)";

fn run<M: Memory>(memory: M, placement: Arc<dyn Placement>, gets: u64) {
    let map: BTree<u64, u64, M> =
        BTree::in_memory(memory, placement).expect("memory for a small tree");
    let space = KeySpace::new(RECORDS).expect("a valid size");
    for id in load_order(RECORDS, 1, 0, 1) {
        map.insert(&space.key(id), id)
            .expect("memory for a small tree");
    }
    // A dozen instructions per key, so the count is that of the get.
    let mut random = Rng::new(1, 0);
    for _ in 0..gets {
        black_box(map.get(&space.key(random.below(RECORDS))));
    }
}

fn timberline(interval: u32, arenas: &Arenas) -> Arc<Timberline> {
    let config = TimberlineConfig {
        densest: interval,
        sparsest: interval,
        ..TimberlineConfig::default()
    };
    let home = HeatIn::Table {
        node_bytes: BTree::<u64, u64>::NODE_BYTES,
    };
    Timberline::new(arenas, home, config).expect("room for the heat table")
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (variant, gets) = (args.next().unwrap_or_default(), args.next());
    let Some(gets) = gets.and_then(|gets| gets.parse().ok()) else {
        eprintln!("usage: heat_cost <variant> <gets>; variants: {VARIANTS}");
        return ExitCode::from(2);
    };
    let arenas = Arenas::new(&ArenasConfig::two_tiers(64 << 20, 64 << 20)).expect("addresses");
    match variant.as_str() {
        "untracked" => run(Native(arenas), Arc::new(AllFast), gets),
        "tracked" => {
            let placement = timberline(64, &arenas);
            run(Native(arenas), placement, gets);
        }
        "dense" => {
            let placement = timberline(4, &arenas);
            run(Native(arenas), placement, gets);
        }
        "sidle" => run(Native(arenas), Sidle::new(SidleConfig::default()), gets),
        other => {
            eprintln!("unknown variant `{other}`; possible: {VARIANTS}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
