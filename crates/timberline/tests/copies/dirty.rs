//! Copies that are newer than their leaves.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use timberline_placement::{Move, NodeKey};
use timberline_tier::Native;
use timberline_tree::BTree;
use timberline_tree::btree::NODE_1K;

use super::suite::arenas;
use super::suite::check::{eventually, reclaim_until};
use super::{Map, RECORDS, Watching, fill, get, loaded, warm};

/// How many accesses this takes to copies, and to leaves.
fn accesses(watching: &Watching, of: impl FnOnce()) -> (u64, u64) {
    let now = || [&watching.copies, &watching.leaves].map(|count| count.load(Relaxed));
    let before = now();
    of();
    let after = now();
    (after[0] - before[0], after[1] - before[1])
}

#[test]
fn changes_of_a_record_with_a_copy_need_its_leaf_once() {
    let (map, watching) = loaded();
    fill(&*map.placed());
    warm(&map, [30].into_iter());
    let change = |to: u64| accesses(&watching, || assert!(map.update(&30, to).is_some()));
    assert_eq!(change(100), (0, 1), "its copy is dirty from now on");
    for to in 101..110 {
        assert_eq!(change(to), (1, 0));
        assert_eq!(get(&map, &watching, 30), (Some(to), true));
    }
    let insert = || assert_eq!(map.insert(&30, 200), Ok(Some(109)));
    assert_eq!(accesses(&watching, insert), (1, 0));
    let add = || assert_eq!(map.upsert_with(&30, |now| now.unwrap() + 1), Ok(201));
    assert_eq!(accesses(&watching, add), (1, 0));
    let exchange = || {
        let changed = map.compare_exchange(&30, Some(201), Some(7));
        assert_eq!(changed, Ok(Ok(Some(201))));
        let refused = map.compare_exchange(&30, Some(201), Some(8));
        assert_eq!(refused, Ok(Err(Some(7))));
    };
    assert_eq!(accesses(&watching, exchange), (2, 0));
    assert_eq!(map.remove(&30), Some(7), "what the copy had");
    assert_eq!(map.get(&30), None);
}

#[test]
fn what_is_changed_again_and_again_gets_a_copy() {
    let (map, watching) = loaded();
    fill(&*map.placed());
    for key in (0..50).map(|key| 3 * key) {
        (0..8).for_each(|round| _ = map.update(&key, round).unwrap());
    }
    let copied = (0..50).filter(|&key| get(&map, &watching, 3 * key) == (Some(7), true));
    assert!(copied.count() > 40);
}

#[test]
fn a_change_that_panics_leaves_the_copy_as_it_was() {
    let (map, watching) = loaded();
    fill(&*map.placed());
    soil(&map, [30].into_iter());
    let change = || map.modify(&30, |_| panic!("as asked"));
    let panicked = catch_unwind(AssertUnwindSafe(change));
    assert!(panicked.is_err());
    assert_eq!(get(&map, &watching, 30), (Some(32), true));
    let change = || assert_eq!(map.modify(&30, |now| Some(now + 1)), Some(32));
    assert_eq!(accesses(&watching, change), (1, 0));
    assert_eq!(map.get(&30), Some(33));
}

/// Values that own something: each is dropped once, and none is read after that.
#[test]
fn values_that_own_something_are_dropped_once() {
    let arenas = arenas::two(16 * arenas::CHUNK, arenas::AMPLE);
    let watching = Arc::new(Watching::default());
    let map = BTree::<u64, Arc<u64>, Native, NODE_1K>::in_memory(Native(arenas), watching.clone());
    let map = map.unwrap();
    let values: Vec<Arc<u64>> = (0..40).map(Arc::new).collect();
    for key in 0..200 {
        map.insert(&key, &values[0]).unwrap();
    }
    let placed = map.placed();
    fill(&*placed);
    for key in 0..50 {
        (0..8).for_each(|_| assert!(map.get(&key).is_some()));
    }
    let change = || {
        for value in &values {
            (0..50).for_each(|key| _ = map.update(&key, value));
        }
    };
    let (in_copies, _) = accesses(&watching, change);
    assert!(in_copies > 1000, "{in_copies}");
    assert!((0..50).all(|key| map.get(&key).as_deref() == Some(&39)));
    assert!(map.range(..50).all(|(_, value)| *value == 39));
    change();
    assert_eq!(map.pop_first().map(|(_, value)| *value), Some(39));
    change();
    while placed.drop_record_page() {}
    assert!((1..50).all(|key| map.get(&key).as_deref() == Some(&39)));
    reclaim_until(&*placed, "a page", || placed.add_record_page());
    while placed.add_record_page() {}
    change();
    drop(placed);
    let domain = map.domain().clone();
    drop(map);
    eventually("all values are dropped", || {
        domain.collect_all();
        values.iter().all(|value| Arc::strong_count(value) == 1)
    });
}

/// Gives these records values that only their copies have.
fn soil(map: &Map, keys: impl Iterator<Item = u64> + Clone) {
    warm(map, keys.clone());
    for round in 0..3 {
        keys.clone()
            .for_each(|key| _ = map.update(&key, key + round).unwrap());
    }
}

