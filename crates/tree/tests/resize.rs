//! Fast memory gets another limit while a map is in use.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use timberline::{Art, BTree, Error, Masstree};

const MIB: usize = 1 << 20;
const RECORDS: u64 = 60_000;

/// A type with a value for each number, in no order.
trait Numbered {
    fn of(number: u64) -> Self;
}

impl Numbered for u64 {
    /// The low bits of values mean something to trees.
    fn of(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Numbered for String {
    /// Some lie in layers of a Masstree, and some values beside their leaves.
    fn of(number: u64) -> String {
        let prefix = ["", "shared prefix/", "shared prefix/and more/"][number as usize % 3];
        format!("{prefix}{:016x}", u64::of(number))
    }
}

/// Ends the other threads of a test, also where an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

macro_rules! resized {
    ($($name:ident: $map:ident<$key:ty, $value:ty>, $borrow:expr;)*) => {$(
        mod $name {
            use super::*;

            type Tested = $map<$key, $value>;

            fn insert(map: &Tested, number: u64) {
                let (key, value) = (<$key>::of(number), <$value>::of(number));
                let borrow = $borrow;
                map.insert(&key, borrow(&value)).unwrap();
            }

            fn holds(map: &Tested, number: u64) {
                assert_eq!(map.get(&<$key>::of(number)), Some(<$value>::of(number)), "{number}");
            }

            fn loaded(fast: usize) -> Tested {
                let map = Tested::builder().fast_memory(fast).slow_memory(64 * MIB).build();
                let map = map.unwrap();
                (0..RECORDS).for_each(|number| insert(&map, number));
                map
            }

            /// Warms some records, so that there is something in fast memory.
            fn warm(map: &Tested) {
                for _ in 0..20 {
                    (0..RECORDS / 20).for_each(|number| holds(map, number));
                }
            }

            #[test]
            fn holds_its_limit_and_all_records() {
                let map = loaded(2 * MIB);
                for limit in [MIB, MIB / 2, 2 * MIB, 64 << 10, 0, 4 * MIB, 4096] {
                    warm(&map);
                    map.set_fast_memory(limit).unwrap();
                    assert!(map.committed().0 <= limit, "{} of {limit}", map.committed().0);
                    assert_eq!(map.memory_limits(), (limit, 64 * MIB));
                    warm(&map);
                    assert!(map.committed().0 <= limit, "{} of {limit}", map.committed().0);
                }
                (0..RECORDS).for_each(|number| holds(&map, number));
                assert_eq!(map.len() as u64, RECORDS);
            }

            #[test]
            fn holds_it_beside_operations() {
                let map = loaded(2 * MIB);
                let done = AtomicBool::new(false);
                thread::scope(|scope| {
                    for thread in 0..2 {
                        let (map, done) = (&map, &done);
                        scope.spawn(move || {
                            let mut number = thread;
                            while !done.load(Relaxed) {
                                holds(map, number % (RECORDS / 2));
                                let own = RECORDS / 2 + number % (RECORDS / 2);
                                assert!(map.remove(&<$key>::of(own)).is_some());
                                insert(map, own);
                                number += 2;
                            }
                        });
                    }
                    let _done = Ends(&done);
                    for round in 0..12 {
                        let limit = [MIB, 300 << 10, 4 * MIB][round % 3];
                        map.set_fast_memory(limit).unwrap();
                        for _ in 0..20 {
                            assert!(map.committed().0 <= limit);
                            thread::yield_now();
                        }
                    }
                });
                (0..RECORDS).for_each(|number| holds(&map, number));
            }
        }
    )*};
}

resized! {
    btree_of_words: BTree<u64, u64>, |value: &u64| *value;
    btree_of_strings: BTree<u64, String>, String::as_str;
    art_of_words: Art<u64, u64>, |value: &u64| *value;
    art_of_strings: Art<String, String>, String::as_str;
    masstree_of_words: Masstree<u64, u64>, |value: &u64| *value;
    masstree_of_strings: Masstree<String, String>, String::as_str;
}

#[test]
fn more_fast_memory_is_used() {
    let builder = BTree::builder().fast_memory(MIB).slow_memory(64 * MIB);
    let map: BTree<u64, u64> = builder.build().unwrap();
    let records = 4 * RECORDS;
    for number in 0..records {
        map.insert(&number, number).unwrap();
    }
    map.set_fast_memory(32 * MIB).unwrap();
    // However long it takes on a loaded machine, the worker promotes what is read.
    while map.committed().0 < 2 * MIB {
        (0..records).for_each(|number| assert_eq!(map.get(&number), Some(number)));
    }
}

#[test]
fn what_does_not_fit_into_slow_memory_leaves_the_limit_as_it_was() {
    let map: BTree<u64, u64> = BTree::builder()
        .fast_memory(4 * MIB)
        .slow_memory(MIB / 2)
        .build()
        .unwrap();
    let mut records = 0;
    while map.insert(&records, records).is_ok() {
        records += 1;
    }
    let refused = map.set_fast_memory(64 << 10);
    if map.committed().0 > 64 << 10 {
        assert!(matches!(refused, Err(Error::OutOfMemory(_))), "{refused:?}");
        assert_eq!(map.memory_limits().0, 4 * MIB);
    }
    assert!((0..records).all(|key| map.get(&key) == Some(key)));
    assert!(map.iter().map(|(key, _)| key).eq(0..records));
}

#[test]
fn a_reader_that_stays_is_named_and_the_limit_holds_once_it_ends() {
    let map: BTree<u64, u64> = BTree::builder()
        .fast_memory(2 * MIB)
        .slow_memory(64 * MIB)
        .build()
        .unwrap();
    for number in 0..RECORDS {
        map.insert(&number, number).unwrap();
    }
    while map.committed().0 < MIB {
        (0..RECORDS).for_each(|number| assert_eq!(map.get(&number), Some(number)));
    }
    let refused = thread::scope(|scope| {
        let _pinned = map.domain().pin();
        scope
            .spawn(|| map.set_fast_memory(128 << 10))
            .join()
            .unwrap()
    });
    let Err(Error::InUse(bytes)) = refused else {
        panic!("{refused:?}")
    };
    assert!(bytes > 0 && map.committed().0 > 128 << 10);
    assert_eq!(map.memory_limits().0, 128 << 10);
    map.set_fast_memory(128 << 10).unwrap();
    assert!(map.committed().0 <= 128 << 10);
}

#[test]
fn what_cannot_be_is_refused() {
    let plain = BTree::<u64, u64>::new();
    let refused = plain.set_fast_memory(MIB).unwrap_err();
    assert!(matches!(refused, Error::Configuration(_)), "{refused}");
    let map: Art<u64, u64> = Art::builder()
        .fast_memory(MIB)
        .slow_memory(MIB)
        .build()
        .unwrap();
    let refused = map.set_fast_memory(1 << 46).unwrap_err();
    let line = refused.to_string();
    assert!(line.contains("addresses") && !line.contains('\n'), "{line}");
    assert_eq!(map.memory_limits().0, MIB);
}
