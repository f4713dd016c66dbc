//! The oracle's placement of a quiet tree.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use timberline_research::Oracle;
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, ArenasConfig, Native};
use timberline_tree::BTree;

/// How many leaves are fast once the oracle placed a tree whose first fifth is hot; `beside` runs
/// before it does.
fn fast_leaves(beside: impl FnOnce(&Domain)) -> usize {
    let mut config = ArenasConfig::two_tiers(128 << 10, 4 << 20);
    config.chunk_bytes = 64 << 10;
    let arenas = Arenas::new(&config).unwrap();
    let oracle = Arc::new(Oracle::default());
    let map: BTree<u64, u64> = BTree::in_memory(Native(arenas), oracle.clone()).unwrap();
    for key in 0..20_000 {
        map.insert(key, key).unwrap();
    }
    for _ in 0..64 {
        map.get(0);
    }
    oracle.begin_counting();
    for key in 0..4_000 {
        map.get(key);
    }
    beside(map.domain());
    oracle.arrange(&*map.placed(), 0)
}

/// A thread that is pinned when the oracle begins holds back the memory of all that was fast
/// before.
#[test]
fn a_pinned_thread_does_not_spoil_the_arrangement() {
    let undisturbed = fast_leaves(|_| ());
    assert!(undisturbed > 50, "{undisturbed}");
    std::thread::scope(|scope| {
        let (pinned, is_pinned) = mpsc::channel();
        let disturbed = fast_leaves(|domain| {
            let domain = domain.clone();
            scope.spawn(move || {
                let _guard = domain.pin();
                pinned.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            });
            is_pinned.recv().unwrap();
        });
        assert_eq!(disturbed, undisturbed);
    });
}
