//! Copies of hot records apart from their leaves: that lookups find them, and that they are never
//! stale, in every map (`tree/tests/suite/copied.rs`) and where a map has its own ways.
//!
//! That they are not while threads and a migrator meet is what the shared suite looks at: its
//! placement `shuffle` lets pages of copies come and go.

#[path = "../../tree/tests/suite/art_of_words.rs"]
mod art_of_words;
#[path = "../../tree/tests/suite/btree_of_words.rs"]
mod btree_of_words;
#[path = "../../tree/tests/suite/copied.rs"]
mod copied;
#[path = "../../tree/tests/suite/masstree_of_words.rs"]
#[allow(dead_code)]
mod masstree_of_words;
#[path = "../../tree/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use btree_of_words::NODE_128;
use copied::{Loaded, Watching, copies_suite_for};
use suite::arenas;
use suite::check::reclaim_until;
use timberline_placement::{Move, NodeKey};
use timberline_tier::{Memory, Native, TierId};
use timberline_tree::art::Near;
use timberline_tree::btree::{NODE_1K, NODE_256};
use timberline_tree::{Art, BTree, Masstree};

copies_suite_for!(btree: btree_of_words::Map<NODE_1K>);
copies_suite_for!(masstree: masstree_of_words::Map<NODE_256>);
copies_suite_for!(art: art_of_words::Map<Near>);

/// A full slow leaf hands records to a fast neighbour on its left, or on its right.
#[test]
fn records_that_a_fast_neighbour_takes_leave_no_copies() {
    for on_the_left in [true, false] {
        let it = Loaded::<BTree<u64, u64>>::new(|n| 3 * n);
        let (map, placed) = (&it.map, it.map.placed());
        // An ascending load leaves full leaves.
        let in_leaf = |leaf: u64| (62 * leaf..62 * (leaf + 1)).map(|key| 3 * key);
        let (full, neighbour) = (10, if on_the_left { 9 } else { 11 });
        for key in in_leaf(neighbour).step_by(3) {
            assert!(map.remove(&key).is_some());
        }
        let name = NodeKey::of_word(3 * 62 * neighbour, 0);
        assert!(matches!(placed.promote_node(&name), Move::Moved(_)));
        it.fill();
        it.warm(&in_leaf(full).collect::<Vec<_>>());
        let has_copy = |key: u64| it.get(key).1;
        let before = in_leaf(full).filter(|&key| has_copy(key)).count();
        assert!(before > 40, "{before}");

        let middle = in_leaf(full).nth(30).unwrap();
        map.insert(&(middle + 1), 0).unwrap();
        let taken = match on_the_left {
            true => in_leaf(full).next(),
            false => in_leaf(full).next_back(),
        };
        let taken = NodeKey::of_word(taken.unwrap(), 0);
        assert_eq!(
            placed.promote_node(&taken),
            Move::AlreadyThere,
            "with a record"
        );

        for key in in_leaf(full) {
            assert!(map.update(&key, key + 7).is_some());
        }
        let demoted = placed.demote(&taken);
        assert_eq!(demoted, Move::Moved(1));
        let copied = |&key: &u64| {
            let (value, is_copy) = it.get(key);
            assert_eq!(value, Some(key + 7));
            is_copy
        };
        let after = in_leaf(full).filter(copied).count();
        assert!(after < before && after > before / 2, "{after} of {before}");
    }
}

/// A string of some bytes, all of which differ from those of another number's.
fn string(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|at| (number * 7 + at * number) as u8)
        .collect()
}

