//! Threads on the same keys: nothing that one of them did is lost or happens twice.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::draw::{Draw, seed};
use super::map::as_model;
use super::{TestMap, arenas, check, effort, migrator, placing, threads};

const THREADS: u64 = 3;

/// Counters far enough apart that records which come and go in between split and merge their
/// leaves.
pub fn no_increment_is_lost<T: TestMap>() {
    const COUNTERS: u64 = 24;
    const APART: u64 = 20;
    const ROUNDS: u64 = effort::times(300);
    let seed = seed();
    for &make in placing::FOR_THREADS {
        let (map, placing) = placing::map::<T>(make, seed, 2 * arenas::CHUNK, arenas::AMPLE);
        for counter in 0..COUNTERS {
            map.insert(counter * APART, 0).unwrap();
        }
        let increment = |key| {
            let mut now = map.get(key).expect("counters stay");
            while let Err(other) = map.compare_and_set(key, now, now + 1) {
                now = other.expect("counters stay");
            }
        };
        let moving = Draw::new(seed, 99);
        migrator::beside(&map, moving, COUNTERS * APART, || {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let churn = scope.spawn(|| {
                    let mut draw = Draw::new(seed, 98);
                    while !done.load(Relaxed) {
                        let between = 1 + draw.below(APART - 1);
                        let key = draw.below(COUNTERS) * APART + between;
                        if draw.once_in(2) {
                            map.insert(key, 0).unwrap();
                        } else {
                            map.remove(key);
                        }
                    }
                });
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(|| {
                            for step in 0..ROUNDS * COUNTERS {
                                increment(step % COUNTERS * APART);
                            }
                        })
                    })
                    .collect();
                let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
                done.store(true, Relaxed);
                churn.join().unwrap();
                assert!(ended.iter().all(Result::is_ok), "a thread panicked");
            });
        });
        for counter in 0..COUNTERS {
            assert_eq!(
                map.get(counter * APART),
                Some(THREADS * ROUNDS),
                "{counter}"
            );
        }
        check::moved_both_ways(&map);
        check::structure(&map, &placing);
        check::within_budget(&map);
    }
}

/// Values that a thread put in, and values that came out to it, each with its key.
type Ledger = (Vec<(u64, u64)>, Vec<(u64, u64)>);

const SHARED: u64 = 60;
const STEPS: u64 = effort::times(30_000);

fn exchange(map: &impl TestMap, thread: u64) -> Ledger {
    let mut draw = Draw::new(seed(), thread);
    let (mut put, mut out) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let (key, value) = (draw.below(SHARED), thread * STEPS + step);
        let before = match draw.below(5) {
            0 | 1 => {
                put.push((key, value));
                map.insert(key, value).unwrap()
            }
            2 | 3 => map.remove(key),
            _ => {
                let before = map.update(key, value);
                // The update of an absent record puts nothing in.
                put.extend(before.map(|_| (key, value)));
                before
            }
        };
        out.extend(before.map(|value| (key, value)));
    }
    (put, out)
}

/// Every value put in comes out once: replaced, removed, or still there at the end.
pub fn every_value_comes_out_once<T: TestMap>() {
    let seed = seed();
    for &make in placing::FOR_THREADS {
        let (map, placing) = placing::map::<T>(make, seed, arenas::CHUNK, arenas::AMPLE);
        let moving = Draw::new(seed, 99);
        let ledgers = migrator::beside(&map, moving, SHARED, || {
            threads::each(THREADS, &|thread| exchange(&map, thread))
        });
        let (mut put, mut out) = (Vec::new(), Vec::new());
        for (more_put, more_out) in ledgers {
            put.extend(more_put);
            out.extend(more_out);
        }
        out.extend(map.all());
        put.sort_unstable();
        out.sort_unstable();
        assert!(put == out, "{} values in, {} out", put.len(), out.len());
        let model = as_model(map.all());
        check::at_rest(&map, &model, &placing);
        check::comes_back(&map);
    }
}
