//! Sorted input.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_tier::TierId;
use timberline_tree::{Error, MAX_KEY};

use super::{ByteMap, Model, Op, apply, arenas, ends_well, make, same, some_key};
use crate::suite::draw::{Draw, seed};
use crate::suite::{effort, placing};

/// Records of which each key is the beginning of the next; of a few long beginnings in common; of
/// numbers as text, into nothing and between others; runs between others whose keys have a few
/// bytes more than a page takes of one, and begin alike for most of them.
pub fn a_bulk_load_is_a_run_of_inserts<T: ByteMap>() {
    let nested = (0..400).map(|len| vec![b'a'; len]).collect::<Vec<_>>();
    let mut draw = Draw::new(seed(), 7);
    let random = (0..3000).map(|_| some_key(&mut draw)).collect();
    let numbers = |step| {
        (0..9000)
            .step_by(step)
            .map(|it| format!("user:{it:012}").into_bytes())
    };
    let runs = |most: usize| {
        let of_run = move |run: usize| {
            let shared = format!("ab{run:04}{:x<1$}", "", most * 3 / 4 - 6);
            (0..30).map(move |it| format!("{shared}{it:02}{:y<1$}", "", most / 4 - 1 + run % 5))
        };
        (0..300).flat_map(of_run).map(String::into_bytes).collect()
    };
    let ends = || {
        (0..300)
            .map(|run| format!("ab{run:04}").into_bytes())
            .collect()
    };
    let orders: [[Vec<Vec<u8>>; 2]; 5] = [
        [
            nested.clone(),
            nested.iter().map(|it| [it, &b"b"[..]].concat()).collect(),
        ],
        [random, numbers(7).collect()],
        [numbers(4).collect(), numbers(1).collect()],
        [ends(), runs(16)],
        [ends(), runs(128)],
    ];
    for order in orders {
        let (map, placing) = make::<T>();
        let mut model = Model::new();
        for (round, keys) in order.into_iter().enumerate() {
            let records = keys.into_iter().map(|key| (key, round as u64)).collect();
            apply(&map, &mut model, &Op::BulkLoad(records));
            same(&map, &model);
        }
        ends_well(&map, &model, &placing);
    }
}

pub fn an_unsorted_bulk_load_says_where<T: ByteMap>() {
    let key = |it: &str| it.as_bytes().to_vec();
    for (keys, wrong) in [
        (vec![key("a"), key("ab"), key("ab")], 2),
        (vec![key("b"), key("a")], 1),
        (vec![key("a"), key("")], 1),
        (
            (0..20_000)
                .map(|it| format!("{it:05}").into())
                .chain([key("00007")])
                .collect(),
            20_000,
        ),
    ] {
        let (map, placing) = make::<T>();
        let mut records: Vec<_> = keys.into_iter().map(|key| (key, 1)).collect();
        assert_eq!(map.bulk_load(&records), Err(Error::Unsorted.at(wrong)));
        records.truncate(wrong);
        let model: Model = records.into_iter().collect();
        same(&map, &model);
        // What has come before is replaced.
        let long = [(b"x".to_vec(), 2), (vec![b'y'; MAX_KEY + 1], 2)];
        assert_eq!(
            map.bulk_load(&long),
            Err(Error::KeyTooLong(MAX_KEY + 1).at(1))
        );
        let model = model.into_iter().chain([(b"x".to_vec(), 2)]).collect();
        ends_well(&map, &model, &placing);
    }
}

pub fn a_failed_allocation_ends_a_bulk_load_cleanly<T: ByteMap>() {
    for tier in [TierId::FAST, TierId::SLOW] {
        let mut failures = 0;
        for nth in (1..=12).chain((13..300).step_by(37)) {
            // Where nodes may be fast instead, another attempt may succeed.
            let placing = match tier.is_fast() {
                true => placing::shuffle(seed()),
                false => placing::all_slow(seed()),
            };
            let map = T::make(arenas(512 << 10, 32 << 20), placing.placement.clone()).unwrap();
            let mut draw = Draw::new(seed(), 8);
            let model: Model = (0..200).map(|value| (some_key(&mut draw), value)).collect();
            let records: Vec<_> = model
                .iter()
                .map(|(key, &value)| (key.clone(), value))
                .collect();
            map.arenas().fail_from(tier, nth);
            match map.bulk_load(&records) {
                Ok(loaded) => assert_eq!(loaded, records.len()),
                Err(Error::Record { position, error }) => {
                    assert!(matches!(*error, Error::OutOfMemory(_)), "{error}");
                    failures += 1;
                    map.arenas().fail_nth(tier, 0);
                    same(&map, &records[..position].iter().cloned().collect());
                    assert_eq!(map.bulk_load(&records), Ok(records.len()));
                }
                Err(other) => panic!("{other}"),
            }
            map.arenas().fail_nth(tier, 0);
            ends_well(&map, &model, &placing);
        }
        assert_eq!(failures > 0, tier == TierId::SLOW);
    }
}

/// Threads that load neighbouring records, one that moves nodes, and one with keys of its own among
/// theirs.
pub fn bulk_loads_beside_each_other_lose_nothing<T: ByteMap>() {
    const LOADERS: usize = 2;
    let (map, placing) = make::<T>();
    let keys: Vec<_> = (0..effort::times(20_000))
        .map(|it| (it * 7919 % 65_536, it))
        .collect();
    let key = |at: u64, own: &str| format!("key:{at:08x}{own}").into_bytes();
    let mut model = Model::new();
    let mut sorted: Vec<_> = keys
        .iter()
        .map(|&(at, value)| (key(at, ""), value))
        .collect();
    sorted.sort();
    sorted.dedup_by(|one, two| one.0 == two.0);
    let chunks: Vec<_> = sorted.chunks(700).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loaders: Vec<_> = (0..LOADERS)
            .map(|nth| {
                let mine = chunks.iter().skip(nth).step_by(LOADERS);
                let map = &map;
                scope.spawn(move || {
                    for chunk in mine {
                        assert_eq!(map.bulk_load(chunk), Ok(chunk.len()));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut draw = Draw::new(seed(), 9);
            while !ends.load(Relaxed) {
                let key = key(draw.below(65_536), "");
                let op = match draw.once_in(2) {
                    true => Op::Promote(key),
                    false => Op::DemoteSubtree(key, draw.below(4) as u8),
                };
                op.move_node(&map);
            }
        });
        let mut draw = Draw::new(seed(), 10);
        while loaders.iter().any(|it| !it.is_finished()) {
            let own = key(draw.below(65_536), "own");
            match draw.once_in(3) {
                true => assert_eq!(map.remove(&own), model.remove(&own)),
                false => assert_eq!(map.insert(&own, 1), Ok(model.insert(own, 1))),
            }
        }
        ends.store(true, Relaxed);
    });
    model.extend(sorted.iter().cloned());
    same(&map, &model);
    ends_well(&map, &model, &placing);
}
