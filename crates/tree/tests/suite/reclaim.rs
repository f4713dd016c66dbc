//! Memory comes back: nodes that merged, moved or emptied are freed, once.

use super::draw::{Draw, seed};
use super::{TestMap, check, effort, migrator, placing, rooms};

/// Threads fill and empty the map while its nodes move; then nothing but a leaf is left, although
/// nobody called `clear` on the way.
pub fn churn_gives_everything_back<T: TestMap>() {
    const KEYS: u64 = 1_500;
    let seed = seed();
    for &make in placing::ALL {
        let (map, _) = placing::map::<T>(make, seed, 8 * rooms::CHUNK, rooms::AMPLE);
        migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let (map, mut draw) = (&map, Draw::new(seed, thread));
                    scope.spawn(move || {
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
    let arenas = rooms::two(4 * rooms::CHUNK, rooms::AMPLE);
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
