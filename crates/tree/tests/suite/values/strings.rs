//! Strings of any length, in one thread.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use timberline_tree::{Error, MAX_VALUE};

use super::encoded::encode;
use super::{ValueMap, is_of_one_piece, make, same, string};
use crate::suite::draw::{Draw, seed};
use crate::suite::map::as_model;
use crate::suite::{TestMap, arenas, check, effort, migrator};

const LENGTHS: [usize; 9] = [0, 1, 7, 8, 9, 1_000, 1_024, 65_535, 65_536];

pub fn strings_of_any_length_come_back<T: ValueMap>() {
    let (map, _) = make::<T>(64 * arenas::CHUNK, arenas::AMPLE);
    let strings = &map.0;
    for (key, len) in (0..).zip(LENGTHS) {
        assert_eq!(strings.insert(key, &string(len)), Ok(None));
        assert_eq!(strings.get_with(key, is_of_one_piece), Some(true), "{len}");
        assert_eq!(strings.get_with(key, <[u8]>::len), Some(len));
    }
    let mut model = as_model((0u64..).zip(LENGTHS.map(string)));
    same(strings, &model);
    let keys: Vec<u64> = (0..=LENGTHS.len() as u64).collect();
    let mut values = vec![None; keys.len()];
    strings.get_many(&keys, &mut values);
    assert!(
        values.iter().eq(keys
            .iter()
            .map(|key| strings.get(*key))
            .collect::<Vec<_>>()
            .iter())
    );
    // From each length to each other one, by every operation.
    for from in LENGTHS {
        for to in LENGTHS {
            let (one, two) = (string(from), string(to));
            let key = (from % 5) as u64;
            model.insert(key, one.clone());
            strings.insert(key, &one).unwrap();
            assert_eq!(strings.update(key, &two), Ok(Some(one.clone())));
            let set = strings.compare_and_set(key, &two, &one).unwrap();
            assert_eq!(set, Ok(()));
            if one != two {
                let set = strings.compare_and_set(key, &two, &two).unwrap();
                assert!(set == Err(Some(one.clone())));
            }
            let after = strings.upsert_with(key, |now| {
                assert!(now == Some(&one[..]));
                two.clone()
            });
            assert!(after.as_ref() == Ok(&two));
            let before = strings.modify(key, |now| (now == two).then(|| one.clone()));
            assert!(before.as_ref() == Ok(&Some(two)));
            assert!(strings.modify(key, |_| None) == Ok(Some(one)));
        }
    }
    assert_eq!(strings.update(99, b"x"), Ok(None));
    assert_eq!(strings.compare_and_set(99, b"x", b"y"), Ok(Err(None)));
    assert_eq!(strings.modify(99, |_| Some(vec![1])), Ok(None));
    same(strings, &model);
    check::nothing_leaked(&map);
    for (key, value) in model {
        assert!(strings.remove(key) == Some(value));
    }
    check::comes_back(&map);
}

pub fn too_long_is_an_error_that_names_the_limit<T: ValueMap>() {
    let (map, placing) = make::<T>(64 * arenas::CHUNK, arenas::AMPLE);
    let strings = &map.0;
    let long = string(MAX_VALUE + 1);
    for key in 0..100 {
        map.insert(key, key).unwrap();
    }
    let model = as_model((0..100).map(|key| (key, key)));
    let refused = [
        strings.insert(5, &long).unwrap_err(),
        strings.insert(500, &long).unwrap_err(),
        strings.update(5, &long).unwrap_err(),
        strings.update(5, &vec![0; 1 << 20]).unwrap_err(),
        strings.modify(5, |_| Some(long.clone())).unwrap_err(),
        strings.upsert_with(5, |_| long.clone()).unwrap_err(),
        strings.upsert_with(500, |_| long.clone()).unwrap_err(),
        strings.compare_and_set(5, &encode(5), &long).unwrap_err(),
    ];
    for error in refused {
        let line = error.to_string();
        assert!(line.contains("65536") && !line.contains('\n'), "{line}");
        assert!(matches!(error, Error::ValueTooLong(len) if len > MAX_VALUE));
    }
    let loaded = strings.bulk_load([(200, encode(200)), (201, long)]);
    assert_eq!(loaded, Err(Error::ValueTooLong(MAX_VALUE + 1).at(1)));
    assert_eq!(map.remove(200), Some(200));
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
}

pub fn long_strings_agree_with_a_sorted_map_while_they_move<T: ValueMap>() {
    const KEYS: u64 = 60;
    let seed = seed();
    // Free slots of one size are no room for another, and there are many sizes; and where other
    // tests hold the epoch back, what left fast memory stays there for long.
    let (map, _) = make::<T>(512 * arenas::CHUNK, 16 * arenas::AMPLE);
    let strings = &map.0;
    let model = migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
        let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
        for _ in 0..effort::times(3_000) {
            let key = draw.below(KEYS);
            let most = [10, 100, 3_000, 65_537][draw.below(4) as usize];
            let value = string(draw.below(most) as usize);
            match draw.below(6) {
                0 | 1 => assert!(strings.insert(key, &value).unwrap() == model.insert(key, value)),
                2 => assert!(strings.remove(key) == model.remove(&key)),
                3 => assert!(strings.get(key).as_ref() == model.get(&key)),
                4 => {
                    let before = strings.update(key, &value).unwrap();
                    assert!(before.as_ref() == model.get(&key));
                    model.entry(key).and_modify(|it| *it = value);
                }
                _ => {
                    let now = model.get(&key).cloned();
                    let half = |now: Option<&[u8]>| string(now.map_or(9, <[u8]>::len) / 2);
                    let after = strings.upsert_with(key, half).unwrap();
                    assert!(after == half(now.as_deref()));
                    model.insert(key, after);
                }
            }
        }
        model
    });
    same(strings, &model);
    check::moved_both_ways(&map);
    check::within_budget(&map);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// Strings that look like locked nodes, or like leaves, lie where placements may ask for leaves.
pub fn a_string_is_not_taken_for_a_leaf<T: ValueMap>() {
    let (map, _) = make::<T>(32 * arenas::CHUNK, arenas::AMPLE / 4);
    let strings = &map.0;
    for key in 0..200 {
        let byte = [0, 1, 3, 4, 255][key as usize % 5];
        let len = T::APART * (1 + key as usize % 3);
        strings.insert(key, &vec![byte; len]).unwrap();
    }
    let placed = map.placed();
    let mut leaves = BTreeMap::new();
    placed.each_leaf(&[], &mut |leaf| {
        leaves.insert(leaf.address, leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    let mut found = 0;
    for address in map.arenas().range().step_by(T::APART) {
        let fence = placed.fence_at(address);
        assert_eq!(fence.as_ref(), leaves.get(&address), "{address:#x}");
        found += usize::from(fence.is_some());
    }
    assert_eq!(found, leaves.len());
    check::comes_back(&map);
}
