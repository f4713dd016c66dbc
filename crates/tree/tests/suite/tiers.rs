//! Moves between more than two tiers.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use timberline_placement::{KeyBytes, Move, NodeKey, Placed};
use timberline_tier::TierId;

use super::draw::{Draw, seed};
use super::map::as_model;
use super::{TestMap, arenas, check, names, placing};

const TIERS: [TierId; 3] = [TierId(0), TierId(1), TierId(2)];

/// The tier of each leaf, by its fence.
fn leaves(placed: &dyn Placed) -> BTreeMap<KeyBytes, TierId> {
    let mut leaves = BTreeMap::new();
    placed.each_leaf(&[], &mut |leaf| {
        leaves.insert(leaf.fence.to_bytes(), leaf.tier);
        ControlFlow::Continue(())
    });
    leaves
}

/// A map of these records, all of whose nodes are in the second tier.
fn loaded<T: TestMap>(bytes: [usize; 3], records: u64) -> (T, BTreeMap<u64, u64>) {
    let placing = placing::all_slow(seed());
    let map = T::make(arenas::three(bytes), placing.placement).unwrap();
    let model = as_model((0..records).map(|key| (key * 259, key)));
    map.bulk_load(model.clone()).unwrap();
    (map, model)
}

/// Moves a node on the path to a key to any tier, or all that is below it.
fn step<T: TestMap>(map: &T, draw: &mut Draw, keys: u64) -> Move {
    let (placed, to) = (map.placed(), TIERS[draw.below(3) as usize]);
    let node = names::on_path(&*placed, T::leaf_of(draw.below(keys)), draw);
    match draw.below(8) {
        0..4 => placed.promote_to(&node, to),
        4..7 => placed.demote_to(&node, to),
        _ => placed.demote_subtree_to(&node, to),
    }
}

pub fn nodes_move_between_any_two_tiers<T: TestMap>() {
    // All leaves are walked after each move.
    const RECORDS: u64 = 300;
    let (map, model) = loaded::<T>([arenas::AMPLE; 3], RECORDS);
    let placed = map.placed();
    let root = names::root(&*placed);
    let fences = names::fences(&*placed);
    let all_in = |tier| leaves(&*placed).values().all(|&it| it == tier);
    assert!(all_in(TIERS[1]));
    assert!(matches!(
        placed.demote_subtree_to(&root, TIERS[2]),
        Move::Moved(_)
    ));
    assert!(all_in(TIERS[2]));
    // By one step, or by two.
    for (index, fence) in fences.iter().enumerate() {
        let (leaf, to) = (NodeKey::leaf(fence.clone()), TIERS[index % 2]);
        assert!(matches!(placed.promote_to(&leaf, to), Move::Moved(_)));
        assert_eq!(placed.promote_to(&leaf, to), Move::AlreadyThere);
        assert_eq!(leaves(&*placed)[fence], to);
        assert_eq!(map.stats().above_boundary, 0);
    }
    // The root is above a leaf of each of the faster tiers.
    if root.height > 0 {
        assert_eq!(placed.demote_to(&root, TIERS[2]), Move::Blocked);
    }
    for fence in &fences {
        let leaf = NodeKey::leaf(fence.clone());
        let expected = match leaves(&*placed)[fence].is_fast() {
            true => Move::Moved(1),
            false => Move::AlreadyThere,
        };
        assert_eq!(placed.demote_to(&leaf, TIERS[1]), expected);
    }
    let mut draw = Draw::new(seed(), 0x3e);
    let mut moved = 0;
    for _ in 0..1_000 {
        let step = step(&map, &mut draw, 259 * RECORDS);
        moved += usize::from(matches!(step, Move::Moved(_)));
        assert_eq!(map.stats().above_boundary, 0);
    }
    assert!(moved > 100, "{moved}");
    check::same(&map, &model);
    check::within_budget(&map);
    check::nothing_leaked(&map);
}

/// Nodes move while two threads write: each its own keys, so that it knows what it must find.
pub fn threads_lose_nothing_while_nodes_move_among_three_tiers<T: TestMap>() {
    let room = T::QUARTER * T::SIZES;
    let (map, mut model) = loaded::<T>([room, room, arenas::AMPLE], 500);
    const KEYS: u64 = 1_000;
    let written = std::thread::scope(|scope| {
        let writers = [0, 1].map(|nth| {
            let map = &map;
            scope.spawn(move || {
                let mut draw = Draw::new(seed(), 0x40 + nth);
                let mut own = BTreeMap::new();
                for round in 0..4_000 {
                    let key = 1_000_000 + 2 * draw.below(KEYS) + nth;
                    let before = match draw.once_in(3) {
                        true => map.remove(key) == own.remove(&key),
                        false => map.insert(key, round).unwrap() == own.insert(key, round),
                    };
                    assert!(before, "{key}");
                    let key = 1_000_000 + 2 * draw.below(KEYS) + nth;
                    assert_eq!(map.get(key), own.get(&key).copied(), "{key}");
                }
                own
            })
        });
        let mut draw = Draw::new(seed(), 0x3f);
        while !writers.iter().all(|writer| writer.is_finished()) {
            step(&map, &mut draw, 1_000_000 + 2 * KEYS);
            map.placed().reclaim();
        }
        writers.map(|writer| writer.join().unwrap())
    });
    written.into_iter().for_each(|own| model.extend(own));
    check::same(&map, &model);
    check::within_budget(&map);
    check::nothing_leaked(&map);
}

pub fn a_victim_goes_to_the_third_tier_when_the_second_is_full<T: TestMap>() {
    let (map, model) = loaded::<T>([arenas::AMPLE, 4 * arenas::CHUNK, arenas::AMPLE], T::MANY);
    let placed = map.placed();
    let fences = names::fences(&*placed);
    for fence in &fences {
        placed.promote_path(fence.clone());
    }
    check::reclaim_until(&*placed, "retired nodes", || {
        check::used(&map) == check::in_nodes(&map)
    });
    assert!(leaves(&*placed).values().all(|tier| tier.is_fast()));
    assert!(matches!(
        placed.demote_subtree(&names::root(&*placed)),
        Move::Moved(_)
    ));
    let tiers: Vec<_> = leaves(&*placed).into_values().collect();
    assert!(
        tiers.contains(&TIERS[2]) && !tiers.contains(&TIERS[0]),
        "{tiers:?}"
    );
    check::same(&map, &model);
    check::within_budget(&map);
    check::nothing_leaked(&map);
}
