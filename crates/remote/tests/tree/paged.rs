//! Ordered maps in pages of the pool, compared with a map in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::fabric::{Connection, InProcess};
use timberline_remote::pool::Origin;
use timberline_remote::records::{MAX_RECORD, PagedMap, Records};
use timberline_remote::{Error, Layout, Options, Result, load_if_empty};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Wanted = (Vec<u8>, Option<Vec<u8>>);

fn pool(servers: u16, bytes: usize) -> Result<InProcess> {
    let pool = InProcess::new(servers, bytes)?;
    let origin = Origin { data: 5, base: 9 };
    let made = load_if_empty(Arc::new(pool.client()), Layout::default(), origin);
    assert!(wait_for(made)?);
    Ok(pool)
}

fn join(pool: &InProcess) -> Result<Records> {
    let options = Options {
        cache_bytes: 200 << 10,
        ..Options::default()
    };
    let lease = Duration::from_secs(3600);
    let records = wait_for(Records::join(Arc::new(pool.client()), options, lease))?;
    wait_for(records.member().claim(&(0..=u64::MAX)))?;
    Ok(records)
}

/// Operations so far: those that read, and those that write.
fn operations(records: &Records) -> (u64, u64) {
    let counts = records.member().tree().counts();
    (counts.reads, counts.writes)
}

/// Bytes of the pool that are not free.
fn used(pool: &InProcess) -> u64 {
    let connection = Connection::new(Arc::new(pool.client()));
    let loads = (0..connection.servers()).map(|server| wait_for(connection.load(server)).unwrap());
    loads.map(|it| it.allocated_bytes).sum()
}

fn changed(records: &Records, map: &PagedMap, changes: Vec<Wanted>) -> Result<PagedMap> {
    let changed = wait_for(records.change(map, &changes))?;
    let new = changed.map.clone();
    assert!(new.bytes().len() <= 2_000, "{}", new.bytes().len());
    wait_for(records.accept(changed));
    Ok(new)
}

fn ranged(
    records: &Records,
    map: &PagedMap,
    (from, to): (&[u8], Option<&[u8]>),
    backwards: bool,
    passed: u64,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut walk = records.walk(map, from, to, backwards);
    walk.pass(passed);
    let mut all = Vec::new();
    while let Some(entry) = wait_for(walk.next())? {
        all.push(entry);
    }
    Ok(all)
}

/// Batches of all sizes, of short and long entries; then ranges of it, both ways.
#[test]
fn a_map_is_that_of_memory() -> Result<()> {
    for (seed, keys, lengths) in [
        (1, 3_000, &[0, 8, 20][..]),
        (2, 400, &[0, 30, 700, 990, 3_000]),
        (3, 30, &[5, 100_000]),
        (4, 100_000, &[0, 1]),
    ] {
        let pool = pool(2, 32 << 20)?;
        let records = join(&pool)?;
        let mut draws = fastrand::Rng::with_seed(seed);
        let (mut map, mut model) = (PagedMap::default(), Model::new());
        let key = |number: u64| {
            let pad = if seed == 2 { number as usize % 300 } else { 3 };
            format!("{}{number:.>pad$}", b'a' + (number % 3) as u8).into_bytes()
        };
        for round in 0..400 {
            let grows = round / 100 % 2 == 0;
            let count = [1, 1, 3, 40, 500][draws.usize(0..5)].min(keys);
            let mut changes = BTreeMap::new();
            // A run of keys, or some anywhere.
            let run = draws.bool().then(|| draws.u64(0..keys));
            for number in 0..count {
                let number = run.map_or_else(|| draws.u64(0..keys), |it| it + number);
                let puts = draws.u8(0..4) < if grows { 3 } else { 1 };
                let value = puts.then(|| vec![draws.u8(..); lengths[draws.usize(..lengths.len())]]);
                changes.insert(key(number), value);
            }
            for (key, value) in &changes {
                match value {
                    Some(value) => model.insert(key.clone(), value.clone()),
                    None => model.remove(key),
                };
            }
            map = changed(&records, &map, changes.into_iter().collect())?;
            assert_eq!(map.count(), model.len() as u64, "{seed}, round {round}");
            let wanted = key(draws.u64(0..keys));
            let found = wait_for(records.get_in(&map, &wanted))?;
            assert_eq!(found.as_ref(), model.get(&wanted));
            if round % 8 != 0 {
                continue;
            }
            let (mut low, mut high) = (key(draws.u64(0..keys)), key(draws.u64(0..keys)));
            if low > high {
                std::mem::swap(&mut low, &mut high);
            }
            let bounds = [
                (&b""[..], None),
                (&low[..], None),
                (&b""[..], Some(&high[..])),
                (&low[..], Some(&high[..])),
            ];
            for (from, to) in bounds {
                let inside = model.range(from.to_vec()..);
                let inside = inside.take_while(|it| to.is_none_or(|to| it.0 < &to.to_vec()));
                let expected: Vec<_> = inside.map(|(k, v)| (k.clone(), v.clone())).collect();
                let mut backwards = expected.clone();
                backwards.reverse();
                assert!(ranged(&records, &map, (from, to), false, 0)? == expected);
                assert!(ranged(&records, &map, (from, to), true, 0)? == backwards);
                let counted = wait_for(records.walk(&map, from, to, false).count())?;
                assert_eq!(counted, expected.len() as u64);
                let passed = draws.usize(..=expected.len() + 1);
                let rest = ranged(&records, &map, (from, to), true, passed as u64)?;
                assert!(rest == backwards[passed.min(backwards.len())..]);
            }
        }
        assert!(model.len() > 10);
        // A map that is empty is as one that is new.
        if seed % 2 == 0 {
            let all = model.into_keys().map(|key| (key, None)).collect();
            assert_eq!(changed(&records, &map, all)?, PagedMap::default());
        } else {
            wait_for(records.free_map(&map));
        }
        // All memory comes back but what is kept for the next use.
        wait_for(records.leave())?;
        assert!(used(&pool) < 1 << 20, "{seed}: {}", used(&pool));
    }
    Ok(())
}

