//! Threads that share no key share every node: the final content is exactly what each of them did.

use std::collections::BTreeMap;

use super::draw::{Draw, seed};
use super::map::as_model;
use super::{TestMap, arenas, check, effort, migrator, placing, threads};

const THREADS: u64 = 3;
const KEYS: u64 = 2_000;
const STEPS: u64 = effort::times(40_000);
const WAVES: u64 = effort::times(8).next_multiple_of(2);

/// Random operations on the keys that are `thread` modulo [`THREADS`], checked against a model.
fn work(map: &impl TestMap, thread: u64, mut draw: Draw) -> BTreeMap<u64, u64> {
    let mut model = BTreeMap::new();
    for step in 0..STEPS {
        let key = draw.below(KEYS / THREADS) * THREADS + thread;
        let value = draw.word();
        // Waves of growth and shrinkage.
        let removing = 2 + 4 * (step * WAVES / STEPS % 2);
        match draw.below(10) {
            n if n < removing => assert_eq!(map.remove(key), model.remove(&key), "{key}"),
            8 => {
                let before = model.get_mut(&key).map(|v| std::mem::replace(v, value));
                assert_eq!(map.update(key, value), before, "{key}");
            }
            9 => assert_eq!(map.get(key), model.get(&key).copied(), "{key}"),
            _ => assert_eq!(
                map.insert(key, value),
                Ok(model.insert(key, value)),
                "{key}"
            ),
        }
    }
    model
}

pub fn threads_with_their_own_keys_lose_nothing<T: TestMap>() {
    let seed = seed();
    for &make in placing::FOR_THREADS {
        let (map, placing) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
        let moving = Draw::new(seed, 99);
        let model = migrator::beside(&map, moving, KEYS, || {
            let work = |thread| work(&map, thread, Draw::new(seed, thread));
            as_model(threads::each(THREADS, &work).into_iter().flatten())
        });
        check::moved_both_ways(&map);
        check::at_rest(&map, &model, &placing);
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}
