//! What must hold of a map at rest.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use timberline_placement::{KeyBytes, Placed};
use timberline_tier::TierId;

use super::draw::Draw;
use super::placing::Placing;
use super::{TestMap, asks};

/// The map's content, seen every way, is the model's.
pub fn same(map: &impl TestMap, model: &BTreeMap<u64, u64>) {
    let expected: Vec<_> = model.iter().map(|(&key, &value)| (key, value)).collect();
    assert_eq!(map.all().collect::<Vec<_>>(), expected, "forward");
    let mut backward: Vec<_> = map.all().rev().collect();
    backward.reverse();
    assert_eq!(backward, expected, "backward");
    let mut scanned = Vec::new();
    let seen = map.scan(0, usize::MAX, |key, value| {
        scanned.push((key, value));
        ControlFlow::Continue(())
    });
    assert_eq!((seen, &scanned), (expected.len(), &expected), "scanned");
    assert_eq!(map.len(), expected.len(), "counted");
    for &(key, value) in &expected {
        assert_eq!(map.get(key), Some(value), "key {key}");
    }
}

/// No tier has, or ever had, more than its limit, and nodes lie within what is committed.
pub fn within_budget(map: &impl TestMap) {
    let arenas = map.arenas();
    for tier in (0..arenas.tiers()).map(|tier| TierId(tier as u8)) {
        let budget = arenas.budget(tier);
        assert!(budget.peak() <= budget.limit(), "{budget:?}");
        assert!(arenas.used(tier) <= budget.used(), "{tier:?} {budget:?}");
    }
}

/// The nodes add up, and after the placement's workers ran, the single boundary holds.
pub fn structure<T: TestMap>(map: &T, placing: &Placing) {
    if let Some(settle) = &placing.settle {
        settle(&*map.placed());
        let stats = map.stats();
        assert_eq!(stats.above_boundary, 0, "{stats:?}");
    }
    let stats = map.stats();
    assert_eq!(stats.records, map.len());
    assert!(stats.levels.len() <= usize::from(map.placed().levels()));
    let (root, leaves) = (stats.levels[0], stats.leaves);
    let roots = if map.len() > 0 { 1 } else { T::EMPTY_NODES };
    assert_eq!(root.fast + root.slow, roots, "{stats:?}");

    let (mut fast, mut slow, mut fences) = (Vec::new(), Vec::new(), Vec::new());
    map.placed().each_leaf(&[], &mut |leaf| {
        let fence = leaf.fence.to_bytes();
        assert_eq!(map.placed().fence_at(leaf.address), Some(fence.clone()));
        let of_tier = match leaf.tier.is_fast() {
            true => &mut fast,
            false => &mut slow,
        };
        of_tier.push(fence.clone());
        fences.push(fence);
        ControlFlow::Continue(())
    });
    let counts = (fast.len(), slow.len());
    assert_eq!(counts, (leaves.fast, leaves.slow), "each leaf once");
    for (tier, all) in [(TierId::FAST, fast), (TierId::SLOW, slow)] {
        assert_eq!(leaves_of(map, tier), all, "those of a tier, by and by");
    }
    assert!(fences.is_sorted_by(|one, two| one < two), "{fences:?}");
}

/// The leaves of a tier, a few at a time.
fn leaves_of(map: &impl TestMap, tier: TierId) -> Vec<KeyBytes> {
    let (mut all, mut next) = (Vec::new(), Some(KeyBytes::default()));
    while let Some(from) = next {
        next = map.placed().each_leaf_of(tier, &from, 7, &mut |leaf| {
            all.push(leaf.fence.to_bytes());
            ControlFlow::Continue(())
        });
    }
    all
}

/// All of the above.
pub fn at_rest(map: &impl TestMap, model: &BTreeMap<u64, u64>, placing: &Placing) {
    same(map, model);
    structure(map, placing);
    same(map, model);
    within_budget(map);
}

/// A migrator that ran beside the test had something to do.
pub fn moved_both_ways(map: &impl TestMap) {
    let stats = map.stats();
    assert!(stats.promoted > 0 && stats.demoted > 0, "{stats:?}");
}

/// Waits until `done`, however long other threads take, but not for ever.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never came: {what}");
}

/// Reclaims until `done`. Threads may still be pinned in the map, or about to end, so this may take
/// many rounds, but not for ever.
pub fn reclaim_until(placed: &dyn Placed, what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        placed.reclaim();
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never reclaimed: {what}");
}

/// Bytes in nodes, all tiers together.
pub fn used(map: &impl TestMap) -> usize {
    let arenas = map.arenas();
    (0..arenas.tiers())
        .map(|tier| arenas.used(TierId(tier as u8)))
        .sum()
}

/// Bytes in the nodes that the map has by its own count.
pub fn in_nodes(map: &impl TestMap) -> usize {
    map.stats().bytes_in_nodes
}

/// After reclamation, what is used is what the map consists of: nothing leaked.
pub fn nothing_leaked(map: &impl TestMap) {
    reclaim_until(&*map.placed(), "nodes of no map", || {
        used(map) == in_nodes(map)
    });
}

/// Nothing is left but an empty root, if that, once everything is removed, and `trim` gives the
/// rest back.
pub fn comes_back<T: TestMap>(map: &T) {
    map.clear();
    assert_eq!((map.len(), map.all().next()), (0, None));
    // Nothing is left to be found, but maybe what was there once.
    asks::ask_all(&*map.placed(), &T::leaf_of(0), &mut Draw::new(0, 0));
    let stats = map.stats();
    assert_eq!(stats.levels.len(), 1, "an empty map is one leaf: {stats:?}");
    let root = stats.levels[0];
    assert_eq!(root.fast + root.slow, T::EMPTY_NODES, "{stats:?}");
    reclaim_until(&*map.placed(), "all but the root", || {
        used(map) == stats.bytes_in_nodes
    });
    let arenas = map.arenas();
    let tables = |tier| arenas.budget(tier).limit() - arenas.usable(tier);
    // A thread that reclaims may still be on its way with a slot that is no longer counted as used.
    eventually("all chunks but the root's", || {
        arenas.trim();
        let stats = map.stats();
        let tables: usize = (0..arenas.tiers())
            .map(|tier| tables(TierId(tier as u8)))
            .sum();
        stats.fast_bytes + stats.slow_bytes - tables <= super::arenas::CHUNK
    });
}
