//! Any sequence of operations does to a map what it does to the standard library's.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::draw::{Draw, seed};
use super::ops::{Op, apply};
use super::placing::{self, Placing};
use super::{TestMap, arenas, check, migrator};

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
        2 => Just(Op::PopFirst),
        2 => Just(Op::PopLast),
        1 => Just(Op::Clear),
        12 => keys().prop_map(Op::Promote),
        8 => (keys(), 0..5u8).prop_map(|(k, h)| Op::Demote(k, h)),
        4 => (keys(), 0..5u8).prop_map(|(k, h)| Op::DemoteSubtree(k, h)),
        8 => (keys(), any::<u8>(), any::<u64>()).prop_map(|(k, ask, choice)| Op::Ask(k, ask, choice)),
        2 => Just(Op::Reclaim),
    ]
}

/// Fast memory for about a third of the nodes that a list of operations makes.
fn make<T: TestMap>(make: placing::Make, seed: u64) -> (T, Placing) {
    placing::map(make, seed, 2 * arenas::CHUNK, arenas::AMPLE)
}

pub fn agrees_with_a_sorted_map<T: TestMap>() {
    let seed = seed();
    for &placing in placing::ALL {
        let config = Config {
            cases: 50,
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
    const WAVE: u64 = 8_000;
    // A wave passes through what the one before did; for more there are other seeds.
    const STEPS: u64 = 3 * WAVE;
    let seed = seed();
    for &placing in placing::ALL {
        let (map, placing) = make::<T>(placing, seed);
        let (mut draw, mut model) = (Draw::new(seed, 1), BTreeMap::new());
        for step in 0..STEPS {
            let growing = step % WAVE < WAVE / 2;
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