#[test]
fn whatever_reads_a_leaf_sees_what_only_copies_have() {
    let (map, watching) = loaded();
    let placed = map.placed();
    let pages = fill(&*placed);
    let keys = || (0..60).map(|key| 3 * key);
    let expected: Vec<(u64, u64)> = keys().map(|key| (key, key + 2)).collect();
    let look = |what: &str, check: &dyn Fn()| {
        reclaim_until(&*placed, "pages", || {
            while placed.record_pages().0 < pages / 2 && placed.add_record_page() {}
            placed.record_pages().0 >= pages / 2
        });
        soil(&map, keys());
        let change = || keys().for_each(|key| _ = map.update(&key, key + 2).unwrap());
        let (dirty, _) = accesses(&watching, change);
        assert!(dirty > 20, "{what}: {dirty} dirty copies");
        check();
        for key in keys() {
            assert_eq!(map.get(&key), Some(key + 2), "after {what}");
        }
        assert!(map.iter().take(60).eq(expected.clone()), "after {what}");
    };
    look("a range", &|| {
        assert!(map.iter().take(60).eq(expected.clone()))
    });
    look("a range from its end", &|| {
        let back = expected.iter().rev().copied();
        assert!(map.range(..180).rev().eq(back));
    });
    look("a scan", &|| {
        let mut seen = Vec::new();
        map.scan(&0, 60, |key, value| {
            seen.push((key, value));
            ControlFlow::Continue(())
        });
        assert_eq!(seen, expected);
    });
    let leaf = NodeKey::of_word(30, 0);
    look("moves", &|| {
        assert!(placed.drop_record_page() && placed.drop_record_page());
        placed.reclaim();
        reclaim_until(&*placed, "room", || {
            placed.promote_node(&leaf) != Move::Full
        });
        for key in keys() {
            assert_eq!(get(&map, &watching, key).0, Some(key + 2), "promoted");
        }
        assert_eq!(placed.demote(&leaf), Move::Moved(1));
    });
    look("pages that go", &|| while placed.drop_record_page() {});
    look("splits and merges", &|| {
        (0..60).for_each(|key| _ = map.insert(&(3 * key + 1), 0).unwrap());
        (0..60).for_each(|key| assert_eq!(map.remove(&(3 * key + 1)), Some(0)));
    });
    // The first record and the last, and records whose values are compared.
    let last = 3 * (RECORDS - 1);
    soil(&map, [0, last].into_iter());
    assert_eq!(map.pop_first(), Some((0, 2)));
    assert_eq!(map.pop_last(), Some((last, last + 2)));
    soil(&map, [6].into_iter());
    assert_eq!(map.compare_exchange(&6, Some(7), None), Ok(Err(Some(8))));
    assert_eq!(map.compare_exchange(&6, Some(8), None), Ok(Ok(Some(8))));
    soil(&map, [9].into_iter());
    assert_eq!(map.bulk_load([(9, 1), (10, 2)]), Ok(2));
    assert_eq!((map.get(&9), map.get(&10)), (Some(1), Some(2)));
}

/// Lookups come to the root without having looked for a copy.
#[test]
fn the_only_leaf_has_no_dirty_copies() {
    let (map, watching) = loaded();
    fill(&*map.placed());
    soil(&map, (0..5).map(|key| 3 * key));
    for key in 5..RECORDS {
        assert!(map.remove(&(3 * key)).is_some());
    }
    assert_eq!(map.stats().levels.len(), 1);
    for (round, key) in (0..20).flat_map(|round| (0..5).map(move |key| (round, 3 * key))) {
        let before = map.get(&key);
        assert_eq!(map.update(&key, round), before);
        assert_eq!(get(&map, &watching, key), (Some(round), false));
    }
    // With others beside it, it has.
    for key in 5..RECORDS {
        map.insert(&(3 * key), !key).unwrap();
    }
    soil(&map, (0..5).map(|key| 3 * key));
    let change = || (0..5).for_each(|key| _ = map.update(&(3 * key), key).unwrap());
    assert!(accesses(&watching, change).0 > 2);
    assert!((0..5).all(|key| map.get(&(3 * key)) == Some(key)));
}

/// More hot records than a page has room for: dirty copies give way to others.
#[test]
fn dirty_copies_give_way() {
    let (map, watching) = loaded();
    let placed = map.placed();
    assert!(placed.add_record_page());
    let mut draw = 1u64;
    let mut values: Vec<u64> = (0..RECORDS).map(|key| !key).collect();
    let mut copied = 0;
    for step in 0..60_000u64 {
        draw = draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        // The hot tenth moves on.
        let key = (step / 6000 * 200 + (draw >> 33) % 200) % RECORDS;
        match draw >> 63 {
            0 => {
                let (value, is_copy) = get(&map, &watching, 3 * key);
                assert_eq!(value, Some(values[key as usize]));
                copied += usize::from(is_copy);
            }
            _ => {
                assert_eq!(map.update(&(3 * key), step), Some(values[key as usize]));
                values[key as usize] = step;
            }
        }
    }
    assert!(copied > 100, "{copied}");
    let all = values.iter().zip(0..).map(|(&value, key)| (3 * key, value));
    assert!(map.iter().eq(all));
}
