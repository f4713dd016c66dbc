//! The oracle's placement of a quiet tree.

use std::cell::Cell;
use std::sync::Arc;

use timberline_research::Oracle;
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, ArenasConfig, Native};
use timberline_tree::BTree;

/// How many leaves are fast once the oracle placed a tree whose first fifth is hot. `pause` is
/// called whenever the oracle got no memory back, and told how many times it was before.
fn fast_leaves(domain: &Domain, pause: impl Fn(u32)) -> usize {
    let mut config = ArenasConfig::two_tiers(128 << 10, 4 << 20);
    config.chunk_bytes = 64 << 10;
    let arenas = Arenas::new(&config).unwrap();
    let oracle = Arc::new(Oracle::default());
    let map: BTree<u64, u64> =
        BTree::in_domain(domain.clone(), Native(arenas), oracle.clone()).unwrap();
    for key in 0..20_000 {
        map.insert(&key, key).unwrap();
    }
    for _ in 0..64 {
        map.get(&0);
    }
    oracle.begin_counting();
    for key in 0..4_000 {
        map.get(&key);
    }
    let mut pauses = 0;
    oracle.arrange_pausing(&*map.placed(), 0, || {
        pause(pauses);
        pauses += 1;
    })
}

/// A thread that is pinned when the oracle begins holds back the memory of all that was fast
/// before. The oracle waits for it.
#[test]
fn a_pinned_thread_does_not_spoil_the_arrangement() {
    let undisturbed = fast_leaves(&Domain::new(), |_| ());
    assert!(undisturbed > 50, "{undisturbed}");
    let domain = Domain::new();
    let guard = Cell::new(Some(domain.pin()));
    let unpinned = Cell::new(false);
    let disturbed = fast_leaves(&domain, |pauses| {
        if pauses == 100 {
            drop(guard.take());
            unpinned.set(true);
        }
    });
    assert!(unpinned.get(), "the oracle did not wait");
    assert_eq!(disturbed, undisturbed);
}

/// A thread that stays pinned ends the oracle's patience: what is not free stays slow.
#[test]
fn a_thread_that_stays_pinned_costs_fast_leaves_and_no_more() {
    let undisturbed = fast_leaves(&Domain::new(), |_| ());
    let domain = Domain::new();
    let guard = domain.pin();
    let disturbed = fast_leaves(&domain, |_| ());
    assert!(disturbed < undisturbed, "{disturbed} of {undisturbed}");
    drop(guard);
}
