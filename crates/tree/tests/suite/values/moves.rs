//! Where strings lie when their leaves move.

use timberline_placement::relocation::Relocation;
use timberline_placement::{Move, NodeKey};
use timberline_tier::TierId;

use super::{Encoded, ValueMap, same, string};
use crate::suite::draw::seed;
use crate::suite::map::as_model;
use crate::suite::{TestMap, arenas, check, names, placing};

/// Bytes of nodes and strings in fast memory.
fn fast(map: &impl TestMap) -> usize {
    map.arenas().used(TierId::FAST)
}

/// The same in slow memory.
fn slow(map: &impl TestMap) -> usize {
    map.arenas().used(TierId::SLOW)
}

pub fn strings_move_with_their_leaf_or_neither_does<T: ValueMap>() {
    const RECORDS: u64 = 40;
    const LEN: usize = 600;
    let placing = placing::all_slow(seed());
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    let map: Encoded<T> = TestMap::make(arenas, placing.placement.clone()).unwrap();
    let strings = &map.0;
    let model = as_model((0..RECORDS).map(|key| (key, string(LEN))));
    for (&key, value) in &model {
        strings.insert(key, value).unwrap();
    }
    let placed = map.placed();
    assert_eq!(fast(&map), 0);
    check::nothing_leaked(&map);
    let all = check::used(&map);
    let promote = || {
        for fence in names::fences(&*placed) {
            assert!(matches!(
                placed.promote_path(fence),
                Move::Moved(_) | Move::AlreadyThere
            ));
        }
    };
    promote();
    // A trie's names of layers stay slow.
    check::reclaim_until(&*map.placed(), "what was slow", || slow(&map) < LEN);
    assert_eq!(fast(&map) + slow(&map), all, "strings went along");
    assert!(placed.node_bytes() >= LEN / 2, "{}", placed.node_bytes());
    same(strings, &model);
    let root = names::root(&*placed);
    assert!(matches!(placed.demote_subtree(&root), Move::Moved(_)));
    check::reclaim_until(&*map.placed(), "what was fast", || fast(&map) == 0);
    assert_eq!(check::used(&map), all);

    // As many allocations as a path takes, each of which fails once: what does not move in full
    // does not move at all.
    let mut failed = 0;
    for nth in 1..200 {
        map.arenas().fail_nth(TierId::FAST, nth);
        let moved = placed.promote_path(T::leaf_of(0).key);
        map.arenas().fail_nth(TierId::FAST, 0);
        let done = moved != Move::Full;
        failed += usize::from(!done);
        same(strings, &model);
        check::nothing_leaked(&map);
        if done {
            break;
        }
        let _ = placed.demote_subtree(&root);
        check::reclaim_until(&*map.placed(), "what was fast", || fast(&map) == 0);
    }
    assert!(failed > 1, "{failed}");
    let _ = placed.demote_subtree(&root);
    promote();
    for nth in 1..200 {
        map.arenas().fail_nth(TierId::SLOW, nth);
        let moved = placed.demote_subtree(&names::root(&*placed));
        map.arenas().fail_nth(TierId::SLOW, 0);
        same(strings, &model);
        check::nothing_leaked(&map);
        if moved != Move::Full {
            break;
        }
        promote();
    }
    check::comes_back(&map);
}

/// Where no other leaf would find room, compaction relocates the strings of one alone.
pub fn scattered_strings_move_together_where_leaves_stay<T: ValueMap>() {
    const LEN: usize = 40;
    let placing = placing::all_slow(seed());
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    let map: Encoded<T> = TestMap::make(arenas, placing.placement.clone()).unwrap();
    let model = as_model((0..6_000).map(|key| (key * 259, string(LEN))));
    map.0.bulk_load(model.clone()).unwrap();
    let (placed, arenas) = (map.placed(), map.arenas());
    let leaves = names::fences(&*placed);
    for fence in &leaves {
        placed.promote_to(&NodeKey::leaf(fence.clone()), TierId::FAST);
    }
    for (index, fence) in leaves.into_iter().enumerate() {
        if index % 8 != 0 {
            placed.demote_out_of(TierId::FAST, &NodeKey::leaf(fence));
        }
    }
    let retired = || check::used(&map) == check::in_nodes(&map);
    check::reclaim_until(&*placed, "retired nodes", retired);
    arenas.trim();
    let budget = arenas.budget(TierId::FAST);
    arenas.set_limit(TierId::FAST, budget.used()).unwrap();
    // All room for nodes is taken.
    let larger = [2048, 1024, 512, 256, 128].into_iter();
    let taken: Vec<_> = larger
        .flat_map(|bytes| std::iter::from_fn(move || arenas.slot(TierId::FAST, bytes).ok()))
        .collect();

    let candidates = placed.compaction_candidates(TierId::FAST);
    let committed = budget.used();
    assert!(candidates.bytes() > committed / 16, "{candidates:?}");
    let mut walk = Relocation::down_to(TierId::FAST);
    while !walk.has_ended() {
        walk.step(&*placed, &candidates, 3);
    }
    check::reclaim_until(&*placed, "what was emptied", || {
        arenas.trim();
        budget.used() + candidates.bytes() <= committed
    });
    same(&map.0, &model);
    drop(taken);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}
