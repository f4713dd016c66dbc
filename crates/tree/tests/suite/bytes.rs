//! What maps over byte strings must do, whatever their nodes look like: keys of any length, one the
//! beginning of another.
//!
//! A map joins by implementing [`ByteMap`] and one line in a test file:
//! `byte_suite_for!(name: Type)`. The file has this one as a module beside the suite.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_tier::{Arenas, ArenasConfig, TierId};
use timberline_tree::{Error, MAX_KEY};

use crate::suite::draw::{Draw, seed};
use crate::suite::placing::{self, Placing};
use crate::suite::{asks, effort, names};

#[path = "byte_bulk.rs"]
mod bulk;
#[path = "byte_map.rs"]
mod map;
#[path = "byte_ops.rs"]
mod ops;

pub use bulk::{
    a_bulk_load_is_a_run_of_inserts, a_failed_allocation_ends_a_bulk_load_cleanly,
    an_unsorted_bulk_load_says_where, bulk_loads_beside_each_other_lose_nothing,
};
pub(crate) use map::byte_map;
pub use map::{Bounds, ByteMap, disguised};
pub use ops::{Model, Op, all, apply, ends_well, same};

/// Room for keys of 64 KiB, in chunks that come and go.
fn arenas(fast: usize, slow: usize) -> Arenas {
    let mut config = ArenasConfig::two_tiers(fast, slow);
    config.chunk_bytes = 256 << 10;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}

fn make<T: ByteMap>() -> (T, Placing) {
    let placing = placing::shuffle(seed());
    let map = T::make(arenas(512 << 10, 32 << 20), placing.placement.clone());
    (map.unwrap(), placing)
}

/// Short keys over few letters, so that one is often the beginning of another; the empty key;
/// zeros; long ones with long beginnings in common, like the addresses of pages.
pub fn some_key(draw: &mut Draw) -> Vec<u8> {
    const LETTERS: [u8; 5] = [0, 1, b'a', b'b', 255];
    let mut letters = |most: u64| {
        let len = draw.below(most + 1);
        (0..len)
            .map(|_| LETTERS[draw.below(5) as usize])
            .collect::<Vec<_>>()
    };
    let tail = letters(6);
    match draw.below(4) {
        0 => {
            let host = draw.below(4);
            let path = draw.below(3);
            let mut url = format!("https://www.example-{host}.org/a/rather/long/path/{path}/");
            if draw.once_in(3) {
                url.truncate(draw.below(url.len() as u64) as usize);
            }
            [url.as_bytes(), &tail].concat()
        }
        1 => [vec![0; 30], tail].concat(),
        _ => tail,
    }
}

/// A change of one record, or a look at it.
fn a_change(draw: &mut Draw, value: u64) -> Op {
    let key = some_key(draw);
    match draw.below(12) {
        0..5 => Op::Insert(key, value),
        5..8 => Op::Remove(key),
        8 => Op::Update(key, value),
        9 => Op::Upsert(key),
        _ => Op::Get(key),
    }
}

fn step<T: ByteMap>(map: &T, model: &mut Model, draw: &mut Draw, value: u64) {
    apply(map, model, &a_change(draw, value));
}

fn look<T: ByteMap>(map: &T, model: &mut Model, draw: &mut Draw) {
    let bound = |draw: &mut Draw| match draw.below(3) {
        0 => Bound::Included(some_key(draw)),
        1 => Bound::Excluded(some_key(draw)),
        _ => Bound::Unbounded,
    };
    let bounds = (bound(draw), bound(draw));
    let turns = (0..draw.below(20)).map(|_| draw.once_in(2)).collect();
    let looks = [
        Op::Range(bounds, turns),
        Op::Prefix(some_key(draw)),
        Op::Seek(draw.below(10) as usize, some_key(draw)),
        Op::Scan(some_key(draw), draw.below(30) as usize),
        Op::GetMany((0..40).map(|_| some_key(draw)).collect()),
        Op::Ask(some_key(draw), draw.word() as u8, draw.word()),
    ];
    for op in &looks {
        apply(map, model, op);
    }
}

pub fn agrees_with_a_sorted_map<T: ByteMap>() {
    let mut draw = Draw::new(seed(), 1);
    for _ in 0..8 {
        let (map, placing) = make::<T>();
        let mut model = Model::new();
        for value in 0..3_000 {
            step(&map, &mut model, &mut draw, value);
            migrate(&map, &mut draw);
            if value % 1_300 == 0 {
                apply(&map, &mut model, &Op::Clear);
            }
            if value % 60 == 0 {
                apply(&map, &mut model, &Op::Reclaim);
                look(&map, &mut model, &mut draw);
            }
            if value % 90 == 1 {
                let count = draw.below(70);
                let records = (0..count).map(|_| (some_key(&mut draw), value)).collect();
                apply(&map, &mut model, &Op::BulkLoad(records));
            }
        }
        ends_well(&map, &model, &placing);
    }
}

