//! Maps in three tiers with their worker: budgets, contents, and a resize of fast memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use timberline::{Art, BTree, Masstree};
use timberline_tier::{Memory, TierId};

const MIB: usize = 1 << 20;
const RECORDS: u64 = 40_000;

/// Scatters numbers over all keys.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Ends the other threads of a test, also where an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

macro_rules! in_three_tiers {
    ($($name:ident: $map:ident;)*) => {$(
        mod $name {
            use super::*;

            type Tested = $map<u64, u64>;

            /// Bytes used by nodes of a tier.
            fn used(map: &Tested, tier: u8) -> usize {
                map.memory().arenas().used(TierId(tier))
            }

            /// At no moment so far a tier had a byte more than its limit. That of fast memory may
            /// have been lowered: what it has now counts.
            fn within_budgets(map: &Tested) {
                let arenas = map.memory().arenas();
                for tier in 0..3 {
                    let budget = arenas.budget(TierId(tier));
                    let most = if tier == 0 { budget.used() } else { budget.peak() };
                    assert!(most <= budget.limit(), "{most} of {} in tier {tier}", budget.limit());
                }
            }

            fn loaded() -> Tested {
                let map = Tested::builder().fast_memory(MIB / 4).middle_tier(MIB / 4, []);
                let map = map.slow_memory(64 * MIB).build().unwrap();
                for number in 0..RECORDS {
                    map.insert(&key(number), number).unwrap();
                }
                map
            }

            fn holds_all(map: &Tested) {
                for number in 0..RECORDS {
                    assert_eq!(map.get(&key(number)), Some(number));
                }
            }

            #[test]
            fn each_budget_is_kept_while_threads_write() {
                let map = loaded();
                assert!((0..3).all(|tier| used(&map, tier) > 0), "{:?}", map.stats());
                thread::scope(|scope| {
                    for nth in 0..2 {
                        let map = &map;
                        scope.spawn(move || {
                            for number in (nth..RECORDS).step_by(2) {
                                let added = key(RECORDS + number);
                                assert_eq!(map.insert(&added, number).unwrap(), None);
                                assert_eq!(map.get(&key(number % 500)), Some(number % 500));
                                assert_eq!(map.remove(&added), Some(number));
                                within_budgets(map);
                            }
                        });
                    }
                });
                within_budgets(&map);
                holds_all(&map);
                assert_eq!(map.len(), RECORDS as usize);
            }

            #[test]
            fn fast_memory_shrinks_and_grows_above_the_other_tiers() {
                let map = loaded();
                let end = AtomicBool::new(false);
                thread::scope(|scope| {
                    let _ends = Ends(&end);
                    scope.spawn(|| {
                        let mut number = 0;
                        while !end.load(Relaxed) {
                            number = (number + 1) % RECORDS;
                            assert_eq!(map.get(&key(number)), Some(number));
                        }
                    });
                    for fast in [MIB / 8, MIB, 0, MIB / 4] {
                        map.set_fast_memory(fast).unwrap();
                        assert!(map.committed().0 <= fast);
                        within_budgets(&map);
                        thread::sleep(Duration::from_millis(20));
                    }
                });
                within_budgets(&map);
                holds_all(&map);
            }
        }
    )*};
}

in_three_tiers! {
    btree: BTree;
    art: Art;
    masstree: Masstree;
}
