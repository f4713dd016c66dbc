//! What maps whose values are strings of bytes must do.
//!
//! A map joins by implementing [`ValueMap`] and a line in a test file: `value_suite_for!(name:
//! Type)`. It then runs through what the suite has for maps of words, too, each word written as a
//! string of a length of its own, and through the tests below. The file has this one as a module
//! beside the suite.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use timberline_placement::{Move, NodeKey, Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Arenas, TierId};
use timberline_tree::{Error, MAX_VALUE, OutOfMemory, Stats};

use crate::suite::draw::{Draw, seed};
use crate::suite::map::{Bounds, as_model, full};
use crate::suite::{TestMap, check, effort, migrator, names, placing, rooms};

/// A concurrent ordered map from words to strings of bytes, whose nodes and strings live in arenas.
pub trait ValueMap: Sized + Send + Sync {
    const NODE_BYTES: usize;
    const APART: usize = Self::NODE_BYTES;
    const MANY: u64 = 25 * Self::NODE_BYTES as u64;
    const EMPTY_NODES: usize = 1;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error>;
    fn leaf_of(key: u64) -> NodeKey {
        NodeKey::of_word(key, 0)
    }
    fn arenas(&self) -> &Arenas;
    fn domain(&self) -> &Domain;
    fn placed(&self) -> Arc<dyn Placed>;
    fn stats(&self) -> Stats;