/// Strings of up to 40 bytes have copies, and longer ones none; one that begins like another is
/// not taken for it.
macro_rules! copies_of_strings {
    ($($test:ident: $map:ident;)*) => {$(
        #[test]
        fn $test() {
            let watching = Arc::new(Watching::default());
            let arenas = arenas::two(256 * arenas::CHUNK, arenas::AMPLE);
            let map = $map::<[u8], u64>::in_memory(Native(arenas), watching.clone()).unwrap();
            let all = |number| (0..64).map(move |bytes| string(number, bytes));
            let keys: Vec<_> = all(1).chain(all(3)).chain([vec![0], vec![0, 0]]).collect();
            // The empty one is there twice.
            for key in &keys {
                map.insert(&key[..], key.len() as u64).unwrap();
            }
            let placed = map.placed();
            while placed.add_record_page() {}
            let get = |key: &[u8]| {
                let before = watching.copies.load(Relaxed);
                let value = map.get(key);
                (value, watching.copies.load(Relaxed) > before)
            };
            let (mut short, mut copied) = (0, 0);
            for (number, key) in (0..).zip(&keys) {
                (0..8).for_each(|_| _ = map.get(&key[..]));
                let (value, is_copied) = get(key);
                assert_eq!(value, Some(key.len() as u64));
                assert!(!is_copied || key.len() <= 40, "{key:?}");
                short += usize::from(key.len() <= 40);
                copied += usize::from(is_copied);
                map.update(&key[..], 1000 + number);
                assert_eq!(get(key), (Some(1000 + number), is_copied));
                // What begins like it, or goes on.
                let longer = [&key[..], &[255]].concat();
                assert_eq!(get(&longer), (None, false));
                map.insert(&longer[..], 5).unwrap();
                (0..8).for_each(|_| assert_eq!(map.get(&longer[..]), Some(5)));
                assert_eq!(map.get(&key[..]), Some(1000 + number));
                assert_eq!(map.remove(&longer[..]), Some(5));
                assert_eq!(get(&longer), (None, false));
                assert_eq!(map.remove(&key[..]), Some(1000 + number));
                assert_eq!(get(key), (None, false));
                map.insert(&key[..], key.len() as u64).unwrap();
            }
            assert!(copied > short * 3 / 4, "{copied} of {short}");
            // The leaves move, with all that lies beside them.
            for key in &keys {
                (0..8).for_each(|_| _ = map.get(&key[..]));
            }
            while placed.drop_record_page() {}
            while placed.add_record_page() {}
            for key in &keys {
                assert_eq!(map.get(&key[..]), Some(key.len() as u64));
            }
        }
    )*};
}

copies_of_strings! {
    strings_in_masstree: Masstree;
    strings_in_art: Art;
}

/// A record that goes to a layer of its own keeps its copy; if that layer is fast, it loses it.
#[test]
fn a_record_that_goes_a_layer_down_keeps_its_copy_if_that_is_slow() {
    for (is_fast, bytes) in [(false, 9), (false, 30), (true, 9), (true, 30)] {
        let watching = Arc::new(Watching::default());
        let arenas = arenas::two(64 * arenas::CHUNK, arenas::AMPLE);
        let map = Masstree::<[u8], u64>::in_memory(Native(arenas), watching.clone()).unwrap();
        let key = string(3, bytes);
        map.insert(&key[..], 1).unwrap();
        for number in 1..100 {
            map.insert(&string(2 * number + 3, 7)[..], number).unwrap();
        }
        let placed = map.placed();
        let get = |key: &[u8]| {
            let before = watching.copies.load(Relaxed);
            let value = map.get(key);
            (value, watching.copies.load(Relaxed) > before)
        };
        (0..40).for_each(|_| _ = placed.add_record_page());
        (0..8).for_each(|_| assert_eq!(map.get(&key[..]), Some(1)));
        let (_, is_copied) = get(&key);
        watching.make_leaves_fast(is_fast);
        let beside = [&key[..bytes - 1], b"!"].concat();
        map.insert(&beside[..], 2).unwrap();
        assert_eq!(get(&key), (Some(1), is_copied && !is_fast));
        map.update(&key[..], 3);
        assert_eq!(get(&key), (Some(3), is_copied && !is_fast));
        // Further down, and up to a leaf that another placement would have made slow.
        for len in [1, 2, 8].into_iter().filter(|len| len + 1 < bytes) {
            map.insert(&[&key[..len], b"?-------"].concat()[..], 4)
                .unwrap();
        }
        map.update(&key[..], 5);
        assert_eq!(get(&key).0, Some(5));
        let leaf = masstree_of_words::leaf_of(&key);
        placed.demote_subtree(&leaf);
        assert_eq!(get(&key).0, Some(5));
        assert_eq!(map.remove(&key[..]), Some(5));
        assert_eq!(get(&key), (None, false));
        assert_eq!(get(&beside).0, Some(2));
    }
}

