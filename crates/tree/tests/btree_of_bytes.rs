//! The B+tree of byte strings under the shared suite, at several node sizes, and what only it has
//! to show.

#[macro_use]
mod suite;
#[path = "suite/btree_of_bytes.rs"]
mod btree_of_bytes;
#[path = "suite/btree_of_long_bytes.rs"]
mod btree_of_long_bytes;
#[path = "suite/bytes.rs"]
mod bytes;
#[path = "suite/spots.rs"]
mod spots;
#[path = "suite/values/mod.rs"]
mod values;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use btree_of_bytes::{Map, NODE_128, Text};
use bytes::byte_suite_for;
use spots::spots_for;
use suite::draw::{Draw, seed};
use suite::{arenas, placing};
use timberline_tier::Native;
use timberline_tree::btree::NODE_1K;
use timberline_tree::{BTree, Range};
use values::value_suite_for;

suite_for!(tiny: Map<NODE_128>);
suite_for!(usual: Map<NODE_1K>);

value_suite_for!(strings_tiny: BTree<Text, Vec<u8>, Native, NODE_128>);

byte_suite_for!(bytes_tiny: BTree<[u8], u64, Native, NODE_128>);
byte_suite_for!(bytes_usual: BTree<[u8], u64>);

spots_for!(spots_tiny: BTree<str, u64, Native, NODE_128>);
spots_for!(spots_usual: BTree<str, u64>);

#[test]
fn maps_and_scans_go_to_other_threads() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<BTree<[u8], u64>>();
    crosses_threads::<BTree<str, Arc<String>>>();
    crosses_threads::<Range<str, u64, Native, NODE_1K>>();
}

/// Threads that load neighbouring parts of sorted input get ahead of each other: what comes late
/// belongs between records. It fills leaves as input in order does.
#[test]
fn sorted_input_fills_leaves_wherever_it_belongs() {
    const PART: usize = 2_500;
    let mut draw = Draw::new(seed(), 2);
    let random = (0..40 * PART).map(|_| [draw.word(), draw.word()].map(u64::to_be_bytes).concat());
    let named = (0..40 * PART).map(|it| format!("user:{it:012}").into_bytes());
    for (mut keys, most) in [(random.collect::<Vec<_>>(), 31.0), (named.collect(), 19.0)] {
        keys.sort_unstable();
        let parts: Vec<_> = keys.chunks(PART).collect();
        let in_order: Vec<_> = (0..parts.len()).collect();
        let swapped = in_order.iter().map(|at| at ^ 1).collect();
        let backwards = in_order.iter().rev().copied().collect();
        for order in [in_order, swapped, backwards] {
            let map = BTree::<[u8], u64>::new();
            for &part in &order {
                let records = parts[part].iter().map(|key| (&key[..], 1));
                assert_eq!(map.bulk_load(records), Ok(PART));
            }
            assert!(map.keys().eq(keys.iter().cloned()));
            let bytes = map.stats().bytes_in_nodes as f64 / keys.len() as f64;
            assert!(bytes < most, "{bytes} bytes a record, {order:?}");
        }
    }
}

fn tiny() -> BTree<[u8], u64, Native, NODE_128> {
    let arenas = arenas::two(4 * arenas::CHUNK, arenas::AMPLE);
    BTree::in_memory(Native(arenas), placing::shuffle(1).placement).unwrap()
}

