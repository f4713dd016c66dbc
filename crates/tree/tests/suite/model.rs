//! Any sequence of operations does to a map what it does to the standard library's.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow, RangeBounds};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use timberline_sync::epoch;

use super::draw::{Draw, seed};
use super::map::Bounds;
use super::placing::{self, Placing};
use super::{TestMap, check, migrator, names, rooms};

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    /// Expects the value that is there, or another one.
    CompareAndSet(u64, bool, u64),
    Remove(u64),
    Get(u64),
    GetMany(Vec<u64>),
    /// Takes from the front (true) and the back in this order, then the rest.
    Range(Bounds, Vec<bool>),
    Scan(u64, usize),
    /// Loads this many keys from here on, with gaps.
    BulkLoad(u64, u64, u64),
    RemoveRun(u64, u64),
    Clear,
    Promote(u64),
    Demote(u64, u8),
    DemoteSubtree(u64, u8),
    Reclaim,
}

fn keys() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0..300u64,
        1 => (0..4u64).prop_map(|below| u64::MAX - below),
        1 => any::<u64>(),
    ]
}

fn bound() -> impl Strategy<Value = Bound<u64>> {
    prop_oneof![
        keys().prop_map(Bound::Included),
        keys().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let value = any::<u64>;
    prop_oneof![
        40 => (keys(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        4 => (keys(), value()).prop_map(|(k, v)| Op::Update(k, v)),
        4 => (keys(), any::<bool>(), value()).prop_map(|(k, hit, v)| Op::CompareAndSet(k, hit, v)),
        20 => keys().prop_map(Op::Remove),
        4 => keys().prop_map(Op::Get),
        2 => vec(keys(), 0..40).prop_map(Op::GetMany),
        4 => ((bound(), bound()), vec(any::<bool>(), 0..30)).prop_map(|(b, turns)| Op::Range(b, turns)),
        3 => (keys(), 0..50usize).prop_map(|(k, limit)| Op::Scan(k, limit)),
        2 => (keys(), 0..40u64, 1..5u64).prop_map(|(k, n, gap)| Op::BulkLoad(k, n, gap)),
        2 => (keys(), 0..60u64).prop_map(|(k, n)| Op::RemoveRun(k, n)),
        1 => Just(Op::Clear),
        12 => keys().prop_map(Op::Promote),
        8 => (keys(), 0..5u8).prop_map(|(k, h)| Op::Demote(k, h)),
        4 => (keys(), 0..5u8).prop_map(|(k, h)| Op::DemoteSubtree(k, h)),
        2 => Just(Op::Reclaim),
    ]
}

/// Whether a key is within bounds, which may be empty or the wrong way round.
fn within(bounds: &Bounds, key: u64) -> bool {
    bounds.contains(&key)
}

fn range(map: &impl TestMap, model: &BTreeMap<u64, u64>, bounds: Bounds, turns: &[bool]) {
    let mut expected = model
        .iter()
        .map(|(&key, &value)| (key, value))
        .filter(|&(key, _)| within(&bounds, key));
    let mut range = map.range(bounds);
    for &front in turns {
        if front {
            assert_eq!(range.next(), expected.next(), "{bounds:?} {turns:?}");
        } else {
            assert_eq!(
                range.next_back(),
                expected.next_back(),
                "{bounds:?} {turns:?}"
            );
        }
    }
    assert!(range.eq(expected), "the rest of {bounds:?} {turns:?}");
}

fn scan(map: &impl TestMap, model: &BTreeMap<u64, u64>, from: u64, limit: usize) {
    let mut seen = Vec::new();
    let count = map.scan(from, limit, |key, value| {
        seen.push((key, value));
        // Breaking early counts the last one in.
        if key % 64 == 63 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let mut expected: Vec<_> = model
        .range(from..)
        .map(|(&k, &v)| (k, v))
        .take(limit)
        .collect();
    if let Some(end) = expected.iter().position(|&(key, _)| key % 64 == 63) {
        expected.truncate(end + 1);
    }
    assert_eq!((count, &seen), (expected.len(), &expected), "from {from}");
}

fn apply<T: TestMap>(map: &T, model: &mut BTreeMap<u64, u64>, op: &Op) {
    match *op {
        Op::Insert(key, value) => {
            assert_eq!(
                map.insert(key, value),
                Ok(model.insert(key, value)),
                "{key}"
            );
        }
        Op::Update(key, value) => {
            let before = model.get_mut(&key).map(|v| std::mem::replace(v, value));
            assert_eq!(map.update(key, value), before, "{key}");
        }
        Op::CompareAndSet(key, hit, new) => {
            let now = model.get(&key).copied();
            let expected = now.unwrap_or(7).wrapping_add(u64::from(!hit));
            let outcome = if hit && now.is_some() {
                model.insert(key, new);
                Ok(())
            } else {
                Err(now)
            };
            assert_eq!(map.compare_and_set(key, expected, new), outcome, "{key}");
        }
        Op::Remove(key) => assert_eq!(map.remove(key), model.remove(&key), "{key}"),
        Op::Get(key) => assert_eq!(map.get(key), model.get(&key).copied(), "{key}"),
        Op::GetMany(ref keys) => {
            let mut values = vec![Some(1); keys.len()];
            map.get_many(keys, &mut values);
            let expected = keys.iter().map(|key| model.get(key).copied());
            assert_eq!(values, expected.collect::<Vec<_>>(), "{keys:?}");
        }
        Op::Range(bounds, ref turns) => range(map, model, bounds, turns),
        Op::Scan(from, limit) => scan(map, model, from, limit),
        Op::BulkLoad(from, count, gap) => {
            let keys = (0..count).map_while(|step| from.checked_add(step * gap));
            let records: Vec<_> = keys.map(|key| (key, key ^ gap)).collect();
            assert_eq!(map.bulk_load(records.iter().copied()), Ok(records.len()));
            model.extend(records);
        }
        Op::RemoveRun(from, count) => {
            for key in (0..count).map_while(|step| from.checked_add(step)) {
                assert_eq!(map.remove(key), model.remove(&key), "{key}");
            }
        }
        Op::Clear => {
            map.clear();
            model.clear();
        }
        Op::Promote(key) => {
            map.placed().promote_path(T::leaf_of(key).key);
        }
        Op::Demote(key, height) => {
            let (leaf, placed) = (T::leaf_of(key), map.placed());
            placed.demote(&names::above(&*placed, leaf, height));
        }
        Op::DemoteSubtree(key, height) => {
            let (leaf, placed) = (T::leaf_of(key), map.placed());
            placed.demote_subtree(&names::above(&*placed, leaf, height));
        }
        Op::Reclaim => epoch::pin().flush(),
    }
}

/// Fast memory for about a third of the nodes that a list of operations makes.
fn make<T: TestMap>(make: placing::Make, seed: u64) -> (T, Placing) {
    placing::map(make, seed, 2 * rooms::CHUNK, rooms::AMPLE)
}

pub fn agrees_with_a_sorted_map<T: TestMap>() {
    let seed = seed();
    for &placing in placing::ALL {
        let config = Config {
            cases: 100,
            max_shrink_iters: 2_000,
            failure_persistence: None,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let outcome = runner.run(&vec(ops(), 1..700), |ops| {
            let (map, placing) = make::<T>(placing, seed);
            let mut model = BTreeMap::new();
            for op in &ops {
                apply(&map, &mut model, op);
            }
            check::at_rest(&map, &model, &placing);
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    }
}

/// Longer than what can be shrunk, with the tree growing and shrinking in waves.
pub fn agrees_over_a_long_run<T: TestMap>() {
    const KEYS: u64 = 3_000;
    let seed = seed();
    for &placing in placing::ALL {
        let (map, placing) = make::<T>(placing, seed);
        let (mut draw, mut model) = (Draw::new(seed, 1), BTreeMap::new());
        for step in 0..60_000u64 {
            let growing = step / 4_000 % 2 == 0;
            let key = draw.below(KEYS).wrapping_sub(KEYS / 2);
            if draw.once_in(if growing { 4 } else { 8 }) == growing {
                apply(&map, &mut model, &Op::Remove(key));
            } else {
                apply(&map, &mut model, &Op::Insert(key, step));
            }
            migrator::step(&map, &mut draw, u64::MAX);
            if step % 1_000 == 0 {
                check::at_rest(&map, &model, &placing);
            }
        }
        check::at_rest(&map, &model, &placing);
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}
