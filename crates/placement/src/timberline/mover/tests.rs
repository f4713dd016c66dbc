//! Rounds of the mover on a tree that is only tiers.

use super::*;
use crate::Fence;
use crate::fake::{Clockwork, FakeTree};
use crate::timberline::victims::Found;
use crate::timberline::{HeatIn, TimberlineConfig};
use crate::{Access, LeafRef, NodeKey, Placement};
use crate::{RecordCache, Relocate, Walk};
use std::sync::atomic::AtomicU16;
use timberline_tier::{Arenas, ArenasConfig};

const IN_TABLE: HeatIn = HeatIn::Table { node_bytes: 1024 };

/// The placement without a tree: the test makes up its leaves.
fn policy(home: HeatIn) -> (Arenas, Arc<Timberline>) {
    let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
    let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
    (arenas, policy)
}

fn ask(policy: &Timberline, arenas: &Arenas, n: usize, samples: usize) {
    touch(policy, arenas, n, samples, Access::Reuse);
}

fn touch(policy: &Timberline, arenas: &Arenas, n: usize, samples: usize, access: Access) {
    let heat = AtomicU16::new(0);
    let leaf = LeafRef {
        address: arenas.range_of(TierId::SLOW).start + 1024 * n,
        tier: TierId::SLOW,
        fence: Fence::of_word(FakeTree::leaf(n).key.word()),
        heat: &heat,
    };
    for _ in 0..samples {
        policy.on_access(leaf, access);
    }
}

fn run(policy: &Arc<Timberline>, tree: &FakeTree) {
    Clockwork::new(policy.workers()).run_for(tree, Duration::ZERO);
}

#[test]
fn hot_leaves_come_with_their_paths_and_leave_the_reserve() {
    let (arenas, policy) = policy(IN_TABLE);
    // Room for 16 of 1 + 4 + 16 + 64 nodes; a quarter is kept.
    let tree = FakeTree::uniform(4, 4, 16);
    for n in 0..64 {
        ask(&policy, &arenas, n, 4);
    }
    ask(&policy, &arenas, 40, 40);
    run(&policy, &tree);
    assert!(tree.tier(&FakeTree::leaf(40)).is_fast(), "the hottest");
    assert!(tree.has_single_boundary());
    assert!(tree.fill(TierId::FAST).used <= tree.fill(TierId::FAST).limit);
}

#[test]
fn a_round_can_be_looked_at() {
    let (arenas, policy) = policy(IN_TABLE);
    let tree = FakeTree::uniform(4, 4, 16);
    let before = policy.view().unwrap();
    assert_eq!(
        (&before.counts[1].1[..], before.thresholds.len()),
        (&[0; 11][..], 0)
    );
    ask(&policy, &arenas, 7, 4);
    run(&policy, &tree);
    let view = policy.view().unwrap();
    let (candidates, bin) = (&view.counts[1].1, 5);
    assert_eq!(view.bins[bin], 32);
    assert_eq!(
        (candidates[bin], candidates.iter().sum()),
        (1, 1),
        "4 samples"
    );
    let (_, filled) = view.watermarks[0];
    assert!(filled > 0.7 && filled < 1.0, "{filled}");
}

#[test]
fn samples_are_sparse_while_all_is_fast_with_room() {
    // 7 nodes; the last tree has one of them in slower memory.
    for (limit, slow, sparse) in [(10, 0, true), (9, 0, false), (10, 1, false)] {
        let (_arenas, policy) = policy(IN_TABLE);
        let tree = FakeTree::uniform(3, 2, limit);
        tree.set_all(TierId::FAST);
        (0..slow).for_each(|n| tree.set_tier(&FakeTree::leaf(n), TierId::SLOW));
        run(&policy, &tree);
        let interval = policy.interval.load(Relaxed);
        assert_eq!(interval == MAX_SAMPLE_INTERVAL, sparse, "{limit} {slow}");
    }
}

#[test]
fn an_entry_without_a_leaf_is_cleared() {
    let (arenas, policy) = policy(IN_TABLE);
    let header = AtomicU16::new(0);
    let leaf = LeafRef {
        address: arenas.allocate(TierId::FAST, 1024).unwrap().addr().get(),
        tier: TierId::FAST,
        fence: Fence::of_word(0),
        heat: &header,
    };
    policy.heat.set(leaf, 8);
    // Fast memory is over its reserve, so the coldest entry is to go; the tree knows no such
    // leaf.
    let tree = FakeTree::uniform(2, 4, 5);
    tree.set_all(TierId::FAST);
    run(&policy, &tree);
    assert_eq!(policy.heat.get(leaf), 0);
}

