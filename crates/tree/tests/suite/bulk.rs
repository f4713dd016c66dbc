//! Many records at once.

use std::collections::BTreeMap;

use timberline_tree::Error;

use super::draw::{Draw, seed};
use super::map::as_model;
use super::{TestMap, arenas, check, placing};

fn make<T: TestMap>() -> (T, placing::Placing) {
    let placing = placing::shuffle(seed());
    let arenas = arenas::two(8 * arenas::CHUNK, arenas::AMPLE);
    (T::make(arenas, placing.placement.clone()).unwrap(), placing)
}

pub fn a_bulk_load_is_a_run_of_inserts<T: TestMap>() {
    let (map, placing) = make::<T>();
    let mut model = BTreeMap::new();
    assert_eq!(map.bulk_load([]), Ok(0));
    check::same(&map, &model);
    // Into nothing; behind everything; in front of it; in between, partly replacing; the extremes.
    let loads: [Vec<(u64, u64)>; 5] = [
        (1_000..2_000).map(|key| (key, 1)).collect(),
        (3_000..4_000).map(|key| (key, 2)).collect(),
        (10..500).map(|key| (key, 3)).collect(),
        (400..3_500).step_by(3).map(|key| (key, 4)).collect(),
        vec![(0, 5), (u64::MAX, 5)],
    ];
    for load in loads {
        assert_eq!(map.bulk_load(load.iter().copied()), Ok(load.len()));
        model.extend(load);
        check::at_rest(&map, &model, &placing);
    }
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

pub fn an_unsorted_bulk_load_says_where<T: TestMap>() {
    for (keys, wrong) in [
        (vec![1, 2, 2], 2),
        (vec![5, 4], 1),
        (vec![0, 0], 1),
        (vec![u64::MAX, 0], 1),
        ((0..100).chain([50]).collect(), 100),
    ] {
        let (map, placing) = make::<T>();
        let outcome = map.bulk_load(keys.iter().map(|&key| (key, 1)));
        assert_eq!(outcome, Err(Error::Unsorted.at(wrong)), "{keys:?}");
        let line = outcome.unwrap_err().to_string();
        assert!(
            line.contains(&wrong.to_string()) && !line.contains('\n'),
            "{line}"
        );
        let model = keys[..wrong].iter().map(|&key| (key, 1)).collect();
        check::at_rest(&map, &model, &placing);
    }
}

/// The input is pulled while no lock is held: it may come out of the map that it goes into.
pub fn a_bulk_load_may_read_its_own_map<T: TestMap>() {
    let (map, placing) = make::<T>();
    let mut model = as_model((0..200).map(|key| (key, key)));
    map.bulk_load(model.clone()).unwrap();
    let doubled = |key| (key, 2 * map.get(key).unwrap());
    assert_eq!(map.bulk_load((0..200).map(doubled)), Ok(200));
    model.values_mut().for_each(|value| *value *= 2);
    check::at_rest(&map, &model, &placing);
}

pub fn many_lookups_are_as_many_gets<T: TestMap>() {
    let (map, _) = make::<T>();
    let mut draw = Draw::new(seed(), 0);
    for _ in 0..2 {
        for count in (0..70).chain([1_000]) {
            // Half are absent, and many come twice.
            let keys: Vec<u64> = (0..count).map(|_| draw.below(800)).collect();
            let mut values = vec![Some(9); keys.len()];
            map.get_many(&keys, &mut values);
            let singly: Vec<_> = keys.iter().map(|&key| map.get(key)).collect();
            assert_eq!(values, singly, "{keys:?}");
        }
        map.bulk_load((0..800).step_by(2).map(|key| (key, !key)))
            .unwrap();
    }
    let lengths = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.get_many(&[1], &mut []);
    }));
    assert!(lengths.is_err(), "a value for each key");
}
