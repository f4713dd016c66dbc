//! Mistakes that the histories of `suite/linear` have to show: some are made here, in calling a map
//! that makes none, others are planted in the map (`cargo test -p timberline-tree --features
//! seeded-bugs --test mistakes`). Those that only show when something else goes wrong are found by
//! `faults/seeded.rs`.

#[cfg(feature = "seeded-bugs")]
#[path = "suite/art_of_words.rs"]
mod art_of_words;
#[cfg(feature = "seeded-bugs")]
#[path = "suite/btree_of_bytes.rs"]
mod btree_of_bytes;
#[path = "suite/btree_of_words.rs"]
mod btree_of_words;
#[cfg(feature = "seeded-bugs")]
#[path = "suite/masstree_of_words.rs"]
#[allow(dead_code)]
mod masstree_of_words;
#[allow(dead_code, unused_macros)]
mod suite;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

use btree_of_words::NODE_128;
use suite::TestMap;
use suite::any_bits::AnyBits;
use suite::draw::seed;
use suite::linear::call::{Call, passed, perform};
use suite::linear::cell::{Answer, Op};
use suite::linear::history::Log;
use suite::linear::keys::Keys;
use suite::linear::{Perform, judge};

type Map = AnyBits<btree_of_words::Map<NODE_128>>;
#[cfg(feature = "seeded-bugs")]
type Strings = AnyBits<btree_of_bytes::Map<{ btree_of_bytes::NODE_128 }>>;
#[cfg(feature = "seeded-bugs")]
type Radix = AnyBits<art_of_words::Map<timberline_tree::art::Near>>;

/// Masstree of two layers.
#[cfg(feature = "seeded-bugs")]
type Layers = AnyBits<masstree_of_words::Map<NODE_128>>;

/// Maps until a mistake has to be found. The first few will do.
const PATIENCE: u64 = 200;

/// Plays until a history cannot be explained, and returns why.
fn found<T: TestMap>(moving: Option<fn()>, perform: impl Perform<T>) -> String {
    found_with(seed(), moving, perform).1
}

/// The same with a seed. Returns also how many maps that took.
fn found_with<T: TestMap>(
    seed: u64,
    moving: Option<fn()>,
    perform: impl Perform<T>,
) -> (u64, String) {
    let judged = |number| Some((number, judge(number, seed, moving, &perform).err()?));
    let (number, found) = (0..PATIENCE)
        .find_map(judged)
        .expect("the mistake is found");
    println!("{found}");
    (number + 1, found)
}

/// A get is answered with what this key had some calls ago.
#[test]
fn a_stale_read_is_found() {
    let cache = Mutex::new(BTreeMap::new());
    found(None, |map: &Map, keys: &Keys, call, log: &mut Log<'_>| {
        let Call::Point(key, Op::Get) = call else {
            return perform(map, keys, call, log);
        };
        let asked = log.now();
        let mut cache = cache.lock().unwrap();
        let value = match log.draw().once_in(2) {
            true => *cache.entry(key).or_insert_with(|| map.get(key)),
            false => map.get(key),
        };
        cache.insert(key, value);
        log.note(key, Op::Get, Answer::Was(value), asked);
    });
}

/// An insert is a get and a put, and what another thread does in between is lost.
#[test]
fn an_insert_in_two_steps_is_found() {
    found(None, |map: &Map, keys: &Keys, call, log: &mut Log<'_>| {
        let Call::Point(key, op @ Op::Insert(value)) = call else {
            return perform(map, keys, call, log);
        };
        let asked = log.now();
        let was = map.get(key);
        std::thread::yield_now();
        map.insert(key, value).unwrap();
        log.note(key, op, Answer::Was(was), asked);
    });
}

/// A scan starts over in a leaf, and so shows a record twice.
#[test]
fn a_record_shown_twice_is_found() {
    let why = found(None, |map: &Map, keys: &Keys, call, log: &mut Log<'_>| {
        let Call::Range { low, high, .. } = call else {
            return perform(map, keys, call, log);
        };
        let asked = log.now();
        let all = map.range((Bound::Included(low), Bound::Included(high)));
        let mut shown: Vec<_> = all.map(|(key, value)| (key, value, log.now())).collect();
        shown.extend(shown.last().copied());
        let end = Some(log.now());
        let within = keys.from(low).filter(|&key| key <= high);
        passed(within, &shown, (asked, end), log);
    });
    assert!(why.contains("a scan showed"), "{why}");
}

/// Only the thread that moves nodes has the bug.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_leaf_copied_before_it_is_locked_is_found() {
    found(Some(copied_before_locked), perform::<Map>);
}

