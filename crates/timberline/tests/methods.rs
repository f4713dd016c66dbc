//! The methods that a map has in common with those of the standard library, beside these; on every
//! map, with keys and values of several types.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::collection::vec;
use proptest::prelude::*;
use timberline::{Art, BTree, Error, Masstree};

/// Something to do with a map, of the key and the value with these numbers.
#[derive(Clone, Debug)]
enum Op {
    GetOrInsertWith(u8, u8),
    /// Swaps it for the second if it is there, or inserts the first.
    Entry(u8, u8, u8),
    OrDefault(u8),
    Exchange(u8, Option<u8>, Option<u8>),
    RemoveIf(u8, u8),
    /// What is less.
    Retain(u8),
    RemoveRange(u8, u8, bool),
    Extend(Vec<(u8, u8)>),
    InsertMany(Vec<(u8, u8)>),
    Ends,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..40u8;
    let value = || 0..4u8;
    let maybe = || proptest::option::of(value());
    prop_oneof![
        (key(), value()).prop_map(|(k, v)| Op::GetOrInsertWith(k, v)),
        (key(), value(), value()).prop_map(|(k, v, w)| Op::Entry(k, v, w)),
        key().prop_map(Op::OrDefault),
        (key(), maybe(), maybe()).prop_map(|(k, v, w)| Op::Exchange(k, v, w)),
        (key(), value()).prop_map(|(k, v)| Op::RemoveIf(k, v)),
        value().prop_map(Op::Retain),
        (key(), key(), any::<bool>()).prop_map(|(k, l, b)| Op::RemoveRange(k, l, b)),
        vec((key(), value()), 0..30).prop_map(Op::Extend),
        vec((key(), value()), 0..50).prop_map(Op::InsertMany),
        Just(Op::Ends),
    ]
}

/// A type with a value for each number, in the order of these.
trait Numbered: Clone + Ord + Debug {
    fn of(number: u8) -> Self;
}

macro_rules! numbered {
    ($($type:ty: |$number:ident| $make:expr;)*) => {$(
        impl Numbered for $type {
            fn of($number: u8) -> Self {
                $make
            }
        }
    )*};
}

numbered! {
    u64: |number| u64::from(number) << 40;
    i32: |number| i32::from(number) - 20;
    i128: |number| (i128::from(number) - 20) << 70;
    char: |number| char::from(number);
    [u8; 3]: |number| [number / 9, number % 9, 0];
    (u16, Option<bool>): |number| (number.into(), (number > 9).then_some(number > 15));
    String: |number| format!("{:03}\0{}", number, "x".repeat(number.into()));
    Vec<u8>: |number| vec![number / 2; 1 + usize::from(number % 2)];
    (String, i8): |number| ("a\0".repeat(usize::from(number / 4)), number as i8 % 4);
}

macro_rules! methods_of {
    ($($name:ident: $map:ident<$key:ty, $value:ty>;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 40, ..Default::default() })]
            $(
                #[test]
                fn $name(ops in vec(op(), 1..60)) {
                    let map = $map::<$key, $value>::new();
                    let mut model = BTreeMap::<$key, $value>::new();
                    let key = <$key as Numbered>::of;
                    let value = <$value as Numbered>::of;
                    for op in ops {
                        match op.clone() {
                            Op::GetOrInsertWith(k, v) => {
                                let there = map.get_or_insert_with(&key(k), || value(v));
                                let expected = model.entry(key(k)).or_insert_with(|| value(v));
                                prop_assert_eq!(&there.unwrap(), expected);
                            }
                            Op::Entry(k, v, w) => {
                                let there = map
                                    .entry(&key(k))
                                    .and_modify(|now| *now = value(w))
                                    .or_insert(value(v));
                                let expected = model.entry(key(k));
                                let expected = expected.and_modify(|now| *now = value(w));
                                prop_assert_eq!(&there.unwrap(), expected.or_insert(value(v)));
                            }
                            Op::OrDefault(k) => {
                                let there = map.entry(&key(k)).or_default();
                                prop_assert_eq!(&there.unwrap(), model.entry(key(k)).or_default());
                            }
                            Op::Exchange(k, current, new) => {
                                let (current, new) = (current.map(value), new.map(value));
                                let was = model.get(&key(k)).cloned();
                                let expected = match was == current {
                                    true => Ok(was),
                                    false => Err(was),
                                };
                                if expected.is_ok() {
                                    match new.clone() {
                                        Some(new) => model.insert(key(k), new),
                                        None => model.remove(&key(k)),
                                    };
                                }
                                let current = current.as_ref().map(timberline::Value::lend);
                                let new = new.as_ref().map(timberline::Value::lend);
                                let exchanged = map.compare_exchange(&key(k), current, new);
                                prop_assert_eq!(exchanged, Ok(expected));
                            }
                            Op::RemoveIf(k, v) => {
                                let is_it = |now: &$value| *now == value(v);
                                let mut expected = None;
                                if model.get(&key(k)).is_some_and(is_it) {
                                    expected = model.remove(&key(k));
                                }
                                let own = <$value as timberline::Value>::own;
                                let removed = map.remove_if(&key(k), |now| is_it(&own(now)));
                                prop_assert_eq!(removed, expected);
                            }
                            Op::Retain(v) => {
                                let own = <$value as timberline::Value>::own;
                                map.retain(|_, now| own(now) < value(v));
                                model.retain(|_, now| *now < value(v));
                            }
                            Op::RemoveRange(low, high, inclusive) => {
                                let before = model.len();
                                let high = match inclusive {
                                    true => Bound::Included(key(high)),
                                    false => Bound::Excluded(key(high)),
                                };
                                let within = |at: &$key| {
                                    *at >= key(low) && match &high {
                                        Bound::Included(high) => at <= high,
                                        Bound::Excluded(high) => at < high,
                                        Bound::Unbounded => true,
                                    }
                                };
                                model.retain(|at, _| !within(at));
                                let removed = map.remove_range((Bound::Included(key(low)), high));
                                prop_assert_eq!(removed, before - model.len());
                            }
                            Op::Extend(records) => {
                                let records = records.iter().map(|&(k, v)| (key(k), value(v)));
                                (&map).extend(records.clone());
                                model.extend(records);
                            }
                            Op::InsertMany(records) => {
                                let records = records.iter().map(|&(k, v)| (key(k), value(v)));
                                let before = model.len();
                                let new = map.insert_many(records.clone());
                                model.extend(records);
                                prop_assert_eq!(new, Ok(model.len() - before));
                            }
                            Op::Ends => {
                                let shown = |(key, value): (&$key, &$value)| (key.clone(), value.clone());
                                let first = model.first_key_value().map(shown);
                                prop_assert_eq!(map.first_key_value(), first);
                                let last = model.last_key_value().map(shown);
                                prop_assert_eq!(map.last_key_value(), last);
                            }
                        }
                        prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                    }
                    prop_assert!(map.keys().eq(model.keys().cloned()));
                    prop_assert!(map.values().rev().eq(model.values().rev().cloned()));
                    prop_assert_eq!(format!("{map:?}"), format!("{model:?}"));
                    let again: $map<$key, $value> = map.iter().collect();
                    prop_assert!((&again).into_iter().eq(model));
                }
            )*
        }
    };
}

