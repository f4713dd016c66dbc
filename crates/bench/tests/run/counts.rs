//! Counts of one thread repeat exactly.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_bench::run::Load;
use timberline_bench::workload::{Op, Request};
use timberline_placement::{AllFast, AllSlow, HeatIn, Placement, Timberline, TimberlineConfig};
use timberline_research::{InnerFast, Interleave};
use timberline_tier::emulator::{Base, Emulated, LineCounts, thread_counts};
use timberline_tier::{Arenas, ArenasConfig};
use timberline_tree::BTree;

use super::{cxl, stream};

/// Executes one request. Returns whether it found its record.
fn execute<P: timberline_tier::Memory>(map: &BTree<u64, u64, P>, request: Request) -> bool {
    let Request { op, key } = request;
    match op {
        Op::Read => map.get(&key).is_some(),
        Op::Update => map.update(&key, key).is_some(),
        Op::Insert => map.insert(&key, key).unwrap().is_none(),
        Op::Scan(records) => map.scan(&key, records.into(), |_, _| ControlFlow::Continue(())) > 0,
        Op::ReadModifyWrite => {
            let value = map.get(&key).unwrap();
            map.update(&key, value + 1).is_some()
        }
    }
}

/// Creates a placement for these arenas.
type Place = fn(&Arenas) -> Arc<dyn Placement>;

/// The lines that a thread accesses for the same requests on a new map.
fn counts(workload: &str, place: Place) -> LineCounts {
    let count = || {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 16 << 20)).unwrap();
        let placement = place(&arenas);
        let memory = Emulated::new(arenas, cxl(), Base::default());
        let map: BTree<u64, u64, Emulated> = BTree::in_memory(memory, placement).unwrap();
        let Load { requests, .. } = stream(workload, 60_000);
        let before = thread_counts();
        for key in requests.load(7, 0, 1) {
            map.insert(&key, key).unwrap();
        }
        let mut source = requests.source(7, 0, 1);
        for _ in 0..30_000 {
            assert!(execute(&map, source.next()));
        }
        thread_counts() - before
    };
    // A new thread has its own modelled cache, empty at first.
    std::thread::scope(|scope| scope.spawn(count).join().unwrap())
}

#[test]
fn counts_repeat_to_the_digit() {
    let placements: [Place; 5] = [
        |_| Arc::new(AllFast),
        |_| Arc::new(AllSlow),
        |_| Arc::new(InnerFast),
        |_| Arc::new(Interleave::new(0.1)),
        |arenas| {
            let home = HeatIn::Table {
                node_bytes: BTree::<u64, u64, Emulated>::NODE_BYTES,
            };
            Timberline::new(arenas, home, TimberlineConfig::default()).unwrap()
        },
    ];
    for workload in ["ycsb-a", "hs-d", "ycsb-e", "ycsb-f"] {
        for place in placements {
            let (one, two) = (counts(workload, place), counts(workload, place));
            let lines = |it: LineCounts| (it.fast, it.slow, it.cached);
            assert_eq!(lines(one), lines(two), "{workload}");
            assert!(one.fast + one.slow > 0, "{workload}");
        }
    }
}
