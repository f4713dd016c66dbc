//! Records that are found together and changed one by one, for maps of strings that tell their
//! places.
//!
//! A map joins by a line in a test file: `spots_for!(name: Type)`. The file has this one as a
//! module beside the suite.

macro_rules! spots_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

            use super::*;
            use crate::suite::draw::{Draw, seed};
            use crate::suite::{arenas, placing};

            type Map = $map;

            /// A map whose nodes are in both tiers.
            fn map() -> Map {
                let arenas = arenas::two(4 << 20, 4 << 20);
                let placement = placing::shuffle(seed()).placement;
                Map::in_memory(Native(arenas), placement).expect("there is memory")
            }

            /// Threads set values that are all different, at spots and without, and remove records.
            /// Each value that was set is found once by who replaces or removes it, or at the end.
            #[test]
            fn no_value_that_is_set_at_a_spot_is_lost_or_found_twice() {
                let seed = seed();
                for keys in [40, 400] {
                    let (map, next) = (map(), AtomicU64::new(1));
                    let (mut set, mut found) = (Vec::new(), Vec::new());
                    std::thread::scope(|scope| {
                        let (map, next) = (&map, &next);
                        let work = |thread| {
                            let draw = Draw::new(seed, thread);
                            scope.spawn(move || change(map, next, keys, draw))
                        };
                        let threads: Vec<_> = (1..4).map(work).collect();
                        for thread in threads {
                            let (more, others) = thread.join().expect("it does not panic");
                            set.extend(more);
                            found.extend(others);
                        }
                    });
                    found.extend(map.iter().map(|(_, value)| value));
                    set.sort_unstable();
                    found.sort_unstable();
                    assert_eq!(set, found);
                }
            }

            /// What was set, and what was replaced or removed.
            fn change(
                map: &Map,
                next: &AtomicU64,
                keys: u64,
                mut draw: Draw,
            ) -> (Vec<u64>, Vec<u64>) {
                let (mut set, mut found) = (Vec::new(), Vec::new());
                for round in 0..400 {
                    let names = [(); 8].map(|()| format!("key {:03}", draw.below(keys)));
                    let names = names.each_ref().map(String::as_str);
                    let held = map.hold();
                    let mut spots = [None; 8];
                    map.find_many(&held, &names, &mut spots);
                    for (name, spot) in names.iter().zip(spots) {
                        let value = next.fetch_add(1, Relaxed);
                        match (draw.below(4), spot) {
                            (0, _) => found.extend(map.remove(name)),
                            (1, _) | (_, None) => {
                                set.push(value);
                                found.extend(map.insert(name, value).expect("there is memory"));
                            }
                            (_, Some((_, spot))) => {
                                let spot = spot.expect("strings have places");
                                assert_eq!(map.get_at(spot, "another"), None);
                                assert_eq!(map.update_at(spot, "another", value), None);
                                if let Some(before) = map.update_at(spot, name, value) {
                                    set.push(value);
                                    found.push(before);
                                }
                            }
                        }
                    }
                    drop(held);
                    if round % 50 == 0 {
                        std::thread::yield_now();
                    }
                }
                (set, found)
            }

            /// Alone, a spot is good until its record is gone.
            #[test]
            fn a_spot_reads_what_was_set_there() {
                let map = map();
                for n in 0..200 {
                    map.insert(&format!("key {n:03}"), n)
                        .expect("there is memory");
                }
                let held = map.hold();
                let mut found = [None; 2];
                map.find_many(&held, &["key 007", "key 200"], &mut found);
                assert_eq!(found.map(|it| it.map(|(value, _)| value)), [Some(7), None]);
                let spot = found[0].and_then(|it| it.1).expect("strings have places");
                assert_eq!(map.get_at(spot, "key 007"), Some(7));
                map.insert("key 007", 70).expect("there is memory");
                assert_eq!(map.get_at(spot, "key 007"), Some(70));
                assert_eq!(map.update_at(spot, "key 007", 71), Some(70));
                assert_eq!(map.get("key 007"), Some(71));
                assert_eq!(map.remove("key 007"), Some(71));
                assert_eq!(map.get_at(spot, "key 007"), None);
                assert_eq!(map.update_at(spot, "key 007", 72), None);
                assert_eq!(map.get("key 007"), None);
            }
        }
    };
}
pub(crate) use spots_for;
