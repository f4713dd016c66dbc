//! The B+tree under the shared suite, at several node sizes, and what only a B+tree has to show.

#[macro_use]
mod suite;
#[path = "suite/btree_of_strings.rs"]
mod btree_of_strings;
#[path = "suite/btree_of_words.rs"]
mod btree_of_words;
#[path = "suite/values/mod.rs"]
mod values;

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use btree_of_words::{Map, NODE_128};
use suite::draw::{Draw, seed};
use suite::map::as_model;
use suite::{arenas, check, effort, placing};
use timberline_placement::Placed;
use timberline_research::Interleave;
use timberline_tier::Native;
use timberline_tree::btree::{NODE_1K, NODE_256};
use timberline_tree::{BTree, Range};
use values::value_suite_for;

suite_for!(tiny: Map<NODE_128>);
suite_for!(usual: Map<NODE_1K>);

/// A size between these, for what goes on inside of nodes. What threads do to one another is the
/// same at any size.
mod small {
    use super::*;
    suite_for! { @ Map<NODE_256>:
        model::agrees_with_a_sorted_map,
        model::agrees_over_a_long_run,
        scans::standing_records_are_seen_once_in_order,
        linear::histories_are_linearizable_while_nodes_move,
        faults::a_failed_allocation_fails_an_insert_or_nothing,
        full::a_full_slow_tier_refuses_inserts_only,
        reclaim::churn_gives_everything_back,
        bulk::a_bulk_load_is_a_run_of_inserts,
        bulk::many_lookups_are_as_many_gets,
    }
}

value_suite_for!(strings_tiny: BTree<u64, Vec<u8>, Native, NODE_128>);
value_suite_for!(strings_usual: BTree<u64, Vec<u8>, Native, NODE_1K>);

fn typed<K: timberline_tree::Key, V: timberline_tree::Value>() -> BTree<K, V, Native, NODE_128> {
    let arenas = arenas::two(2 * arenas::CHUNK, arenas::AMPLE);
    BTree::in_memory(Native(arenas), placing::shuffle(1).placement).unwrap()
}

#[test]
fn maps_and_scans_go_to_other_threads() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<BTree<u64, u64>>();
    crosses_threads::<BTree<i8, f64, Native, NODE_128>>();
    crosses_threads::<Range<u64, u64, Native, NODE_1K>>();
    crosses_threads::<Arc<dyn Placed>>();
}

#[test]
fn signed_keys_are_ordered_as_numbers() {
    let map = typed::<i64, i32>();
    let keys = [i64::MIN, -1_000, -1, 0, 1, 77, i64::MAX];
    for (index, &key) in keys.iter().enumerate().rev() {
        map.insert(&key, -(index as i32)).unwrap();
    }
    assert!(map.iter().map(|(key, _)| key).eq(keys));
    let negative: Vec<_> = map.range(..0).collect();
    assert_eq!(negative, [(i64::MIN, 0), (-1_000, -1), (-1, -2)]);
    assert_eq!(map.range(i64::MAX..).count(), 1);
    let after = (Bound::Excluded(i64::MAX), Bound::Unbounded);
    assert_eq!(map.range(after).count(), 0);
}

#[test]
fn ends_are_seen_and_taken() {
    let map = typed::<i16, u8>();
    assert_eq!((map.first_key_value(), map.last_key_value()), (None, None));
    assert_eq!((map.pop_first(), map.pop_last()), (None, None));
    for key in -50..50 {
        map.insert(&key, 7).unwrap();
    }
    assert_eq!(
        (map.first_key_value(), map.last_key_value()),
        (Some((-50, 7)), Some((49, 7)))
    );
    for step in 0..50 {
        assert_eq!(map.pop_first(), Some((step - 50, 7)));
        assert_eq!(map.pop_last(), Some((49 - step, 7)));
    }
    assert!(map.is_empty());
}

