//! OutOfMemory tiers: new nodes go slow, then inserts are refused; nothing else changes, and no
//! budget is exceeded.

use std::collections::BTreeMap;

use timberline_placement::{Move, NodeKey};
use timberline_tier::{Arenas, ArenasConfig, TierId};
use timberline_tree::OutOfMemory;

use super::draw::{Draw, seed};
use super::placing::{self, Placing};
use super::{TestMap, arenas, check, effort, migrator, names, threads};

fn make<T: TestMap>(arenas: Arenas, placing: &Placing) -> T {
    T::make(arenas, placing.placement.clone()).unwrap()
}

/// Inserts random records until there is no room for one, which is returned.
fn fill(map: &impl TestMap, model: &mut BTreeMap<u64, u64>, draw: &mut Draw) -> (u64, OutOfMemory) {
    for _ in 0..1_000_000 {
        let (key, value) = (draw.word(), draw.word());
        match map.insert(key, value) {
            Ok(before) => assert_eq!(before, model.insert(key, value)),
            Err(full) => return (key, full),
        }
    }
    panic!("a million records fit");
}

pub fn a_full_fast_tier_sends_new_nodes_to_the_slow_one<T: TestMap>() {
    let seed = seed();
    let limit = 4 * arenas::CHUNK;
    let placing = placing::fast_first(seed);
    let map: T = make(arenas::two(limit, arenas::AMPLE), &placing);
    let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
    for _ in 0..3_000 {
        let (key, value) = (draw.word(), draw.word());
        map.insert(key, value).unwrap();
        model.insert(key, value);
    }
    let stats = map.stats();
    assert!(stats.slow_bytes > limit, "{stats:?}");
    assert_eq!(stats.fast_bytes, limit, "fast memory is all used");
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// A thread that looks again and again finds hardly more room; nodes that leave make it.
pub fn a_full_tier_has_room_when_nodes_left_it_and_not_before<T: TestMap>() {
    let seed = seed();
    let placing = placing::fast_first(seed);
    let map: T = make(arenas::two(T::QUARTER, arenas::AMPLE), &placing);
    let (placed, mut draw) = (map.placed(), Draw::new(seed, 0));
    for _ in 0..T::MANY {
        map.insert(draw.word(), draw.word()).unwrap();
    }
    check::nothing_leaked(&map);
    // No more than it had the last time a node was refused.
    let before = placed.fill(TierId::FAST);
    let refused = map.arenas().usable(TierId::FAST) - before.limit;
    for look in 1..100 {
        let found = placed.fill(TierId::FAST).limit - before.limit;
        // A look may round up by a byte, which matters where less than a node was missing.
        assert!(
            found <= refused / 4 + look,
            "{found} of {refused}, look {look}"
        );
    }
    // Where leaves are small, inner nodes may have taken it all.
    let mut demoted = 0;
    for leaf in names::fences(&*placed).into_iter().map(NodeKey::leaf) {
        for node in (0..4).map(|steps| names::above(&*placed, leaf.clone(), steps)) {
            demoted += usize::from(matches!(placed.demote(&node), Move::Moved(_)));
        }
    }
    assert!(demoted > 0);
    check::nothing_leaked(&map);
    let after = placed.fill(TierId::FAST);
    assert!(after.ratio() < before.ratio(), "{before:?}, {after:?}");
    assert!(after.limit >= before.limit, "{before:?}, {after:?}");
}

pub fn a_full_slow_tier_refuses_inserts_only<T: TestMap>() {
    let seed = seed();
    let placing = placing::fast_first(seed);
    let map: T = make(arenas::two(4 * arenas::CHUNK, 8 * arenas::CHUNK), &placing);
    let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
    for round in 0..3 {
        let (refused, full) = fill(&map, &mut model, &mut draw);
        assert_eq!(full.tier, TierId::SLOW);
        assert_eq!(map.get(refused), None);
        check::same(&map, &model);

        // Unless nodes below slow ones left room in fast memory, none can move, and trying changes
        // nothing.
        let placed = map.placed();
        check::nothing_leaked(&map);
        let fast = map.arenas().budget(TierId::FAST).limit();
        if map.arenas().used(TierId::FAST) == fast {
            for key in model.keys().copied().step_by(97) {
                assert!(matches!(
                    placed.promote_path(T::leaf_of(key).key),
                    Move::Full | Move::AlreadyThere
                ));
            }
            let demoted = placed.demote_subtree(&names::root(&*placed));
            assert!(
                matches!(demoted, Move::Full | Move::AlreadyThere),
                "round {round}"
            );
        }
        check::same(&map, &model);

        // What needs no node goes on.
        let present: Vec<u64> = model.keys().copied().collect();
        for &key in present.iter().step_by(3) {
            assert_eq!(map.update(key, key), model.insert(key, key));
            assert_eq!(map.compare_and_set(key, key, 5), Ok(()));
            assert_eq!(map.insert(key, key), Ok(Some(5)), "replacing needs no room");
        }
        let removed = draw.shuffled(present);
        for key in &removed[..removed.len() * 3 / 4] {
            assert_eq!(map.remove(*key), model.remove(key));
        }
        check::same(&map, &model);

        // And there is room again, as soon as nobody looks at the merged nodes any more.
        check::reclaim_until(&*map.placed(), "room for the refused record", || {
            map.insert(refused, 1).is_ok()
        });
        model.insert(refused, 1);
        check::same(&map, &model);
        check::within_budget(&map);
    }
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// Half of what is in a full map is removed at random: that room can be had again, with other keys,
/// again and again.
pub fn room_of_removed_records_comes_back<T: TestMap>() {
    let seed = seed();
    let placing = placing::all_slow(seed);
    let map: T = make(arenas::two(0, 64 * arenas::CHUNK), &placing);
    let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
    fill(&map, &mut model, &mut draw);
    let most = model.len();
    for round in 0..4 {
        let keys = draw.shuffled(model.keys().copied().collect());
        for key in &keys[..keys.len() / 2] {
            assert_eq!(map.remove(*key), model.remove(key));
        }
        check::nothing_leaked(&map);
        let (before, mut refused) = (model.len(), 0);
        while refused < 20 {
            let (key, value) = (draw.word(), draw.word());
            match map.insert(key, value) {
                Ok(before) => assert_eq!(before, model.insert(key, value)),
                Err(_) => refused += 1,
            }
        }
        let back = model.len() - before;
        let is_back = 5 * model.len() >= 4 * most;
        assert!(is_back, "round {round}: {before} and {back} of {most}");
        check::same(&map, &model);
    }
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// Chunks as they are by default: one holds what the whole map may have.
fn in_one_chunk<T: TestMap>(bytes: usize) -> T {
    let mut config = ArenasConfig::one_tier(bytes);
    config.huge_pages = false;
    make(Arenas::new(&config).unwrap(), &placing::all_slow(0))
}

/// A map that is filled and emptied in turns holds about as many records each time, in whatever
/// order they come and go.
pub fn the_same_keys_fit_again<T: TestMap>() {
    let mut draw = Draw::new(seed(), 0);
    let map: T = in_one_chunk(1 << 20);
    let keys: Vec<u64> = (0..200_000).map(|_| draw.below(1 << 24)).collect();
    let mut fitted = Vec::new();
    for _ in 0..5 {
        let mut keys = draw.shuffled(keys.clone());
        let fits = |key: &&u64| map.insert(**key, **key).is_ok();
        keys.truncate(keys.iter().take_while(fits).count());
        fitted.push(map.len());
        for key in draw.shuffled(keys) {
            map.remove(key);
        }
        assert_eq!(map.len(), 0);
        check::nothing_leaked(&map);
    }
    let (least, most) = (fitted.iter().min(), fitted.iter().max());
    let varies_little = least
        .zip(most)
        .is_some_and(|(least, most)| 5 * least >= 4 * most);
    assert!(varies_little, "{fitted:?}");
}

/// Nobody calls `clear` or `trim`, and yet an empty map keeps next to nothing.
pub fn an_emptied_map_gives_its_chunks_back<T: TestMap>() {
    const KEPT: usize = 256 << 10;
    let mut draw = Draw::new(seed(), 0);
    let map: T = in_one_chunk(2 << 20);
    let committed = || map.arenas().budget(TierId::FAST).used();
    for _ in 0..2 {
        let keys: Vec<u64> = (0..60_000).map(|_| draw.below(1 << 40)).collect();
        let fits = |key: &&u64| map.insert(**key, **key).is_ok();
        assert!(keys.iter().take_while(fits).count() > 1_000);
        assert!(committed() > 2 * KEPT);
        for key in draw.shuffled(keys) {
            map.remove(key);
        }
        check::reclaim_until(&*map.placed(), "chunks of an empty map", || {
            committed() <= KEPT
        });
    }
}

pub fn threads_meet_a_full_tier_and_lose_nothing<T: TestMap>() {
    const THREADS: u64 = 3;
    let seed = seed();
    let placing = placing::shuffle(seed);
    let map: T = make(arenas::two(4 * arenas::CHUNK, 16 * arenas::CHUNK), &placing);
    let work = |thread: u64| {
        let (mut draw, mut model, mut refused) = (Draw::new(seed, thread), BTreeMap::new(), 0);
        for _ in 0..effort::times(30_000) {
            let key = draw.below(20_000) * THREADS + thread;
            if draw.once_in(4) {
                assert_eq!(map.remove(key), model.remove(&key), "{key}");
                continue;
            }
            match map.insert(key, key) {
                Ok(before) => assert_eq!(before, model.insert(key, key), "{key}"),
                Err(_) => {
                    refused += 1;
                    assert_eq!(map.get(key), model.get(&key).copied(), "{key}");
                }
            }
        }
        (model, refused)
    };
    let moving = Draw::new(seed, 99);
    let models = migrator::beside(&map, moving, 20_000 * THREADS, || {
        threads::each(THREADS, &work)
    });
    let mut all = BTreeMap::new();
    let mut refusals = 0;
    for (model, refused) in models {
        all.extend(model);
        refusals += refused;
    }
    assert!(refusals > 0, "the tier was never full");
    check::same(&map, &all);
    check::within_budget(&map);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

pub fn any_budget_down_to_nothing_is_kept<T: TestMap>() {
    let seed = seed();
    let none = T::make(arenas::two(0, 0), placing::fast_first(seed).placement);
    let none = none.and_then(|map| Ok(map.insert(1, 1)?));
    let line = none.expect_err("no node fits into nothing").to_string();
    assert!(line.contains("is full") && !line.contains('\n'), "{line}");

    let page = arenas::CHUNK;
    let few = [0, 1, page - 1, page, page + 1, 3 * page];
    for fast in few {
        for slow in few {
            let arenas = || arenas::two(fast, slow);
            exhaust::<T>(arenas, placing::fast_first(seed), seed);
            exhaust::<T>(arenas, placing::all_slow(seed), seed);
        }
        exhaust::<T>(|| arenas::one(fast), placing::fast_first(seed), seed);
    }
}

/// Fills a map if it can be made at all, moves nodes about, and empties it.
fn exhaust<T: TestMap>(arenas: impl Fn() -> Arenas, placing: Placing, seed: u64) {
    let Ok(map) = T::make(arenas(), placing.placement.clone()) else {
        return;
    };
    let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
    fill(&map, &mut model, &mut draw);
    for _ in 0..50 {
        migrator::step(&map, &mut draw, u64::MAX);
    }
    check::same(&map, &model);
    check::within_budget(&map);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}
