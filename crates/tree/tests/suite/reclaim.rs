//! Memory comes back: nodes that merged, moved or emptied are freed, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::draw::{Draw, seed};
use super::{TestMap, arenas, check, effort, migrator, placing, threads};

/// Threads fill and empty the map while its nodes move; then nothing but a leaf is left, although
/// nobody called `clear` on the way.
pub fn churn_gives_everything_back<T: TestMap>() {
    const KEYS: u64 = 1_500;
    let seed = seed();
    for &make in placing::FOR_THREADS {
        let (map, _) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
        migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
            threads::each(2, &|thread| {
                let mut draw = Draw::new(seed, thread);
                for _ in 0..effort::times(10) {
                    let own: Vec<u64> = (thread..KEYS).step_by(2).collect();
                    for key in draw.shuffled(own.clone()) {
                        assert_eq!(map.insert(key, !key), Ok(None));
                    }
                    for key in draw.shuffled(own) {
                        assert_eq!(map.remove(key), Some(!key));
                    }
                }
            });
        });
        assert_eq!((map.len(), map.all().next()), (0, None));
        check::nothing_leaked(&map);
        check::within_budget(&map);
        check::comes_back(&map);
    }
}

/// A window of keys slides on and on: what is used stays near what the window needs.
pub fn memory_stays_bounded_under_churn<T: TestMap>() {
    const WINDOW: u64 = 500;
    const SLIDES: u64 = 2 + effort::times(38);
    let seed = seed();
    let placing = placing::shuffle(seed);
    let arenas = arenas::two(4 * arenas::CHUNK, arenas::AMPLE);
    let map = T::make(arenas, placing.placement.clone()).unwrap();
    let mut draw = Draw::new(seed, 0);
    let mut needed = 0;
    migrator::beside(&map, Draw::new(seed, 99), WINDOW * SLIDES, || {
        for key in 0..WINDOW * SLIDES {
            map.insert(key, key).unwrap();
            if key >= WINDOW {
                assert_eq!(map.remove(key - WINDOW), Some(key - WINDOW));
            }
            if draw.once_in(8) {
                map.get(key - draw.below(WINDOW).min(key));
            }
            if key == 2 * WINDOW {
                needed = check::in_nodes(&map);
            }
        }
    });
    assert_eq!(map.len() as u64, WINDOW);
    check::nothing_leaked(&map);
    let now = check::in_nodes(&map);
    assert!(now <= 2 * needed, "{needed} bytes of nodes became {now}");
    check::structure(&map, &placing);
    check::comes_back(&map);
}

/// Memory that is short brings deferred calls on, in whichever operation retires a node: but not
/// before it has unlocked what the calls read and write.
pub fn calls_may_use_the_map_when_memory_is_short<T: TestMap + 'static>() {
    const RUN: u64 = 200;
    let placing = placing::all_slow(seed());
    let arenas = arenas::two(arenas::CHUNK, 8 * arenas::CHUNK);
    let map = Arc::new(T::make(arenas, placing.placement.clone()).unwrap());
    let filled = (0..).take_while(|&key| map.insert(key, key).is_ok());
    let filled = filled.count() as u64;
    assert!(filled > 4 * RUN, "{filled}");
    let called = Arc::new(AtomicU64::new(0));
    let mut draw = Draw::new(seed(), 0);
    for _ in 0..20 {
        let first = draw.below(filled - RUN);
        for key in first..first + RUN {
            let (weak, called) = (Arc::downgrade(&map), called.clone());
            map.domain().pin().defer(move || {
                // The one who makes the calls when the map ends has no map.
                if let Some(map) = weak.upgrade() {
                    (key..key + 8).for_each(|key| _ = map.update(key, key));
                    called.fetch_add(1, Relaxed);
                }
            });
            map.remove(key);
        }
        // In a full map, not all of them find room again.
        (first..first + RUN).for_each(|key| _ = map.insert(key, key));
    }
    assert!(called.load(Relaxed) > RUN, "{called:?}");
    check::nothing_leaked(&*map);
}