/// Not by luck: with each of many seeds, in about as many maps as the suite plays histories on.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_leaf_copied_before_it_is_locked_is_found_with_any_seed() {
    let first = seed();
    let maps = (first..first + 20).map(|seed| {
        let (maps, _) = found_with(seed, Some(copied_before_locked), perform::<Map>);
        maps
    });
    let mut maps: Vec<u64> = maps.collect();
    maps.sort_unstable();
    println!("maps until it was found: {maps:?}");
    let usual = suite::linear::GROUPS;
    assert!(maps[maps.len() / 2] <= usual, "{maps:?}");
}

/// All threads but the one that moves nodes have the bug.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_copy_that_a_writer_leaves_behind_is_found() {
    use timberline_tree::seeded::Bug;

    found_where_writers_have::<Map>(Bug::CopyLeftBehind);
    found_where_writers_have::<Layers>(Bug::CopyLeftBehind);
    found_where_writers_have::<Radix>(Bug::CopyLeftBehind);
}

/// Of the radix tree, whose lookups read leaves that are locked.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_value_that_is_written_before_its_copy_is_locked_is_found() {
    found_where_writers_have::<Radix>(timberline_tree::seeded::Bug::CopyWrittenLate);
}

#[cfg(feature = "seeded-bugs")]
fn found_where_writers_have<T: TestMap>(bug: timberline_tree::seeded::Bug) {
    found(None, |map: &T, keys: &Keys, call, log: &mut Log<'_>| {
        timberline_tree::seeded::plant(bug);
        perform(map, keys, call, log);
    });
}

/// Only the thread that moves nodes has the bug: records of leaves that it moves to fast memory,
/// where nobody looks for copies, and back.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_copy_that_a_move_leaves_behind_is_found() {
    found(Some(copy_left_behind), perform::<Map>);
    found(Some(copy_left_behind), perform::<Layers>);
    found(Some(copy_left_behind), perform::<Radix>);
}

#[cfg(feature = "seeded-bugs")]
fn copy_left_behind() {
    use timberline_tree::seeded::{Bug, plant};
    plant(Bug::CopyLeftBehind);
}

#[test]
#[cfg(feature = "seeded-bugs")]
fn a_pack_or_row_copied_before_it_is_locked_is_found() {
    found(Some(copied_before_locked), perform::<Radix>);
}

/// Masstree of one layer, with nothing beside its nodes.
#[cfg(feature = "seeded-bugs")]
mod one_layer {
    use super::*;
    use masstree_of_words::Written;
    use timberline_tree::Key;

    pub type Map = AnyBits<masstree_of_words::Map<NODE_128, Seven>>;

    /// Numbers of seven bytes, one slice, so there is one layer, with nothing beside its nodes.
    /// Words that need eight become the greatest.
    pub struct Seven(u64);

    impl Key for Seven {
        type Borrowed = Seven;
        type Owned = u64;
        type Bytes<'a> = [u8; 7];

        fn to_bytes(&self) -> [u8; 7] {
            *self.0.to_be_bytes().last_chunk().expect("seven bytes")
        }
        fn from_bytes(bytes: &[u8]) -> u64 {
            bytes
                .iter()
                .fold(0, |word, &byte| (word << 8) | u64::from(byte))
        }
    }

    impl Written for Seven {
        fn of(word: u64) -> Seven {
            Seven(word.min(u64::MAX >> 8))
        }
    }
}

#[test]
#[cfg(feature = "seeded-bugs")]
fn a_page_of_strings_copied_before_it_is_locked_is_found() {
    found(Some(copied_before_locked), perform::<Strings>);
}

#[test]
#[cfg(feature = "seeded-bugs")]
fn a_border_node_copied_before_it_is_locked_is_found() {
    found(Some(copied_before_locked), perform::<one_layer::Map>);
}

/// The way that pops went in all maps, until they were made linearizable.
#[test]
#[cfg(feature = "seeded-bugs")]
fn a_pop_in_two_steps_is_found() {
    use suite::ends::find_mistake;
    use timberline_tree::seeded::{Bug, plant};

    let plant = || plant(Bug::PoppedInTwoSteps);
    let found = [
        find_mistake::<Map>(PATIENCE, plant),
        find_mistake::<Strings>(PATIENCE, plant),
        find_mistake::<one_layer::Map>(PATIENCE, plant),
        find_mistake::<Radix>(PATIENCE, plant),
    ];
    for why in found {
        println!("{}", why.expect("the mistake is found"));
    }
}

#[cfg(feature = "seeded-bugs")]
fn copied_before_locked() {
    use timberline_tree::seeded::{Bug, plant};
    plant(Bug::CopiedBeforeLocked);
}