/// Every key that is two letters of three or fewer, put in and taken out in many orders: all ways
/// in which nodes part and come together again.
pub fn beginnings_of_each_other_come_and_go<T: ByteMap>() {
    let mut draw = Draw::new(seed(), 2);
    let letters = [&b""[..], b"\0", b"a", b"\xff"];
    let mut keys = Vec::new();
    for one in letters {
        for two in letters {
            for three in letters {
                keys.push([b"in/common/", one, two, three].concat());
                keys.push([one, two, three].concat());
            }
        }
    }
    keys.sort();
    keys.dedup();
    for round in 0..40 {
        let (map, placing) = make::<T>();
        let mut model = Model::new();
        for key in draw.shuffled(keys.clone()) {
            assert_eq!(map.insert(&key, round), Ok(None));
            model.insert(key, round);
        }
        same(&map, &model);
        let gone = draw.below(keys.len() as u64 + 1) as usize;
        for key in draw.shuffled(keys.clone()).into_iter().take(gone) {
            assert_eq!(map.remove(&key), model.remove(&key));
            same(&map, &model);
        }
        ends_well(&map, &model, &placing);
    }
}

pub fn long_keys_and_one_too_long<T: ByteMap>() {
    let (map, placing) = make::<T>();
    let mut model = Model::new();
    let long = |len: usize, last: u8| {
        let mut key = vec![b'k'; len];
        *key.last_mut().unwrap() = last;
        key
    };
    let mut draw = Draw::new(seed(), 3);
    let mut keys = Vec::new();
    for len in [1, 8, 60 << 10, (60 << 10) + 1, MAX_KEY - 1, MAX_KEY] {
        keys.extend([long(len, b'a'), long(len, b'k'), long(len, 0)]);
    }
    for round in 0..3u64 {
        for key in draw.shuffled(keys.clone()) {
            assert_eq!(map.insert(&key, round), Ok(model.insert(key, round)));
        }
        for key in draw.shuffled(keys.clone()).into_iter().take(9) {
            let leaf = T::leaf_of(&key);
            map.placed().promote_node(&leaf);
            map.placed()
                .demote(&names::on_path(&*map.placed(), leaf, &mut draw));
            assert_eq!(map.remove(&key), model.remove(&key));
        }
        same(&map, &model);
    }
    let refused = map.insert(&long(MAX_KEY + 1, 0), 1);
    assert_eq!(refused, Err(Error::KeyTooLong(MAX_KEY + 1)));
    assert!(refused.unwrap_err().to_string().contains("65535"));
    let refused = map.upsert_with(&long(MAX_KEY + 5, 0), |_| 1);
    assert_eq!(refused, Err(Error::KeyTooLong(MAX_KEY + 5)));
    assert_eq!(map.get(&long(MAX_KEY + 1, 0)), None);
    assert_eq!(map.remove(&long(2 * MAX_KEY, 0)), None);
    ends_well(&map, &model, &placing);
}

pub fn ends_are_popped_in_order<T: ByteMap>() {
    let (map, placing) = make::<T>();
    assert_eq!((map.pop_first(), map.pop_last()), (None, None));
    let (mut model, mut draw) = (Model::new(), Draw::new(seed(), 4));
    for value in 0..600 {
        step(&map, &mut model, &mut draw, value);
    }
    while !model.is_empty() {
        let end = match draw.once_in(2) {
            true => Op::PopFirst,
            false => Op::PopLast,
        };
        apply(&map, &mut model, &end);
    }
    ends_well(&map, &model, &placing);
}

pub fn a_failed_allocation_leaves_the_map_as_it_was<T: ByteMap>() {
    for tier in [TierId::FAST, TierId::SLOW] {
        let mut failures = 0;
        for nth in 1..=80 {
            let (map, placing) = make::<T>();
            let (mut model, mut draw) = (Model::new(), Draw::new(seed(), 5));
            // A map that can merge its leaves would cope with one.
            map.arenas().fail_from(tier, nth);
            let enough = 90.max(map.placed().node_bytes() as u64 / 2);
            for value in 0..enough {
                let key = some_key(&mut draw);
                if draw.once_in(4) {
                    assert_eq!(map.remove(&key), model.remove(&key));
                    continue;
                }
                match map.insert(&key, value) {
                    Ok(before) => assert_eq!(before, model.insert(key, value)),
                    Err(Error::OutOfMemory(full)) => {
                        assert_eq!(full.tier, TierId::SLOW);
                        failures += 1;
                        map.arenas().fail_nth(tier, 0);
                        same(&map, &model);
                        assert_eq!(map.insert(&key, value), Ok(model.insert(key, value)));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            map.arenas().fail_nth(tier, 0);
            ends_well(&map, &model, &placing);
        }
        assert_eq!(failures > 0, tier == TierId::SLOW, "{tier:?}: {failures}");
    }
}

/// One random move of a node on the path to some key.
fn migrate<T: ByteMap>(map: &T, draw: &mut Draw) {
    let mut key = some_key(draw);
    // Tests mark their keys at the end.
    key.extend([None, Some(b'!'), Some(b'0'), Some(b'1'), Some(b'2')][draw.below(5) as usize]);
    let height = draw.below(map.placed().levels().into()) as u8;
    let op = match draw.below(5) {
        0 | 1 => Op::Promote(key),
        2 => Op::Demote(key, height),
        3 => Op::DemoteSubtree(key, height),
        _ => {
            let question = draw.word();
            return asks::ask(&*map.placed(), T::leaf_of(&key), question, draw);
        }
    };
    op.move_node(map);
}

/// Runs `work` while nodes move.
fn beside<T: ByteMap>(map: &T, work: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut draw = Draw::new(seed(), 99);
            while !stop.load(Relaxed) {
                migrate(map, &mut draw);
                if draw.once_in(16) {
                    map.placed().reclaim();
                }
            }
        });
        let _stopping = Stop(&stop);
        work();
    });
}