#[test]
fn a_range_goes_on_where_it_is_told() {
    let map = typed::<u64, u64>();
    map.bulk_load((0..1_000).map(|key| (2 * key, key))).unwrap();
    let mut range = map.range(10..1_500);
    assert_eq!(range.next(), Some((10, 5)));
    range.seek(&13);
    assert_eq!(range.next(), Some((14, 7)));
    range.seek(&3);
    assert_eq!(range.next(), Some((16, 8)), "never back");
    assert_eq!(range.next_back(), Some((1_498, 749)));
    range.seek(&1_400);
    assert_eq!(range.next(), Some((1_400, 700)));
    assert_eq!(range.by_ref().take(40).count(), 40);
    assert_eq!(range.next(), Some((1_482, 741)));
    range.seek(&1_499);
    assert_eq!((range.next(), range.next_back()), (None, None));
}

#[test]
fn increments_are_lost_in_no_race() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 50;
    const ROUNDS: u64 = 500;
    let map = typed::<u64, u64>();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for step in 0..KEYS * ROUNDS {
                    let after = map.upsert_with(&(step % KEYS), |now| now.unwrap_or(0) + 1);
                    assert!((1..=THREADS * ROUNDS).contains(&after.unwrap()));
                }
            });
        }
    });
    assert!(map.iter().eq((0..KEYS).map(|key| (key, THREADS * ROUNDS))));
    assert_eq!(
        map.modify(&3, |now| (now > 5).then_some(1)),
        Some(THREADS * ROUNDS)
    );
    assert_eq!(map.modify(&3, |now| (now > 5).then_some(2)), Some(1));
    assert_eq!(
        (map.get(&3), map.modify(&KEYS, |_| Some(0))),
        (Some(1), None)
    );
}

#[test]
fn every_byte_is_a_key() {
    let map = typed::<u8, f64>();
    let keys = 0..=u8::MAX;
    assert_eq!(
        map.bulk_load(keys.clone().map(|key| (key, f64::from(key) / 2.0))),
        Ok(256)
    );
    assert!(map.iter().rev().map(|(key, _)| key).eq(keys.rev()));
    assert_eq!(map.range(250..).count(), 6);
    assert_eq!(
        map.range((Bound::Excluded(254), Bound::Included(255)))
            .count(),
        1
    );
    assert_eq!(
        (map.remove(&255), map.get(&255), map.len()),
        (Some(127.5), None, 255)
    );
}

#[test]
fn ascending_loads_leave_full_leaves() {
    const RECORDS: usize = 62 * 100;
    for by_insert in [false, true] {
        let arenas = arenas::two(0, arenas::AMPLE);
        let map: Map<NODE_1K> =
            BTree::in_memory(Native(arenas), placing::all_slow(0).placement).unwrap();
        let records = (0..RECORDS as u64).map(|key| (key, key));
        if by_insert {
            for (key, value) in records {
                map.insert(&key, value).unwrap();
            }
        } else {
            assert_eq!(map.bulk_load(records), Ok(RECORDS));
        }
        let stats = map.stats();
        assert_eq!(stats.levels.last().unwrap().slow, RECORDS / 62, "{stats:?}");
        let per_record = check::in_nodes(&map) as f64 / RECORDS as f64;
        assert!(per_record < 17.1, "{per_record} bytes a record");
    }
}

/// Leaves share with neighbours whatever their tiers.
#[test]
fn a_map_in_two_tiers_has_no_more_leaves_than_in_one() {
    let leaves = |fast: f64| {
        let placement = Arc::new(Interleave::new(fast));
        let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
        let map: Map<NODE_1K> = BTree::in_memory(Native(arenas), placement).unwrap();
        for n in 0..40_000u64 {
            map.insert(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n)
                .unwrap();
        }
        let leaves = map.stats().leaves;
        (leaves.fast as f64, leaves.slow as f64)
    };
    let (all, none) = leaves(1.0);
    let (fast, slow) = leaves(0.5);
    assert!(none == 0.0 && fast > 0.4 * all && slow > 0.4 * all);
    assert!(fast + slow < 1.02 * all, "{fast} and {slow}, not {all}");
}

/// Ascending input leaves the fewest children behind: the height must stay logarithmic all the
/// same.
#[test]
fn the_smallest_nodes_make_no_tower() {
    let map = typed::<u64, u64>();
    for key in 0..20_000 {
        map.insert(&key, key).unwrap();
    }
    let levels = map.placed().levels();
    assert!(levels <= 8, "{levels} levels");
}

