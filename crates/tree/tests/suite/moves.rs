//! What goes along when a leaf moves, and what stays behind.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_placement::relocation::Relocation;
use timberline_placement::{KeyBytes, Move, NodeKey, Placed};
use timberline_tier::{Arenas, CompactionCandidates, TierId};

use super::draw::{Draw, seed};
use super::map::as_model;
use super::{TestMap, arenas, check, effort, names, placing, threads};

/// Address and heat of each leaf, by its fence.
fn leaves(placed: &dyn Placed) -> BTreeMap<KeyBytes, (usize, u16)> {
    let mut leaves = BTreeMap::new();
    placed.each_leaf(&[], &mut |leaf| {
        leaves.insert(
            leaf.fence.to_bytes(),
            (leaf.address, leaf.heat.load(Relaxed)),
        );
        ControlFlow::Continue(())
    });
    leaves
}

pub fn heat_goes_along_and_the_old_address_is_dead<T: TestMap>() {
    let placing = placing::all_slow(seed());
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    let map = T::make(arenas, placing.placement.clone()).unwrap();
    let model = as_model((0..1_000).map(|key| (key, !key)));
    map.bulk_load(model.clone()).unwrap();
    let placed = map.placed();
    let mut next = 0;
    placed.each_leaf(&[], &mut |leaf| {
        next += 1;
        leaf.heat.store(next, Relaxed);
        ControlFlow::Continue(())
    });

    // As long as this thread is pinned, no address is used again.
    let pinned = map.domain().pin();
    let before = leaves(&*placed);
    for fence in before.keys() {
        assert!(matches!(placed.promote_path(fence.clone()), Move::Moved(_)));
    }
    let after = leaves(&*placed);
    assert!(before.keys().eq(after.keys()));
    for (fence, (old, heat)) in before {
        assert_eq!(after[&fence].1, heat, "heat of the leaf at {fence:?}");
        assert_eq!(placed.fence_at(old), None, "where {fence:?} was");
        assert_eq!(placed.fence_at(after[&fence].0), Some(fence));
    }
    drop(pinned);
    check::same(&map, &model);
    check::nothing_leaked(&map);
}

/// What is left of many nodes holds back memory from those of other sizes, until it moves together:
/// in fast memory, and in a tier between that and the slowest.
pub fn scattered_nodes_move_together<T: TestMap>() {
    move_together::<T>(arenas::two(arenas::AMPLE, arenas::AMPLE), TierId::FAST);
    move_together::<T>(arenas::three([arenas::AMPLE; 3]), TierId(1));
}

/// A whole compaction, a few nodes at a time. Returns how many moved.
fn compact(placed: &dyn Placed, candidates: &CompactionCandidates) -> usize {
    let mut walk = Relocation::down_to(candidates.tier());
    let mut moved = 0;
    while !walk.has_ended() {
        moved += walk.step(placed, candidates, 3);
    }
    moved
}

/// Threads change records, and with them the nodes that compaction walks over, names, and moves.
pub fn what_is_scattered_moves_together_beside_threads<T: TestMap>() {
    const THREADS: u64 = 2;
    const KEYS: u64 = 3_000;
    const STEPS: u64 = effort::times(20_000);
    let seed = seed();
    for tier in [TierId::FAST, TierId(1)] {
        let placing = placing::all_slow(seed);
        let arenas = arenas::three([arenas::AMPLE; 3]);
        let map = T::make(arenas, placing.placement.clone()).unwrap();
        let mut model = as_model((0..KEYS).map(|key| (key * 259, key)));
        map.bulk_load(model.clone()).unwrap();
        let placed = map.placed();
        let mut draw = Draw::new(seed, 0);
        for fence in names::fences(&*placed) {
            let leaf = NodeKey::leaf(fence);
            placed.promote_to(&leaf, tier);
            if !draw.once_in(8) {
                placed.demote_out_of(tier, &leaf);
            }
        }
        check::reclaim_until(&*placed, "retired nodes", || {
            check::used(&map) == check::in_nodes(&map)
        });
        let candidates = placed.compaction_candidates(tier);
        let (done, mut moved) = (AtomicBool::new(false), 0);
        let mut compacts = || {
            moved = compact(&*placed, &candidates);
            while !done.load(Relaxed) {
                compact(&*placed, &placed.compaction_candidates(tier));
                placed.reclaim();
            }
        };
        let models = threads::beside(&mut compacts, || {
            let models = threads::each(THREADS, &|thread| {
                let mut draw = Draw::new(seed, 1 + thread);
                let mut model = BTreeMap::new();
                for step in 0..STEPS {
                    // Beside the records that are there, and far from them.
                    let key = draw.below(2 * KEYS) * 259 + 1 + thread;
                    match draw.below(4) {
                        0 => assert_eq!(map.remove(key), model.remove(&key), "{key}"),
                        1 => assert_eq!(map.get(key), model.get(&key).copied(), "{key}"),
                        _ => {
                            let before = model.insert(key, step);
                            assert_eq!(map.insert(key, step), Ok(before), "{key}");
                        }
                    }
                    if draw.once_in(8) {
                        placed.promote_to(&T::leaf_of(key), TierId(draw.below(2) as u8));
                    }
                }
                model
            });
            done.store(true, Relaxed);
            models
        });
        assert!(candidates.is_empty() || moved > 0);
        assert!(!candidates.is_empty() || T::SIZES == 1);
        models.into_iter().for_each(|own| model.extend(own));
        check::same(&map, &model);
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}

fn move_together<T: TestMap>(arenas: Arenas, tier: TierId) {
    let placing = placing::all_slow(seed());
    let map = T::make(arenas, placing.placement.clone()).unwrap();
    let model = as_model((0..6_000).map(|key| (key * 259, key)));
    map.bulk_load(model.clone()).unwrap();
    let (placed, arenas) = (map.placed(), map.arenas());
    let names = leaves(&*placed);
    for fence in names.keys() {
        placed.promote_to(&NodeKey::leaf(fence.clone()), tier);
    }
    let staying = |(index, _): &(usize, &KeyBytes)| index % 8 == 0;
    for (_, fence) in names.keys().enumerate().filter(|it| !staying(it)) {
        placed.demote_out_of(tier, &NodeKey::leaf(fence.clone()));
    }
    check::reclaim_until(&*map.placed(), "retired nodes", || {
        check::used(&map) == check::in_nodes(&map)
    });

    let (candidates, used) = (placed.compaction_candidates(tier), arenas.used(tier));
    if candidates.is_empty() {
        assert_eq!(T::SIZES, 1, "all nodes have each other's room");
        return;
    }
    let committed = arenas.budget(tier).used();
    let before = leaves(&*placed);
    assert!(compact(&*placed, &candidates) > 0);
    let tier_of = |&(address, _): &(usize, u16)| arenas.tier_of(address);
    let after = leaves(&*placed);
    assert!(before.values().map(tier_of).eq(after.values().map(tier_of)));
    let inside = |&(address, _): &(usize, u16)| candidates.contains(address);
    assert!(!after.values().any(inside));
    check::reclaim_until(&*map.placed(), "what was emptied", || {
        arenas.trim();
        arenas.budget(tier).used() + candidates.bytes() <= committed
    });
    assert_eq!(arenas.used(tier), used);
    check::same(&map, &model);
    check::nothing_leaked(&map);
}