    fn insert(&self, key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn update(&self, key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error>;
    fn modify(
        &self,
        key: u64,
        change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, Error>;
    fn upsert_with(
        &self,
        key: u64,
        value: impl FnMut(Option<&[u8]>) -> Vec<u8>,
    ) -> Result<Vec<u8>, Error>;
    #[allow(clippy::type_complexity)]
    fn compare_and_set(
        &self,
        key: u64,
        expected: &[u8],
        new: &[u8],
    ) -> Result<Result<(), Option<Vec<u8>>>, Error> {
        let set = self.compare_exchange(key, Some(expected), Some(new))?;
        Ok(set.map(|before| assert_eq!(before.as_deref(), Some(expected))))
    }
    #[allow(clippy::type_complexity)]
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Result<Option<Vec<u8>>, Option<Vec<u8>>>, Error>;
    fn remove(&self, key: u64) -> Option<Vec<u8>>;
    fn get(&self, key: u64) -> Option<Vec<u8>>;
    fn get_with<R>(&self, key: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R>;
    fn get_many(&self, keys: &[u64], values: &mut [Option<Vec<u8>>]);
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, Vec<u8>)>;
    fn scan(
        &self,
        from: u64,
        limit: usize,
        visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> usize;
    fn len(&self) -> usize;
    fn pop_first(&self) -> Option<(u64, Vec<u8>)>;
    fn pop_last(&self) -> Option<(u64, Vec<u8>)>;
    fn clear(&self);
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Result<usize, Error>;
}

/// Implements [`ValueMap`] by a map's operations of the same names: keys as the first closure makes
/// them, bounds as the second.
macro_rules! value_map {
    ([$($generics:tt)*] $map:ty, |$key:ident| $by:expr, |$bounds:ident| $within:expr, { $($more:tt)* }) => {
        impl<$($generics)*> ValueMap for $map {
            $($more)*

            fn arenas(&self) -> &Arenas {
                <$map>::memory(self).arenas()
            }
            fn domain(&self) -> &timberline_sync::epoch::Domain {
                <$map>::domain(self)
            }
            fn placed(&self) -> Arc<dyn Placed> {
                <$map>::placed(self)
            }
            fn stats(&self) -> Stats {
                <$map>::stats(self)
            }
            fn insert(&self, $key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                self.insert($by, value)
            }
            fn update(&self, $key: u64, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
                self.update($by, value)
            }
            fn modify(
                &self,
                $key: u64,
                change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
            ) -> Result<Option<Vec<u8>>, Error> {
                self.modify($by, change)
            }
            fn upsert_with(
                &self,
                $key: u64,
                value: impl FnMut(Option<&[u8]>) -> Vec<u8>,
            ) -> Result<Vec<u8>, Error> {
                self.upsert_with($by, value)
            }
            fn compare_exchange(
                &self,
                $key: u64,
                current: Option<&[u8]>,
                new: Option<&[u8]>,
            ) -> Result<Result<Option<Vec<u8>>, Option<Vec<u8>>>, Error> {
                self.compare_exchange($by, current, new)
            }
            fn remove(&self, $key: u64) -> Option<Vec<u8>> {
                self.remove($by)
            }
            fn get(&self, $key: u64) -> Option<Vec<u8>> {
                self.get($by)
            }
            fn get_with<R>(&self, $key: u64, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
                self.get_with($by, read)
            }
            fn get_many(&self, keys: &[u64], values: &mut [Option<Vec<u8>>]) {
                self.get_many(keys, values);
            }
            fn range(&self, $bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, Vec<u8>)> {
                self.range($within)
            }
            fn scan(
                &self,
                $key: u64,
                limit: usize,
                visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
            ) -> usize {
                self.scan($by, limit, visit)
            }
            fn len(&self) -> usize {
                self.len()
            }
            fn pop_first(&self) -> Option<(u64, Vec<u8>)> {
                self.pop_first()
            }
            fn pop_last(&self) -> Option<(u64, Vec<u8>)> {
                self.pop_last()
            }
            fn clear(&self) {
                self.clear();
            }
            fn bulk_load(
                &self,
                sorted: impl IntoIterator<Item = (u64, Vec<u8>)>,
            ) -> Result<usize, Error> {
                self.bulk_load(sorted)
            }
        }
    };
}
pub(crate) use value_map;

/// A word as a string: itself, and up to a few dozen bytes that follow from it.
fn encode(word: u64) -> Vec<u8> {
    let more = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    let mut bytes = word.to_le_bytes().to_vec();
    bytes.extend((0..more).map(|at| (word ^ at) as u8));
    bytes
}

fn decode(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().expect("eight bytes at least");
    let word = u64::from_le_bytes(*word);
    assert_eq!(bytes, encode(word), "a string of one piece");
    word
}

/// The map as one of words.
pub struct Encoded<T>(pub T);

impl<T: ValueMap> TestMap for Encoded<T> {
    const NODE_BYTES: usize = T::NODE_BYTES;
    const APART: usize = T::APART;
    const MANY: u64 = T::MANY;
    // Sizes of slots; chunks among them are not shared.
    const SIZES: usize = 12;
    const EMPTY_NODES: usize = T::EMPTY_NODES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        T::make(arenas, placement).map(Encoded)
    }
    fn leaf_of(key: u64) -> NodeKey {
        T::leaf_of(key)
    }
    fn arenas(&self) -> &Arenas {
        self.0.arenas()
    }
    fn domain(&self) -> &Domain {
        self.0.domain()
    }
    fn placed(&self) -> Arc<dyn Placed> {
        self.0.placed()
    }
    fn stats(&self) -> Stats {
        self.0.stats()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>, OutOfMemory> {
        let before = self.0.insert(key, &encode(value)).map_err(full)?;
        Ok(before.map(|before| decode(&before)))
    }
    fn update(&self, key: u64, value: u64) -> Option<u64> {
        let before = self.0.update(key, &encode(value)).expect("room");
        before.map(|before| decode(&before))
    }
    fn compare_exchange(
        &self,
        key: u64,
        current: Option<u64>,
        new: Option<u64>,
    ) -> Result<Option<u64>, Option<u64>> {
        let (current, new) = (current.map(encode), new.map(encode));
        let set = self
            .0
            .compare_exchange(key, current.as_deref(), new.as_deref());
        let decoded = |value: Option<Vec<u8>>| value.map(|value| decode(&value));
        set.expect("room").map(decoded).map_err(decoded)
    }
    fn remove(&self, key: u64) -> Option<u64> {
        self.0.remove(key).map(|value| decode(&value))
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get_with(key, decode)
    }
    fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let mut strings = vec![None; values.len()];
        self.0.get_many(keys, &mut strings);
        for (value, string) in values.iter_mut().zip(strings) {
            *value = string.map(|string| decode(&string));
        }
    }
    fn range(&self, bounds: Bounds) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let decoded = |(key, value): (u64, Vec<u8>)| (key, decode(&value));
        self.0.range(bounds).map(decoded)
    }
    fn scan(
        &self,
        from: u64,
        limit: usize,
        mut visit: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> usize {
        self.0
            .scan(from, limit, |key, value| visit(key, decode(value)))
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn pop_first(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_first()?;
        Some((key, decode(&value)))
    }
    fn pop_last(&self) -> Option<(u64, u64)> {
        let (key, value) = self.0.pop_last()?;
        Some((key, decode(&value)))
    }
    fn clear(&self) {
        self.0.clear();
    }
    fn bulk_load(&self, sorted: impl IntoIterator<Item = (u64, u64)>) -> Result<usize, Error> {
        let encoded = |(key, value)| (key, encode(value));
        self.0.bulk_load(sorted.into_iter().map(encoded))
    }
}

/// Declares a module with all tests for one map with strings as values.
macro_rules! value_suite_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use super::*;
            suite_for! { @ values::Encoded<$map>:
                model::agrees_with_a_sorted_map,
                own_keys::threads_with_their_own_keys_lose_nothing,
                contended::no_increment_is_lost,
                contended::every_value_comes_out_once,
                scans::standing_records_are_seen_once_in_order,
                linear::histories_are_linearizable_while_nodes_move,
                ends::pops_are_linearizable,
                moves::heat_goes_along_and_the_old_address_is_dead,
                faults::a_failed_allocation_fails_an_insert_or_nothing,
                faults::a_failed_allocation_ends_a_bulk_load_cleanly,
                full::a_full_fast_tier_sends_new_nodes_to_the_slow_one,
                full::threads_meet_a_full_tier_and_lose_nothing,
                full::any_budget_down_to_nothing_is_kept,
                reclaim::churn_gives_everything_back,
                reclaim::memory_stays_bounded_under_churn,
                bulk::a_bulk_load_is_a_run_of_inserts,
                bulk::an_unsorted_bulk_load_says_where,
                bulk::many_lookups_are_as_many_gets,
                workers::restless_workers_lose_nothing_and_keep_the_budget,
            }
            value_suite_for! { @ $map:
                strings_of_any_length_come_back,
                too_long_is_an_error_that_names_the_limit,
                long_strings_agree_with_a_sorted_map_while_they_move,
                no_reader_sees_half_a_string,
                a_closure_sees_what_it_replaces,
                a_failed_allocation_changes_nothing,
                strings_move_with_their_leaf_or_neither_does,
                a_string_is_not_taken_for_a_leaf,
            }
        }
    };
    (@ $map:ty: $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                values::$test::<$map>();
            }
        )*
    };
}
pub(crate) use value_suite_for;