/// Where in a leaf a key is, is guessed as if keys were spread evenly. These are not, in every way
/// that a leaf can be.
#[test]
fn keys_that_are_not_where_they_are_expected_are_found() {
    let sets: [fn(u64) -> u64; 5] = [
        |i| i,
        |i| i * i * i * i,
        |i| u64::MAX - i * i * i * i,
        // Clusters, far from one another, of which a leaf has a few.
        |i| (i / 25) << 40 | (i % 25),
        // Each leaf's keys at its lower end, but one.
        |i| {
            (i / 60) << 32
                | if i % 60 == 59 {
                    u32::MAX.into()
                } else {
                    i % 60
                }
        },
    ];
    for (number, key) in sets.into_iter().enumerate() {
        let arenas = arenas::two(0, arenas::AMPLE);
        let map: Map<NODE_1K> =
            BTree::in_memory(Native(arenas), placing::all_slow(0).placement).unwrap();
        const RECORDS: u64 = 4_000;
        // Every seventh comes early, so that leaves are split and shared.
        for i in (0..RECORDS).step_by(7).chain(0..RECORDS) {
            map.insert(&key(i), i).unwrap();
        }
        let keys: Vec<u64> = (0..RECORDS)
            .map(key)
            .flat_map(|key| [key.saturating_sub(1), key, key.saturating_add(1)])
            .collect();
        let model = as_model((0..RECORDS).map(|i| (key(i), i)));
        let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
        let singly: Vec<_> = keys.iter().map(|&key| map.get(&key)).collect();
        assert!(singly == expected, "set {number}");
        let mut together = vec![None; keys.len()];
        map.get_many(&keys, &mut together);
        assert!(together == expected, "set {number}");
        assert!(map.iter().eq(model), "set {number}");
        for i in (0..RECORDS).step_by(3) {
            assert_eq!(map.update(&key(i), !i), Some(i), "set {number}");
            assert_eq!(map.remove(&key(i)), Some(!i), "set {number}");
        }
    }
}

/// On plain memory, keys are looked up in groups: of any length, filled in part, exactly, and many
/// times over; in maps of one leaf, of two levels and of three.
#[test]
fn many_keys_are_found_in_their_order_at_any_depth() {
    for records in [0, 40, 2_000, 60_000] {
        let map: BTree<u64, u64> = BTree::new();
        for key in 0..records {
            map.insert(&(3 * key), key).unwrap();
        }
        for depth in [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, usize::MAX] {
            for count in [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 129, 500] {
                let key = |index: u64| index.wrapping_mul(0x9e37_79b9) % (3 * records + 1);
                let keys: Vec<u64> = (0..count).map(key).collect();
                let mut values = vec![Some(u64::MAX); keys.len()];
                map.get_many_deep(&keys, &mut values, depth);
                for (key, value) in keys.iter().zip(values) {
                    let is_there = key.is_multiple_of(3) && key / 3 < records;
                    assert_eq!(value, is_there.then_some(key / 3), "{key} at depth {depth}");
                }
            }
        }
    }
}

/// Between two steps of a group, leaves and inner nodes on its way are split, merged and replaced.
#[test]
fn many_keys_are_found_while_leaves_split_and_merge() {
    const STAY: u64 = 8_000;
    const APART: u64 = 16;
    let map: BTree<u64, u64> = (0..STAY).map(|key| (key * APART, key)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..effort::times(3) {
                let between = (0..STAY * APART).filter(|key| key % APART != 0);
                for key in between.clone() {
                    map.insert(&key, round).unwrap();
                }
                for key in between {
                    assert_eq!(map.remove(&key), Some(round));
                }
            }
            done.store(true, Relaxed);
        });
        let mut draw = Draw::new(seed(), 0);
        let mut values = [None; 64];
        loop {
            let last = done.load(Relaxed);
            let ids: Vec<u64> = values.iter().map(|_| draw.below(STAY)).collect();
            let keys: Vec<u64> = ids.iter().map(|id| id * APART).collect();
            map.get_many(&keys, &mut values);
            assert!(ids.iter().map(|id| Some(*id)).eq(values), "{keys:?}");
            if last {
                return;
            }
        }
    });
}
