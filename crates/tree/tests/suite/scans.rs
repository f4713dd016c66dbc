//! Scans beside splits, merges and moves: a record that is there throughout is seen exactly once,
//! in order.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_placement::KeyBytes;

use super::draw::{Draw, seed};
use super::{TestMap, arenas, check, effort, migrator, names, placing};

/// One record in `APART` stands; those between come and go.
const APART: u64 = 4;
const KEYS: u64 = 2_000;
const ROUNDS: u64 = effort::times(100);

fn value(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// These keys are in order, and those that stand are all of `first..=last`.
fn complete(seen: &[(u64, u64)], first: u64, last: u64, how: &str) {
    assert!(seen.is_sorted_by(|one, two| one.0 < two.0), "{how}: order");
    for &(key, found) in seen {
        assert!((first..=last).contains(&key), "{how}: {key} is outside");
        assert_eq!(found, value(key), "{how}: value of {key}");
    }
    let standing = seen
        .iter()
        .map(|&(key, _)| key)
        .filter(|key| key % APART == 0);
    let expected = (first..=last).filter(|key| key % APART == 0);
    assert!(standing.eq(expected), "{how}: {first}..={last}");
}

fn scan_all_ways(map: &impl TestMap, draw: &mut Draw) {
    let last = KEYS - 1;
    complete(&map.all().collect::<Vec<_>>(), 0, last, "forward");

    let mut seen: Vec<_> = map.all().rev().collect();
    seen.reverse();
    complete(&seen, 0, last, "backward");

    let (one, two) = (draw.below(KEYS), draw.below(KEYS));
    let (from, to) = (one.min(two), one.max(two));
    let mut range = map.range((Bound::Included(from), Bound::Included(to)));
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let next = if draw.once_in(2) {
            range.next().inspect(|&it| front.push(it))
        } else {
            range.next_back().inspect(|&it| back.push(it))
        };
        if next.is_none() {
            break;
        }
    }
    front.extend(back.into_iter().rev());
    complete(&front, from, to, "from both ends");

    let mut seen = Vec::new();
    map.scan(from, usize::MAX, |key, value| {
        seen.push((key, value));
        ControlFlow::Continue(())
    });
    complete(&seen, from, last, "scanned");
}

/// Fills and empties runs of keys between the standing ones, so that leaves split and merge.
fn churn(map: &impl TestMap, mut draw: Draw, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let (from, filling) = (draw.below(KEYS), draw.once_in(2));
        for key in (from..KEYS.min(from + 200)).filter(|key| key % APART != 0) {
            if filling {
                let insert = || map.insert(key, value(key)).is_ok();
                if !insert() {
                    // Scans, and other tests, hold back what was removed.
                    check::reclaim_until(&*map.placed(), "room", insert);
                }
            } else {
                map.remove(key);
            }
        }
    }
}

pub fn standing_records_are_seen_once_in_order<T: TestMap>() {
    let seed = seed();
    for &make in placing::FOR_THREADS {
        let (map, placing) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
        for key in (0..KEYS).step_by(APART as usize) {
            map.insert(key, value(key)).unwrap();
        }
        let moving = Draw::new(seed, 99);
        migrator::beside(&map, moving, KEYS, || {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let churning = scope.spawn(|| churn(&map, Draw::new(seed, 98), &stop));
                let scanning: Vec<_> = (0..2)
                    .map(|thread| {
                        let (map, mut draw) = (&map, Draw::new(seed, thread));
                        scope.spawn(move || {
                            for _ in 0..ROUNDS {
                                scan_all_ways(map, &mut draw);
                            }
                        })
                    })
                    .collect();
                let ended: Vec<_> = scanning.into_iter().map(|it| it.join()).collect();
                stop.store(true, Relaxed);
                churning.join().unwrap();
                assert!(ended.iter().all(Result::is_ok), "a scan went wrong");
            });
        });
        check::moved_both_ways(&map);
        check::structure(&map, &placing);
        check::within_budget(&map);
        check::comes_back(&map);
    }
}

/// A placement's sweep over the leaves misses none because it just moved.
pub fn each_leaf_that_only_moves_is_seen<T: TestMap>() {
    let seed = seed();
    let arenas = arenas::two(8 * arenas::CHUNK, arenas::AMPLE);
    let map = T::make(arenas, placing::shuffle(seed).placement).unwrap();
    map.bulk_load((0..KEYS).map(|key| (key, key))).unwrap();
    let placed = map.placed();
    let fences = || names::fences(&*placed);
    let expected: BTreeSet<KeyBytes> = fences().into_iter().collect();
    migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
        for round in 0..effort::times(500) {
            let seen = fences();
            assert!(seen.len() <= 2 * expected.len(), "seen once or twice");
            let seen: BTreeSet<KeyBytes> = seen.into_iter().collect();
            assert!(
                seen == expected,
                "round {round}: {:?} missed",
                &expected - &seen
            );
        }
    });
}