/// Keys that differ only behind what a page keeps beside their slots, and such as are too long for
/// a page now, but not once its fences have more in common.
#[test]
fn keys_go_into_pages_as_prefixes_grow_and_out_as_they_shrink() {
    let (map, mut model, mut draw) = (tiny(), BTreeMap::new(), Draw::new(seed(), 1));
    let key = |draw: &mut Draw| {
        let common = [0, 3, 5, 17, 40, 300][draw.below(6) as usize];
        let tail = draw.below(400).to_string();
        [&vec![b'k'; common][..], tail.as_bytes()].concat()
    };
    for round in 0..6 {
        for value in 0..1_500 {
            let key = key(&mut draw);
            match draw.below(4) {
                0 => assert_eq!(map.remove(&key), model.remove(&key)),
                _ => assert_eq!(map.insert(&key, value), Ok(model.insert(key, value))),
            }
        }
        assert!(map.iter().eq(model.clone()), "round {round}");
        if round % 2 == 1 {
            // What is left is far apart.
            let far = |draw: &mut Draw| draw.once_in(12);
            for key in model.keys().cloned().collect::<Vec<_>>() {
                if !far(&mut draw) {
                    assert_eq!(map.remove(&key), model.remove(&key));
                }
            }
            assert!(map.iter().rev().eq(model.clone().into_iter().rev()));
        }
    }
    map.clear();
    assert_eq!((map.len(), map.stats().levels.len()), (0, 1));
}

/// Zeros behind a key's end are not the zeros that its head is padded with.
#[test]
fn zeros_count_where_heads_are_equal() {
    let map = tiny();
    let zeros: Vec<_> = (0..40).map(|len| vec![0; len]).collect();
    for (value, key) in zeros.iter().enumerate().rev() {
        map.insert(key, value as u64).unwrap();
    }
    assert!(map.keys().eq(zeros.iter().cloned()));
    for (value, key) in zeros.iter().enumerate() {
        assert_eq!(map.get(key), Some(value as u64));
    }
    assert_eq!(map.get(&[0, 1]), None);
}

/// Every way to walk agrees, from every bound.
#[test]
fn walks_agree_from_every_bound() {
    let (map, mut draw) = (tiny(), Draw::new(seed(), 2));
    let mut model = BTreeMap::new();
    for value in 0..600 {
        let key = bytes::some_key(&mut draw);
        map.insert(&key, value).unwrap();
        model.insert(key, value);
    }
    let key = |draw: &mut Draw| bytes::some_key(draw);
    for _ in 0..300 {
        let from = key(&mut draw);
        let limit = draw.below(70) as usize;
        let rest = model.range(from.clone()..).take(limit);
        let expected: Vec<_> = rest.map(|(key, value)| (key.clone(), *value)).collect();
        let (mut scanned, mut values) = (Vec::new(), Vec::new());
        map.scan_bytes(&from, limit, |key, value| {
            scanned.push((key.to_vec(), value));
            ControlFlow::Continue(())
        });
        map.scan_values(&from, limit, |value| {
            values.push(value);
            ControlFlow::Continue(())
        });
        assert_eq!(scanned, expected);
        assert!(values.iter().eq(expected.iter().map(|(_, value)| value)));
        let bounds = (Bound::Unbounded, Bound::Excluded(from.clone()));
        let back = map.range(bounds.clone()).rev().take(limit);
        let model = model.range(bounds).rev().take(limit);
        assert!(back.eq(model.map(|(key, value)| (key.clone(), *value))));
    }
}

/// Words have the methods of byte strings, too.
#[test]
fn words_are_walked_by_their_bytes() {
    let map: BTree<(u8, u16), u64> = BTree::new();
    for one in 0..20u8 {
        for two in 0..30u16 {
            let value = u64::from(one) * 100 + u64::from(two);
            map.insert(&(one, two * 300), value).unwrap();
        }
    }
    assert_eq!(map.prefix(&(7, 600)).collect::<Vec<_>>(), [((7, 600), 702)]);
    assert_eq!(map.prefix(&(7, 601)).next_back(), None);
    let mut values = Vec::new();
    map.scan_values(&(7, 8_500), 3, |value| {
        values.push(value);
        ControlFlow::Continue(())
    });
    assert_eq!(values, [729, 800, 801]);
    let count = map.scan_bytes(&(19, 8_700), 3, |key, value| {
        assert_eq!((key, value), (&[19, 33, 252][..], 1929));
        ControlFlow::Continue(())
    });
    assert_eq!(count, 1);
}