/// Threads that share no key share every node.
pub fn threads_with_their_own_keys_lose_nothing<T: ByteMap>() {
    let (map, placing) = make::<T>();
    let mut model = Model::new();
    beside(&map, || {
        std::thread::scope(|scope| {
            let work = |thread: u8| {
                let (map, mut draw) = (&map, Draw::new(seed(), thread.into()));
                move || {
                    let mut model = Model::new();
                    for value in 0..effort::times(20_000) {
                        let mut key = some_key(&mut draw);
                        // The last byte is the thread's, and stands for no letter.
                        key.push(b'0' + thread);
                        match draw.below(4) {
                            0 => assert_eq!(map.remove(&key), model.remove(&key)),
                            1 => assert_eq!(map.get(&key), model.get(&key).copied()),
                            _ => assert_eq!(map.insert(&key, value), Ok(model.insert(key, value))),
                        }
                    }
                    model
                }
            };
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(work(thread))).collect();
            for thread in threads {
                model.extend(thread.join().unwrap());
            }
        });
    });
    let stats = map.stats();
    assert!(stats.promoted > 0 && stats.demoted > 0, "{stats:?}");
    ends_well(&map, &model, &placing);
}

/// A record that is there throughout is seen exactly once, in order, both ways, whatever comes and
/// goes beside it.
pub fn standing_records_are_seen_once_in_order<T: ByteMap>() {
    let (map, _) = make::<T>();
    let mut draw = Draw::new(seed(), 6);
    let mut standing = Model::new();
    for _ in 0..800 {
        let mut key = some_key(&mut draw);
        key.push(b'!');
        map.insert(&key, 1).unwrap();
        standing.insert(key, 1);
    }
    let stands = |key: &[u8]| key.ends_with(b"!");
    beside(&map, || {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut draw = Draw::new(seed(), 7);
                let passing: Vec<_> = (0..800).map(|_| some_key(&mut draw)).collect();
                while !stop.load(Relaxed) {
                    let key = &passing[draw.below(800) as usize];
                    match draw.once_in(2) {
                        true => drop(map.insert(key, 0).unwrap()),
                        false => drop(map.remove(key)),
                    }
                }
            });
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..effort::times(50) {
                    let mut seen: Vec<_> = all(&map).map(|(key, _)| key).collect();
                    assert!(seen.is_sorted_by(|one, two| one < two), "forward");
                    seen.retain(|key| stands(key));
                    assert!(seen.iter().eq(standing.keys()), "forward");

                    let mut seen: Vec<_> = all(&map).rev().map(|(key, _)| key).collect();
                    assert!(seen.is_sorted_by(|one, two| one > two), "backward");
                    seen.retain(|key| stands(key));
                    assert!(seen.iter().rev().eq(standing.keys()), "backward");

                    let mut seen = Vec::new();
                    map.scan(b"", usize::MAX, |key, _| {
                        seen.push(key.to_vec());
                        ControlFlow::Continue(())
                    });
                    seen.retain(|key| stands(key));
                    assert!(seen.iter().eq(standing.keys()), "scanned");

                    // Those that stand have 1, the others 0.
                    let sum: u64 = map.values_from(b"", usize::MAX).iter().sum();
                    assert_eq!(sum, standing.len() as u64, "values");
                }
            }));
            stop.store(true, Relaxed);
            assert!(seen.is_ok(), "a scan went wrong");
        });
    });
}

/// Declares a module with all tests of byte-string keys for one map.
macro_rules! byte_suite_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use super::*;
            byte_suite_for! { @ $map:
                agrees_with_a_sorted_map,
                beginnings_of_each_other_come_and_go,
                long_keys_and_one_too_long,
                ends_are_popped_in_order,
                a_failed_allocation_leaves_the_map_as_it_was,
                threads_with_their_own_keys_lose_nothing,
                standing_records_are_seen_once_in_order,
                a_bulk_load_is_a_run_of_inserts,
                an_unsorted_bulk_load_says_where,
                a_failed_allocation_ends_a_bulk_load_cleanly,
                bulk_loads_beside_each_other_lose_nothing,
            }
        }
    };
    (@ $map:ty: $($test:ident),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                bytes::$test::<$map>();
            }
        )*
    };
}
pub(crate) use byte_suite_for;
