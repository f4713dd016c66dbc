//! The heap of a placement stays within its share of the budget, whatever waits for its worker.

use std::sync::atomic::AtomicU16;

use allocation_counter::measure;

use super::super::*;
use crate::Fence;
use crate::fake::FakeTree;
use crate::timberline::exchange::Plan;
use crate::timberline::mover::Mover;
use crate::timberline::victims::{Found, TableSweep, VictimSelection};
use timberline_tier::ArenasConfig;

const NODE: usize = 1024;
const BUDGET: usize = 8 << 20;

fn placement(home: HeatIn) -> (Arenas, Arc<Timberline>) {
    let arenas = Arenas::new(&ArenasConfig::two_tiers(BUDGET, BUDGET)).unwrap();
    let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
    (arenas, policy)
}

/// Accesses more hot slow leaves and reports more broken paths than fit, and no worker runs.
fn overwhelm(policy: &Timberline, arenas: &Arenas, key_bytes: usize) {
    let start = arenas.range_of(TierId::SLOW).start;
    for n in 0..20_000_u32 {
        let key = [&n.to_be_bytes()[..], &vec![0; key_bytes - 4]].concat();
        let heat = AtomicU16::new(1000);
        let leaf = LeafRef {
            address: start + NODE * (n as usize % 1000),
            tier: TierId::SLOW,
            fence: Fence {
                prefix: &key,
                word: None,
            },
            heat: &heat,
        };
        policy.on_access(leaf, Access::Reuse);
        policy.boundary_broken(NodeKey::leaf(key[..].into()), TierId::FAST);
    }
}

#[test]
fn names_that_wait_and_those_in_the_workers_hands_are_bounded_by_the_budget() {
    for home in [
        HeatIn::Table { node_bytes: NODE },
        HeatIn::Leaf { leaf_bytes: 24 },
    ] {
        for key_bytes in [8, 200] {
            let (arenas, policy) = placement(home);
            let usable = arenas.usable(TierId::FAST);
            let share = heap_of_candidates(usable) as u64;
            assert!(share > 100 << 10 && share <= 128 << 10, "{share}");
            let both = share + heap_of_broken_paths(usable) as u64;
            assert!(both <= BUDGET as u64 / 7, "{both}");
            let filled = measure(|| overwhelm(&policy, &arenas, key_bytes));
            let held = filled.bytes_current as u64;
            assert!(held <= both, "{home:?}, {key_bytes}: {filled:?}");
            assert!(
                filled.bytes_max <= both + share,
                "{home:?}, {key_bytes}: {filled:?}"
            );

            let mover = Mover::new(policy.clone());
            let mut count = 0;
            let taken = measure(|| count = mover.candidates().len());
            assert!(count > 100, "{home:?}, {key_bytes}: {count}");
            assert!(
                taken.bytes_max <= 2 * share,
                "{home:?}, {key_bytes}: {taken:?}"
            );
            assert_eq!(policy.waiting.load(Relaxed), 0, "all were taken");
            assert!(mover.candidates().is_empty());
            // What waits is bounded anew, not once.
            let again = measure(|| overwhelm(&policy, &arenas, key_bytes));
            assert!(again.bytes_current as u64 <= held, "{again:?}");
        }
    }
}

#[test]
fn victims_take_memory_by_their_number_and_not_by_that_of_cold_leaves() {
    let (arenas, policy) = placement(HeatIn::Table { node_bytes: NODE });
    let heat = AtomicU16::new(0);
    for _ in 0..4000 {
        let leaf = LeafRef {
            address: arenas.allocate(TierId::FAST, NODE).unwrap().addr().get(),
            tier: TierId::FAST,
            fence: Fence::of_word(0),
            heat: &heat,
        };
        policy.heat.set(leaf, 8);
    }
    let mut sweep = TableSweep::new(policy, TierId::FAST);
    let plan = Plan {
        coldest: 8,
        demote: 30,
        ..Plan::default()
    };
    let tree = FakeTree::uniform(2, 4, 5);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200 {
        let mut victims = Vec::new();
        let most = measure(|| victims = sweep.victims(&tree, &plan)).bytes_max;
        assert_eq!(victims.len(), 30);
        assert!(most < 10_000, "{most} bytes for 30 victims");
        seen.extend(victims.iter().map(|victim| match victim.leaf {
            Found::At(address) => address,
            Found::Named(_) => unreachable!("a table names no leaf"),
        }));
    }
    assert_eq!(seen.len(), 4000, "equally cold leaves take turns");
}
