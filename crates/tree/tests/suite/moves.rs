//! What goes along when a leaf moves, and what stays behind.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{KeyBytes, Move, NodeKey, Placed};
use timberline_tier::{Arenas, TierId};

use super::draw::seed;
use super::map::as_model;
use super::{TestMap, arenas, check, placing};

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
    // Paths lead to leaves of slower tiers, too; these stay where they are.
    let renewed = names
        .keys()
        .map(|leaf| placed.relocate_path(leaf, &candidates));
    assert!(renewed.sum::<usize>() > 0);
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