/// A page takes the memory of a leaf that left, and its place in the directory some that chunks
/// have left to it.
#[test]
fn a_full_tier_exchanges_leaves_for_pages() {
    let arenas = arenas::two(1 << 20, arenas::AMPLE);
    let map = BTree::<u64, u64>::in_memory(Native(arenas), Arc::new(Watching::default())).unwrap();
    map.bulk_load((0..100_000).map(|key| (key, !key))).unwrap();
    let placed = map.placed();
    let leaves = || (0..100_000).step_by(20).map(|key| NodeKey::of_word(key, 0));
    let full = leaves().find(|leaf| placed.promote_node(leaf) == Move::Full);
    assert!(full.is_some(), "{:?}", map.stats());
    assert!(!placed.add_record_page(), "{:?}", map.stats());
    for (pages, leaf) in leaves().step_by(10).take(20).enumerate() {
        assert_eq!(placed.demote(&leaf), Move::Moved(1));
        reclaim_until(&*placed, "memory of the leaf", || placed.add_record_page());
        assert_eq!(placed.record_pages().0, 1 + pages);
    }
}

/// The smallest pages have two buckets. Records of both slow tiers have copies, which follow none
/// of their leaves' moves.
#[test]
fn copies_of_the_least_and_greatest_keys_are_kept_in_any_node_size_and_tier() {
    let watching = Arc::new(Watching::default());
    let arenas = arenas::three([4 << 20, 64 << 10, arenas::AMPLE]);
    let map =
        BTree::<u64, u64, Native, NODE_128>::in_memory(Native(arenas), watching.clone()).unwrap();
    // More than the middle tier holds, but little beside the pages.
    let keys = [0, u64::MAX];
    keys.iter()
        .for_each(|&key| _ = map.insert(&key, 1).unwrap());
    for key in 1..10_000 {
        map.insert(&key, !key).unwrap();
    }
    let arenas = map.memory().arenas();
    assert!((0..3).all(|tier| arenas.used(TierId(tier)) > 0));
    let placed = map.placed();
    while placed.add_record_page() {}
    // Room for leaves that come.
    assert!((0..8).all(|_| placed.drop_record_page()));
    placed.reclaim();
    let get = |key| {
        let before = watching.copies.load(Relaxed);
        let value = map.get(&key);
        (value, watching.copies.load(Relaxed) > before)
    };
    let mut copied = 0;
    for (round, key) in (2..50).flat_map(|round| keys.map(|key| (round, key))) {
        let leaf = NodeKey::of_word(key, 0);
        placed.demote(&leaf);
        (0..8).for_each(|_| _ = map.get(&key));
        let (_, is_copied) = get(key);
        copied += usize::from(is_copied);
        map.insert(&key, round).unwrap();
        assert_eq!(get(key), (Some(round), is_copied));
        match round % 4 {
            0 => assert_eq!(map.remove(&key), Some(round)),
            1 => reclaim_until(&*map.placed(), "room for the leaf", || {
                placed.promote_node(&leaf) != Move::Full
            }),
            2 => _ = map.update(&key, round),
            _ => {
                _ = map
                    .compare_exchange(&key, Some(round), Some(round + 1))
                    .unwrap()
            }
        }
        let now = [None, Some(round), Some(round), Some(round + 1)][round as usize % 4];
        assert_eq!(map.get(&key), now);
        let last = |(_, value)| Some(value);
        let end = if key == 0 {
            map.first_key_value()
        } else {
            map.last_key_value()
        };
        assert!(now.is_none() || end.and_then(last) == now);
        map.insert(&key, round).unwrap();
    }
    assert!(copied >= 6, "{copied}");
}