#[test]
fn a_broken_boundary_is_mended_upwards_or_downwards() {
    for home in [IN_TABLE, HeatIn::Leaf { leaf_bytes: 24 }] {
        for (limit, root_is_fast) in [(16, true), (4, false)] {
            let (_arenas, policy) = policy(home);
            let tree = FakeTree::uniform(2, 4, limit);
            let root = NodeKey::of_word(0, 1);
            tree.set_all(TierId::FAST);
            tree.set_tier(&root, TierId::SLOW);
            policy.boundary_broken(root.clone(), TierId::FAST);
            run(&policy, &tree);
            assert!(tree.has_single_boundary());
            assert_eq!(tree.tier(&root).is_fast(), root_is_fast, "room for {limit}");
        }
    }
}

/// Fast memory of 1 TiB got 300 MB of pages a second beside a hundred records.
#[test]
fn where_nothing_is_slow_there_are_no_copies() {
    let (_arenas, policy) = policy(IN_TABLE);
    let tree = FakeTree::uniform(2, 4, 1_000).with_pages(700);
    tree.set_all(TierId::FAST);
    run(&policy, &tree);
    assert_eq!(tree.record_pages().0, 0);
    tree.set_all(TierId::SLOW);
    run(&policy, &tree);
    assert!((1..=5).contains(&tree.record_pages().0));
}

#[test]
fn copies_get_as_much_of_fast_memory_as_they_are_worth() {
    let (arenas, policy) = policy(IN_TABLE);
    let tree = FakeTree::uniform(4, 4, 60).with_pages(40);
    let mut clockwork = Clockwork::new(policy.workers());
    let mut round = |samples_of_a_page: usize, samples_of_a_leaf: usize| {
        for _ in 0..samples_of_a_page * tree.record_pages().0 {
            policy.on_copy_access(0);
        }
        for leaf in 0..64 {
            ask(&policy, &arenas, leaf, samples_of_a_leaf);
        }
        clockwork.run_for(&tree, Duration::from_millis(200));
        assert!(tree.fill(TierId::FAST).used <= tree.fill(TierId::FAST).limit);
        tree.record_pages().0
    };
    assert_eq!(round(0, 0), 1, "one tells what they are worth");
    let grown = (0..40).map(|_| round(50, 0)).last();
    assert_eq!(grown, Some(40), "nothing else asks");
    let kept = (0..10).map(|_| round(50, 1)).last();
    assert!(
        kept > Some(30),
        "{kept:?}: they are hotter than leaves, whose paths take room"
    );
    let after: Vec<usize> = (0..60).map(|_| round(0, 10)).collect();
    assert!(*after.last().unwrap() < 10, "leaves are hotter: {after:?}");
    assert!(tree.has_single_boundary());
}

#[test]
fn a_path_goes_with_its_last_fast_leaf_but_for_the_root() {
    let (_arenas, policy) = policy(HeatIn::Leaf { leaf_bytes: 24 });
    let tree = FakeTree::uniform(4, 4, 100);
    for leaf in [0, 4, 5, 63] {
        tree.promote_path(FakeTree::leaf(leaf).key);
    }
    let mut mover = Mover::new(policy);
    let mut demote = |leaves: &[usize]| {
        let victim = |&leaf: &usize| Victim {
            leaf: Found::Named(FakeTree::leaf(leaf).key),
            heat: 1,
        };
        mover
            .fast
            .demote_all(&tree, &leaves.iter().map(victim).collect::<Vec<_>>());
        tree.fill(TierId::FAST).used / tree.node_bytes()
    };
    assert_eq!(demote(&[]), 10);
    assert_eq!(demote(&[0]), 8, "with its parent");
    assert_eq!(demote(&[4]), 7, "another child of its parent is fast");
    assert_eq!(demote(&[5]), 4, "with its parent and the next");
    assert_eq!(demote(&[63]), 1);
    assert!(
        tree.tier(&NodeKey::of_word(0, 3)).is_fast(),
        "the root stays"
    );
}

#[test]
fn what_tells_a_hot_record_follows_from_what_cold_ones_have() {
    let (arenas, policy) = policy(HeatIn::Leaf { leaf_bytes: 24 });
    let tree = FakeTree::uniform(4, 4, 16);
    let mut mover = Mover::new(policy.clone());
    for n in 0..8 {
        ask(&policy, &arenas, n, 1);
    }
    assert_eq!(mover.margin(&tree).least, 8.0, "all may be chance");
    for n in 8..20 {
        ask(&policy, &arenas, n, 5);
    }
    assert_eq!(mover.margin(&tree).least, 2.0, "these are not");
    // Leaves of many records have samples enough.
    let (arenas, policy) = self::policy(IN_TABLE);
    ask(&policy, &arenas, 7, 1);
    let margin = policy.scale.margin;
    assert_eq!(Mover::new(policy).margin(&tree), margin);
}

#[test]
fn leaves_of_some_records_are_forgotten_sooner() {
    let homes = [24, 256, 1024].map(|leaf_bytes| HeatIn::Leaf { leaf_bytes });
    let each = homes.map(|home| policy(home).1.samples_per_cooling());
    assert_eq!(each, [64, 10, 64]);
}
