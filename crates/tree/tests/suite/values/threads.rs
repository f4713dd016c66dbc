//! Threads that replace and read strings while these move.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::{ValueMap, is_of_one_piece, make, string};
use crate::suite::draw::{Draw, seed};
use crate::suite::{arenas, check, effort, migrator};

/// Writers replace strings by those of other lengths, while they move: the thread that reads one
/// reads all of it.
pub fn no_reader_sees_half_a_string<T: ValueMap>() {
    const KEYS: u64 = 40;
    let seed = seed();
    // Other tests hold the epoch back, so there is room for everything that is ever written.
    let (map, _) = make::<T>(32 * arenas::CHUNK, 8 * arenas::AMPLE);
    let strings = &map.0;
    for key in 0..KEYS {
        strings.insert(key, &string(key as usize)).unwrap();
    }
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut draw = Draw::new(seed, thread);
                        for _ in 0..effort::times(4_000) {
                            let most = [9, 300, 5_000][draw.below(3) as usize];
                            let value = string(draw.below(most) as usize);
                            let key = draw.below(KEYS);
                            let before = strings.insert(key, &value).unwrap();
                            assert!(before.is_some_and(|before| is_of_one_piece(&before)));
                        }
                    })
                })
                .collect();
            let (done, reads) = (&done, &reads);
            scope.spawn(move || {
                let mut draw = Draw::new(seed, 9);
                let keys: Vec<u64> = (0..KEYS).collect();
                while !done.load(Relaxed) {
                    let key = draw.below(KEYS);
                    assert_eq!(strings.get_with(key, is_of_one_piece), Some(true));
                    reads.fetch_add(1, Relaxed);
                    if !draw.once_in(50) {
                        continue;
                    }
                    let mut values = vec![None; keys.len()];
                    strings.get_many(&keys, &mut values);
                    assert!(values.iter().flatten().all(|value| is_of_one_piece(value)));
                    let scanned = strings.scan(key, 10, |_, value| {
                        assert!(is_of_one_piece(value));
                        ControlFlow::Continue(())
                    });
                    assert_eq!(scanned as u64, (KEYS - key).min(10));
                    let range = (Bound::Included(key), Bound::Unbounded);
                    assert!(
                        strings
                            .range(range)
                            .all(|(_, value)| is_of_one_piece(&value))
                    );
                }
            });
            let ended: Vec<_> = writers.into_iter().map(|it| it.join()).collect();
            done.store(true, Relaxed);
            assert!(ended.iter().all(Result::is_ok), "a writer panicked");
        });
    });
    assert!(reads.load(Relaxed) > 0);
    check::moved_both_ways(&map);
    check::within_budget(&map);
    check::nothing_leaked(&map);
}

/// Strings that threads make longer by one, each from what is there, lose no byte.
pub fn a_closure_sees_what_it_replaces<T: ValueMap>() {
    const KEYS: u64 = 10;
    const ROUNDS: u64 = effort::times(300);
    let seed = seed();
    let (map, _) = make::<T>(32 * arenas::CHUNK, arenas::AMPLE);
    let strings = &map.0;
    migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                scope.spawn(move || {
                    for step in 0..ROUNDS * KEYS {
                        let longer = |now: &[u8]| [now, &[thread]].concat();
                        let key = step % KEYS;
                        let after = strings.upsert_with(key, |now| longer(now.unwrap_or(&[])));
                        assert_eq!(after.unwrap().last(), Some(&thread));
                    }
                });
            }
        });
    });
    for key in 0..KEYS {
        let value = strings.get(key).unwrap();
        for thread in 0..3u8 {
            let times = value.iter().filter(|byte| **byte == thread).count();
            assert_eq!(times as u64, ROUNDS, "{key}");
        }
    }
    check::nothing_leaked(&map);
    check::comes_back(&map);
}
