//! Allocations that fail.

use timberline_tier::TierId;

use super::encoded::encode;
use super::{ValueMap, make};
use crate::suite::map::{as_model, full};
use crate::suite::{TestMap, arenas, check};

/// Whichever allocation of an operation fails: it fails, or does what it does, and the map is as it
/// was before, or as it should be afterwards.
pub fn a_failed_allocation_changes_nothing<T: ValueMap>() {
    const RECORDS: u64 = 120;
    let (map, placing) = make::<T>(arenas::AMPLE, arenas::AMPLE);
    let strings = &map.0;
    let mut model = as_model((0..RECORDS).map(|key| (key * 8, key)));
    for (&key, &value) in &model {
        map.insert(key, value).unwrap();
    }
    let mut failures = [0; 5];
    for round in 0..300 {
        // Of every two keys one is new.
        let key = round * 7 % RECORDS * 8 + round % 2 * (1 + round % 7);
        let (value, nth) = (1_000 + round, 1 + round % 3);
        // What waits for the epoch would be used instead.
        check::nothing_leaked(&map);
        let present = model.contains_key(&key);
        map.arenas().fail_nth(TierId::SLOW, nth);
        map.arenas().fail_nth(TierId::FAST, nth);
        let new = encode(value);
        let operation = round as usize % 5;
        let done = match operation {
            0 => strings.insert(key, &new).map(|_| true),
            1 => strings.update(key, &new).map(|before| before.is_some()),
            2 => strings.upsert_with(key, |_| new.clone()).map(|_| true),
            3 => strings
                .modify(key, |_| Some(new.clone()))
                .map(|before| before.is_some()),
            _ => {
                let now = model.get(&key).map_or(Vec::new(), |now| encode(*now));
                let set = strings.compare_and_set(key, &now, &new);
                set.map(|set| set.is_ok())
            }
        };
        map.arenas().fail_nth(TierId::SLOW, 0);
        map.arenas().fail_nth(TierId::FAST, 0);
        match done {
            Ok(true) => {
                model.insert(key, value);
            }
            Ok(false) => assert!(!present),
            Err(error) => {
                assert_eq!(full(error).tier, TierId::SLOW);
                failures[operation] += 1;
            }
        }
        assert_eq!(map.get(key), model.get(&key).copied());
    }
    assert!(failures.iter().all(|failed| *failed > 0), "{failures:?}");
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}
