//! The nth allocation fails, for every n: an error or a slower tier, and the map is as before.

use std::collections::BTreeMap;

use timberline_placement::Move;
use timberline_tier::TierId;
use timberline_tree::Error;

use super::draw::{Draw, seed};
use super::map::{as_model, full};
use super::placing::{self, Placing};
use super::{TestMap, arenas, check, names};

/// More than a run below allocates in a tier.
const LAST: u64 = 100;

/// Records that make a few dozen nodes.
fn records(map: &impl TestMap) -> u64 {
    map.placed().node_bytes() as u64 * 2
}

fn make<T: TestMap>(placing: &Placing) -> T {
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    T::make(arenas, placing.placement.clone()).unwrap()
}

pub fn a_failed_allocation_fails_an_insert_or_nothing<T: TestMap>() {
    let seed = seed();
    for tier in [TierId::FAST, TierId::SLOW] {
        let mut failures = 0;
        for nth in 1..=LAST {
            let placing = placing::shuffle(seed);
            let map: T = make(&placing);
            let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
            map.arenas().fail_from(tier, nth);
            for _ in 0..records(&map) {
                let (key, value) = (draw.word(), draw.word());
                match map.insert(key, value) {
                    Ok(before) => assert_eq!(before, model.insert(key, value), "{key}"),
                    Err(full) => {
                        assert_eq!(full.tier, map.arenas().slowest(), "{full}");
                        failures += 1;
                        assert_eq!(map.get(key), model.get(&key).copied(), "{key}");
                        check::at_rest(&map, &model, &placing);
                        map.arenas().fail_nth(tier, 0);
                        assert_eq!(map.insert(key, value), Ok(model.insert(key, value)));
                    }
                }
            }
            map.arenas().fail_nth(tier, 0);
            check::at_rest(&map, &model, &placing);
            check::nothing_leaked(&map);
        }
        assert_eq!(failures > 0, tier == TierId::SLOW, "{tier:?}: {failures}");
    }
}

pub fn a_failed_allocation_ends_a_bulk_load_cleanly<T: TestMap>() {
    let seed = seed();
    for tier in [TierId::FAST, TierId::SLOW] {
        let mut failures = 0;
        for nth in 1..=LAST {
            let placing = placing::shuffle(seed);
            let map: T = make(&placing);
            let records: Vec<_> = (0..records(&map)).map(|key| (key * 301, key)).collect();
            map.arenas().fail_from(tier, nth);
            let loaded = match map.bulk_load(records.iter().copied()) {
                Ok(loaded) => loaded,
                Err(Error::Record { position, error }) => {
                    assert_eq!(full(*error).tier, TierId::SLOW);
                    failures += 1;
                    position
                }
                Err(other) => panic!("{other}"),
            };
            map.arenas().fail_nth(tier, 0);
            let mut model = as_model(records[..loaded].iter().copied());
            check::at_rest(&map, &model, &placing);
            let rest = &records[loaded..];
            assert_eq!(map.bulk_load(rest.iter().copied()), Ok(rest.len()));
            model.extend(rest.iter().copied());
            check::at_rest(&map, &model, &placing);
            check::nothing_leaked(&map);
        }
        assert_eq!(failures > 0, tier == TierId::SLOW, "{tier:?}: {failures}");
    }
}

pub fn a_failed_allocation_moves_no_node<T: TestMap>() {
    let seed = seed();
    let placing = placing::shuffle(seed);
    let map: T = make(&placing);
    let records = records(&map);
    let model = as_model((0..records).map(|key| (key, !key)));
    for (&key, &value) in &model {
        map.insert(key, value).unwrap();
    }
    let placed = map.placed();
    let root = names::root(&*placed);
    let fast = || {
        map.stats()
            .levels
            .iter()
            .map(|level| level.fast)
            .sum::<usize>()
    };
    let mut draw = Draw::new(seed, 0);
    for nth in 1..=u64::from(placed.levels()) {
        assert!(matches!(
            placed.demote_subtree(&root),
            Move::Moved(_) | Move::AlreadyThere
        ));
        assert_eq!(fast(), 0);
        let key = draw.below(records);
        let path = 1 + u64::from(placed.level_of(&T::leaf_of(key)));
        if nth > path {
            continue;
        }
        map.arenas().fail_nth(TierId::FAST, nth);
        assert_eq!(placed.promote_path(T::leaf_of(key).key), Move::Full);
        assert_eq!(fast() as u64, nth - 1, "what moved before stays moved");
        check::at_rest(&map, &model, &placing);
        let rest = path as usize - fast();
        assert_eq!(placed.promote_path(T::leaf_of(key).key), Move::Moved(rest));
        assert_eq!(placed.promote_path(T::leaf_of(key).key), Move::AlreadyThere);
    }
    for nth in 1..=LAST {
        for key in (0..records).step_by(7) {
            placed.promote_path(T::leaf_of(key).key);
        }
        let before = fast();
        map.arenas().fail_nth(TierId::SLOW, nth);
        let outcome = placed.demote_subtree(&root);
        map.arenas().fail_nth(TierId::SLOW, 0);
        match outcome {
            Move::Full => assert_eq!((before - fast()) as u64, nth - 1),
            outcome => assert_eq!((outcome, fast()), (Move::Moved(before), 0)),
        }
        check::at_rest(&map, &model, &placing);
    }
    check::nothing_leaked(&map);
    check::comes_back(&map);
}