methods_of! {
    btree_of_words: BTree<u64, u64>;
    btree_of_chars: BTree<char, String>;
    btree_of_arrays: BTree<[u8; 3], Vec<u8>>;
    btree_of_tuples: BTree<(u16, Option<bool>), i32>;
    btree_of_wide_integers: BTree<i128, String>;
    btree_of_strings: BTree<String, u64>;
    btree_of_bytes: BTree<Vec<u8>, Vec<u8>>;
    btree_of_tuples_with_strings: BTree<(String, i8), [u8; 3]>;
    art_of_words: Art<u64, u64>;
    art_of_signed_words: Art<i32, String>;
    art_of_strings: Art<String, u64>;
    art_of_bytes: Art<Vec<u8>, Vec<u8>>;
    art_of_tuples: Art<(String, i8), u64>;
    masstree_of_words: Masstree<u64, u64>;
    masstree_of_wide_integers: Masstree<i128, String>;
    masstree_of_strings: Masstree<String, [u8; 3]>;
    masstree_of_tuples: Masstree<(String, i8), Vec<u8>>;
}

/// Of many records, those before one that is refused are in, and none after it.
#[test]
fn many_inserts_end_at_the_first_that_is_refused() {
    let long = "x".repeat(70_000);
    for refused in [0, 15, 16, 40] {
        let map = Art::<str, u64>::new();
        let key = |n: u64| {
            if n == refused {
                long.clone()
            } else {
                format!("{n:02}")
            }
        };
        let error = map.insert_many((0..50).map(|n| (key(n), n))).unwrap_err();
        assert_eq!(error, Error::KeyTooLong(70_000).at(refused as usize));
        assert!(map.values().eq(0..refused));
    }
}

/// A closure that waits for its own call's lock would wait forever.
#[test]
#[cfg(debug_assertions)]
fn a_closure_that_uses_its_own_map_panics() {
    fn check(map: &impl Fn(bool) -> Result<(), Error>) {
        map(false).unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| map(true))).unwrap_err();
        let why = panic.downcast_ref::<&str>().unwrap();
        assert_eq!(*why, "a closure uses the map whose method calls it");
        map(false).unwrap();
    }
    let (btree, other) = (BTree::<u64, u64>::new(), BTree::<u64, u64>::new());
    let (art, masstree) = (Art::<u64, String>::new(), Masstree::<str, u64>::new());
    other.insert(&1, 1).unwrap();
    check(&|own| {
        let used = if own { &btree } else { &other };
        let value = btree.upsert_with(&1, |_| used.get(&1).unwrap())?;
        assert_eq!(value, 1);
        Ok(())
    });
    check(&|own| {
        let entry = art.entry(&1).and_modify(|_| {
            if own {
                art.remove(&1);
            }
        });
        entry.or_default().map(drop)
    });
    check(&|own| {
        masstree.insert("a", 1)?;
        let change = |now| {
            let used = if own {
                masstree.len() as u64 + masstree.get("a")?
            } else {
                1
            };
            Some(now + used)
        };
        masstree.modify("a", change);
        Ok(())
    });
    check(&|own| {
        let used = if own { &btree } else { &other };
        btree.remove(&9);
        let value = btree.get_or_insert_with(&9, || used.get(&1).unwrap())?;
        assert_eq!(value, 1);
        Ok(())
    });
    // These call their closures without a lock.
    masstree.retain(|key, _| masstree.insert("b", 3).is_ok() && masstree.get(key).is_some());
    let visit = |_: String, value| {
        masstree.insert("c", value).unwrap();
        ControlFlow::Continue(())
    };
    assert_eq!(masstree.scan("b", 1, visit), 1);
    assert_eq!(masstree.get("c"), Some(3));
    assert_eq!(other.remove_if(&1, |_| other.get(&1).is_some()), Some(1));
    assert_eq!(masstree.get_with("a", |_| masstree.get("a")), Some(Some(2)));
}