fn make<T: ValueMap>(fast: usize, slow: usize) -> (Encoded<T>, placing::Placing) {
    let placing = placing::shuffle(seed());
    let map = Encoded::make(rooms::two(fast, slow), placing.placement.clone());
    (map.unwrap(), placing)
}

/// A string in which each byte follows from the length.
fn string(len: usize) -> Vec<u8> {
    vec![len as u8 ^ (len >> 8) as u8 ^ 0x5a; len]
}

fn is_of_one_piece(bytes: &[u8]) -> bool {
    bytes == string(bytes.len())
}

fn same<T: ValueMap>(map: &T, model: &BTreeMap<u64, Vec<u8>>) {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let expected = || model.iter().map(|(&key, value)| (key, value.clone()));
    assert!(map.range(all).eq(expected()), "forward");
    assert!(map.range(all).rev().eq(expected().rev()), "backward");
    let mut scanned = Vec::new();
    map.scan(0, usize::MAX, |key, value| {
        scanned.push((key, value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(scanned.into_iter().eq(expected()), "scanned");
    assert_eq!(map.len(), model.len());
    for (&key, value) in model {
        assert!(map.get(key).as_ref() == Some(value), "{key}");
    }
}

const LENGTHS: [usize; 9] = [0, 1, 7, 8, 9, 1_000, 1_024, 65_535, 65_536];

pub fn strings_of_any_length_come_back<T: ValueMap>() {
    let (map, _) = make::<T>(64 * rooms::CHUNK, rooms::AMPLE);
    let strings = &map.0;
    for (key, len) in (0..).zip(LENGTHS) {
        assert_eq!(strings.insert(key, &string(len)), Ok(None));
        assert_eq!(strings.get_with(key, is_of_one_piece), Some(true), "{len}");
        assert_eq!(strings.get_with(key, <[u8]>::len), Some(len));
    }
    let mut model = as_model((0u64..).zip(LENGTHS.map(string)));
    same(strings, &model);
    let keys: Vec<u64> = (0..=LENGTHS.len() as u64).collect();
    let mut values = vec![None; keys.len()];
    strings.get_many(&keys, &mut values);
    assert!(
        values.iter().eq(keys
            .iter()
            .map(|key| strings.get(*key))
            .collect::<Vec<_>>()
            .iter())
    );
    // From each length to each other one, by every operation.
    for from in LENGTHS {
        for to in LENGTHS {
            let (one, two) = (string(from), string(to));
            let key = (from % 5) as u64;
            model.insert(key, one.clone());
            strings.insert(key, &one).unwrap();
            assert_eq!(strings.update(key, &two), Ok(Some(one.clone())));
            let set = strings.compare_and_set(key, &two, &one).unwrap();
            assert_eq!(set, Ok(()));
            if one != two {
                let set = strings.compare_and_set(key, &two, &two).unwrap();
                assert!(set == Err(Some(one.clone())));
            }
            let after = strings.upsert_with(key, |now| {
                assert!(now == Some(&one[..]));
                two.clone()
            });
            assert!(after.as_ref() == Ok(&two));
            let before = strings.modify(key, |now| (now == two).then(|| one.clone()));
            assert!(before.as_ref() == Ok(&Some(two)));
            assert!(strings.modify(key, |_| None) == Ok(Some(one)));
        }
    }
    assert_eq!(strings.update(99, b"x"), Ok(None));
    assert_eq!(strings.compare_and_set(99, b"x", b"y"), Ok(Err(None)));
    assert_eq!(strings.modify(99, |_| Some(vec![1])), Ok(None));
    same(strings, &model);
    check::nothing_leaked(&map);
    for (key, value) in model {
        assert!(strings.remove(key) == Some(value));
    }
    check::comes_back(&map);
}

pub fn too_long_is_an_error_that_names_the_limit<T: ValueMap>() {
    let (map, placing) = make::<T>(64 * rooms::CHUNK, rooms::AMPLE);
    let strings = &map.0;
    let long = string(MAX_VALUE + 1);
    for key in 0..100 {
        map.insert(key, key).unwrap();
    }
    let model = as_model((0..100).map(|key| (key, key)));
    let refused = [
        strings.insert(5, &long).unwrap_err(),
        strings.insert(500, &long).unwrap_err(),
        strings.update(5, &long).unwrap_err(),
        strings.update(5, &vec![0; 1 << 20]).unwrap_err(),
        strings.modify(5, |_| Some(long.clone())).unwrap_err(),
        strings.upsert_with(5, |_| long.clone()).unwrap_err(),
        strings.upsert_with(500, |_| long.clone()).unwrap_err(),
        strings.compare_and_set(5, &encode(5), &long).unwrap_err(),
    ];
    for error in refused {
        let line = error.to_string();
        assert!(line.contains("65536") && !line.contains('\n'), "{line}");
        assert!(matches!(error, Error::ValueTooLong(len) if len > MAX_VALUE));
    }
    let loaded = strings.bulk_load([(200, encode(200)), (201, long)]);
    assert_eq!(loaded, Err(Error::ValueTooLong(MAX_VALUE + 1).at(1)));
    assert_eq!(map.remove(200), Some(200));
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
}

pub fn long_strings_agree_with_a_sorted_map_while_they_move<T: ValueMap>() {
    const KEYS: u64 = 60;
    let seed = seed();
    // Free slots of one size are no room for another, and there are many sizes; and where other
    // tests hold the epoch back, what left fast memory stays there for long.
    let (map, _) = make::<T>(512 * rooms::CHUNK, 16 * rooms::AMPLE);
    let strings = &map.0;
    let model = migrator::beside(&map, Draw::new(seed, 99), KEYS, || {
        let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
        for _ in 0..effort::times(3_000) {
            let key = draw.below(KEYS);
            let most = [10, 100, 3_000, 65_537][draw.below(4) as usize];
            let value = string(draw.below(most) as usize);
            match draw.below(6) {
                0 | 1 => assert!(strings.insert(key, &value).unwrap() == model.insert(key, value)),
                2 => assert!(strings.remove(key) == model.remove(&key)),
                3 => assert!(strings.get(key).as_ref() == model.get(&key)),
                4 => {
                    let before = strings.update(key, &value).unwrap();
                    assert!(before.as_ref() == model.get(&key));
                    model.entry(key).and_modify(|it| *it = value);
                }
                _ => {
                    let now = model.get(&key).cloned();
                    let half = |now: Option<&[u8]>| string(now.map_or(9, <[u8]>::len) / 2);
                    let after = strings.upsert_with(key, half).unwrap();
                    assert!(after == half(now.as_deref()));
                    model.insert(key, after);
                }
            }
        }
        model
    });
    same(strings, &model);
    check::moved_both_ways(&map);
    check::within_budget(&map);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// Writers replace strings by those of other lengths, while they move: the thread that reads one
/// reads all of it.
pub fn no_reader_sees_half_a_string<T: ValueMap>() {
    const KEYS: u64 = 40;
    let seed = seed();
    // Other tests hold the epoch back, so there is room for everything that is ever written.
    let (map, _) = make::<T>(32 * rooms::CHUNK, 8 * rooms::AMPLE);
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
    let (map, _) = make::<T>(32 * rooms::CHUNK, rooms::AMPLE);
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

/// Whichever allocation of an operation fails: it fails, or does what it does, and the map is as it
/// was before, or as it should be afterwards.
pub fn a_failed_allocation_changes_nothing<T: ValueMap>() {
    const RECORDS: u64 = 120;
    let (map, placing) = make::<T>(rooms::AMPLE, rooms::AMPLE);
    let strings = &map.0;
    let mut model = as_model((0..RECORDS).map(|key| (key * 8, key)));
    for (&key, &value) in &model {
        map.insert(key, value).unwrap();
    }
    let mut failures = [0; 5];
    for round in 0..300 {
        // Of every two keys one is new.
        let key = round * 7 % RECORDS * 8 + round % 2 * (1 + round % 7);
        let (value, nth) = (1_000 + round, 1 + round % 3);
        // What waits for the epoch would be used instead.
        check::nothing_leaked(&map);
        let present = model.contains_key(&key);
        map.arenas().fail_nth(TierId::SLOW, nth);
        map.arenas().fail_nth(TierId::FAST, nth);
        let new = encode(value);
        let operation = round as usize % 5;
        let done = match operation {
            0 => strings.insert(key, &new).map(|_| true),
            1 => strings.update(key, &new).map(|before| before.is_some()),
            2 => strings.upsert_with(key, |_| new.clone()).map(|_| true),
            3 => strings
                .modify(key, |_| Some(new.clone()))
                .map(|before| before.is_some()),
            _ => {
                let now = model.get(&key).map_or(Vec::new(), |now| encode(*now));
                let set = strings.compare_and_set(key, &now, &new);
                set.map(|set| set.is_ok())
            }
        };
        map.arenas().fail_nth(TierId::SLOW, 0);
        map.arenas().fail_nth(TierId::FAST, 0);
        match done {
            Ok(true) => {
                model.insert(key, value);
            }
            Ok(false) => assert!(!present),
            Err(error) => {
                assert_eq!(full(error).tier, TierId::SLOW);
                failures[operation] += 1;
            }
        }
        assert_eq!(map.get(key), model.get(&key).copied());
    }
    assert!(failures.iter().all(|failed| *failed > 0), "{failures:?}");
    check::at_rest(&map, &model, &placing);
    check::nothing_leaked(&map);
    check::comes_back(&map);
}

/// Bytes of nodes and strings in fast memory.
fn fast(map: &impl TestMap) -> usize {
    map.arenas().used(TierId::FAST)
}

/// The same in slow memory.
fn slow(map: &impl TestMap) -> usize {
    map.arenas().used(TierId::SLOW)
}

pub fn strings_move_with_their_leaf_or_neither_does<T: ValueMap>() {
    const RECORDS: u64 = 40;
    const LEN: usize = 600;
    let placing = placing::all_slow(seed());
    let arenas = rooms::two(rooms::AMPLE, rooms::AMPLE);
    let map: Encoded<T> = TestMap::make(arenas, placing.placement.clone()).unwrap();
    let strings = &map.0;
    let model = as_model((0..RECORDS).map(|key| (key, string(LEN))));
    for (&key, value) in &model {
        strings.insert(key, value).unwrap();
    }
    let placed = map.placed();
    assert_eq!(fast(&map), 0);
    check::nothing_leaked(&map);
    let all = check::used(&map);
    let promote = || {
        for fence in names::fences(&*placed) {
            assert!(matches!(
                placed.promote_path(fence),
                Move::Moved(_) | Move::AlreadyThere
            ));
        }
    };
    promote();
    // A trie's names of layers stay slow.
    check::reclaim_until(&*map.placed(), "what was slow", || slow(&map) < LEN);
    assert_eq!(fast(&map) + slow(&map), all, "strings went along");
    assert!(placed.node_bytes() >= LEN / 2, "{}", placed.node_bytes());
    same(strings, &model);
    let root = names::root(&*placed);
    assert!(matches!(placed.demote_subtree(&root), Move::Moved(_)));
    check::reclaim_until(&*map.placed(), "what was fast", || fast(&map) == 0);
    assert_eq!(check::used(&map), all);

    // As many allocations as a path takes, each of which fails once: what does not move in full
    // does not move at all.
    let mut failed = 0;
    for nth in 1..200 {
        map.arenas().fail_nth(TierId::FAST, nth);
        let moved = placed.promote_path(T::leaf_of(0).key);
        map.arenas().fail_nth(TierId::FAST, 0);
        let done = moved != Move::Full;
        failed += usize::from(!done);
        same(strings, &model);
        check::nothing_leaked(&map);
        if done {
            break;
        }
        let _ = placed.demote_subtree(&root);
        check::reclaim_until(&*map.placed(), "what was fast", || fast(&map) == 0);
    }
    assert!(failed > 1, "{failed}");
    let _ = placed.demote_subtree(&root);
    promote();
    for nth in 1..200 {
        map.arenas().fail_nth(TierId::SLOW, nth);
        let moved = placed.demote_subtree(&names::root(&*placed));
        map.arenas().fail_nth(TierId::SLOW, 0);
        same(strings, &model);
        check::nothing_leaked(&map);
        if moved != Move::Full {
            break;
        }
        promote();
    }
    check::comes_back(&map);
}

/// Strings that look like locked nodes, or like leaves, lie where placements may ask for leaves.
pub fn a_string_is_not_taken_for_a_leaf<T: ValueMap>() {
    let (map, _) = make::<T>(32 * rooms::CHUNK, rooms::AMPLE / 4);
    let strings = &map.0;
    for key in 0..200 {
        let byte = [0, 1, 3, 4, 255][key as usize % 5];
        let len = T::APART * (1 + key as usize % 3);
        strings.insert(key, &vec![byte; len]).unwrap();
    }
    let placed = map.placed();
    let mut leaves = BTreeMap::new();
    placed.each_leaf(&[], &mut |leaf| {
        leaves.insert(leaf.address, leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    let mut found = 0;
    for address in map.arenas().range().step_by(T::APART) {
        let fence = placed.fence_at(address);
        assert_eq!(fence.as_ref(), leaves.get(&address), "{address:#x}");
        found += usize::from(fence.is_some());
    }
    assert_eq!(found, leaves.len());
    check::comes_back(&map);
}