/// Until the new root is accepted, the old one has what it had; given up, it takes no memory.
#[test]
fn a_root_stays_whole_until_it_is_given_up() -> Result<()> {
    let pool = pool(1, 8 << 20)?;
    let records = join(&pool)?;
    let entry = |number: u32, value: &str| {
        let key = format!("key {number:05}").into_bytes();
        (key, Some(value.as_bytes().to_vec()))
    };
    let old = (0..5_000).map(|number| entry(number, "old")).collect();
    let map = changed(&records, &PagedMap::default(), old)?;
    let all = |map: &PagedMap| ranged(&records, map, (b"", None), false, 0);
    let before = all(&map)?;
    for round in 0..200 {
        let numbers = (0..50).map(|it| it * 100 + round);
        let changes: Vec<Wanted> = numbers.map(|number| entry(number, "new")).collect();
        let changed = wait_for(records.change(&map, &changes))?;
        assert_ne!(all(&changed.map)?, before);
        assert_eq!(all(&map)?, before);
        // Each leaves some 50 pages of a pool that has 8,000.
        wait_for(records.give_up(changed));
        assert_eq!(all(&map)?, before);
    }
    Ok(())
}

/// A pool that fills up in the middle of a change has the old map, and takes others.
#[test]
fn a_full_pool_changes_nothing() -> Result<()> {
    let pool = pool(1, 1 << 20)?;
    let records = join(&pool)?;
    let entries = |from: u32, count: u32| -> Vec<Wanted> {
        let numbers = from..from + count;
        numbers
            .map(|it| (it.to_be_bytes().into(), Some(vec![1; 100])))
            .collect()
    };
    let mut map = changed(&records, &PagedMap::default(), entries(0, 1_000))?;
    for _ in 0..10 {
        let full = wait_for(records.change(&map, &entries(10_000, 20_000)));
        assert!(matches!(full.err(), Some(Error::PoolFull(_))));
    }
    map = changed(&records, &map, entries(1_000, 500))?;
    assert_eq!(map.count(), 1_500);
    let long = vec![(b"long".to_vec(), Some(vec![0; MAX_RECORD]))];
    let refused = wait_for(records.change(&map, &long));
    assert!(matches!(refused.err(), Some(Error::RecordTooLong(_))));
    Ok(())
}

/// What a lookup, a change and a rank cost in a map of 100,000 entries.
#[test]
fn operations_are_those_of_the_height() -> Result<()> {
    let pool = pool(2, 32 << 20)?;
    let records = join(&pool)?;
    let key = |number: u32| format!("member {number:08}").into_bytes();
    let all = (0..100_000).map(|it| (key(it), Some(vec![0; 8]))).collect();
    let map = changed(&records, &PagedMap::default(), all)?;
    let costs = |work: &mut dyn FnMut() -> Result<()>| -> Result<(u64, u64)> {
        let before = operations(&records);
        work()?;
        let after = operations(&records);
        Ok((after.0 - before.0, after.1 - before.1))
    };
    let get = costs(&mut || wait_for(records.get_in(&map, &key(77_777))).map(|_| ()))?;
    assert!(get.0 <= 3 && get.1 == 0, "{get:?}");
    let put =
        costs(&mut || changed(&records, &map, vec![(key(77_777), Some(vec![1; 8]))]).map(|_| ()))?;
    assert!(put.0 <= 6 && put.1 <= 3, "{put:?}");
    let rank = costs(&mut || {
        let walk = records.walk(&map, b"", Some(&key(50_000)), false);
        assert_eq!(wait_for(walk.count())?, 50_000);
        Ok(())
    })?;
    assert!(rank.0 <= 3, "{rank:?}");
    let ranked = costs(&mut || {
        let mut walk = records.walk(&map, b"", None, false);
        walk.pass(60_000);
        let found = wait_for(walk.next())?;
        assert_eq!(found.map(|it| it.0), Some(key(60_000)));
        Ok(())
    })?;
    assert!(ranked.0 <= 3, "{ranked:?}");
    Ok(())
}
