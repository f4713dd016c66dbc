//! Trees over memory servers within the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use timberline_io::wait_for;
use timberline_remote::fabric::{Connection, InProcess};
use timberline_remote::{Address, Error, Layout, Options, RemoteTree, Result, Scan, load};

/// What several compute servers have: a quarter of the keys each.
const QUARTER: u64 = 1 << 62;

fn options(cache_bytes: usize, seed: u64) -> Options {
    Options {
        cache_bytes,
        seed,
        ..Options::default()
    }
}

/// The options of one of four compute servers.
fn quarter(id: u16, cache_bytes: usize) -> Options {
    let lower = u64::from(id) * QUARTER;
    Options {
        cache_bytes,
        partition: lower..=lower + (QUARTER - 1),
        seed: u64::from(id) + 7,
        ..Options::default()
    }
}

fn quarters() -> Layout {
    Layout {
        boundaries: (1..4).map(|number| number * QUARTER).collect(),
        ..Layout::default()
    }
}

async fn all(tree: &RemoteTree) -> Result<Vec<(u64, u64)>> {
    drain(tree.scan(tree.partitions()[0].clone())?).await
}

async fn drain(mut scan: Scan<'_>) -> Result<Vec<(u64, u64)>> {
    let mut records = Vec::new();
    while let Some(record) = scan.next().await? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn a_tree_does_what_a_btreemap_does() -> Result<()> {
    for (seed, cache_bytes) in [(1, 160 << 10), (2, 400 << 10), (3, 16 << 20)] {
        let pool = Arc::new(InProcess::new(3, 16 << 20).unwrap());
        let mut draws = fastrand::Rng::with_seed(seed);
        let mut model: BTreeMap<u64, u64> = (0..3_000).map(|key| (key * 10, key)).collect();
        wait_for(load(
            pool.clone(),
            Layout::default(),
            model.iter().map(|it| (*it.0, *it.1)),
        ))?;
        let options = |seed| Options {
            offloading: seed < 3,
            ..options(cache_bytes, seed)
        };
        let tree = wait_for(RemoteTree::open(pool.clone(), options(seed)))?;
        for step in 0..60_000 {
            let key = draws.u64(0..40_000);
            match draws.u8(0..10) {
                0..4 => assert_eq!(wait_for(tree.get(key))?, model.get(&key).copied()),
                4..7 => assert_eq!(wait_for(tree.insert(key, step))?, model.insert(key, step)),
                7 => {
                    let before = model.get_mut(&key).map(|it| std::mem::replace(it, step));
                    assert_eq!(wait_for(tree.update(key, step))?, before);
                }
                8 => assert_eq!(wait_for(tree.remove(key))?, model.remove(&key)),
                _ => {
                    let keys = key..=key + draws.u64(0..2_000);
                    let found = model.range(keys.clone()).map(|it| (*it.0, *it.1));
                    match draws.u8(0..3) {
                        0 => assert!(wait_for(drain(tree.scan(keys)?))?.into_iter().eq(found)),
                        1 => {
                            let down = wait_for(drain(tree.scan_down(keys)?))?;
                            assert!(down.into_iter().eq(found.rev()));
                        }
                        _ => {
                            let limit = draws.usize(0..200);
                            let records = wait_for(drain(tree.scan(keys)?.limit(limit)))?;
                            let some: Vec<u64> = records.iter().map(|record| record.0).collect();
                            let values = records.iter().map(|record| Some(record.1));
                            assert!(wait_for(tree.get_many(&some))?.into_iter().eq(values));
                            assert!(records.into_iter().eq(found.take(limit)));
                        }
                    }
                }
            }
        }
        let records: Vec<_> = model.into_iter().collect();
        assert_eq!(wait_for(all(&tree))?, records);
        // Another compute server finds all that was flushed.
        wait_for(tree.flush())?;
        let other = wait_for(RemoteTree::open(Arc::new(pool.client()), options(5)))?;
        assert_eq!(wait_for(all(&other))?, records);
    }
    Ok(())
}

#[test]
fn a_tree_grows_from_nothing() -> Result<()> {
    let pool = Arc::new(InProcess::new(2, 64 << 20).unwrap());
    wait_for(load(pool.clone(), Layout::default(), []))?;
    let tree = wait_for(RemoteTree::open(pool, options(1 << 20, 1)))?;
    assert_eq!(wait_for(tree.get(5))?, None);
    let keys = || (0..100_000_u64).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for key in keys() {
        assert_eq!(wait_for(tree.insert(key, !key))?, None);
    }
    for key in keys() {
        assert_eq!(wait_for(tree.get(key))?, Some(!key));
    }
    assert_eq!(wait_for(all(&tree))?.len(), 100_000);
    Ok(())
}

#[test]
fn four_compute_servers_grow_one_tree() -> Result<()> {
    let pool = InProcess::new(4, 32 << 20).unwrap();
    let client = || Arc::new(pool.client());
    wait_for(load(client(), quarters(), []))?;
    let servers = (0..4).map(|id| wait_for(RemoteTree::open(client(), quarter(id, 300 << 10))));
    let servers: Vec<RemoteTree> = servers.collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        for server in &servers {
            for half in 0..2 {
                scope.spawn(move || {
                    let first = *server.partitions()[0].start();
                    for number in 0..20_000_u64 {
                        // Odd numbers' inverses are spread over all keys.
                        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % QUARTER;
                        let key = first + (key & !1 | half);
                        wait_for(server.insert(key, number)).unwrap();
                        assert_eq!(wait_for(server.get(key)).unwrap(), Some(number));
                    }
                });
            }
        }
    });
    for server in &servers {
        assert_eq!(wait_for(all(server))?.len(), 40_000);
        wait_for(server.flush())?;
    }
    // One that has all keys sees what the four wrote.
    let alone = wait_for(RemoteTree::open(client(), options(4 << 20, 9)))?;
    assert_eq!(wait_for(all(&alone))?.len(), 160_000);
    Ok(())
}

#[test]
fn threads_share_a_small_cache() -> Result<()> {
    let pool = Arc::new(InProcess::new(2, 32 << 20).unwrap());
    let records = (0..50_000).map(|key| (key, 0));
    wait_for(load(pool.clone(), Layout::default(), records))?;
    let tree = wait_for(RemoteTree::open(pool, options(150 << 10, 3)))?;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let tree = &tree;
            scope.spawn(move || {
                let mut draws = fastrand::Rng::with_seed(thread);
                let mut last = vec![0; 50_000];
                for step in 1..30_000 {
                    // Each thread has records of its own, and leaves with others.
                    let key = draws.u64(0..12_500) * 4 + thread;
                    let before = &mut last[key as usize];
                    if draws.bool() {
                        assert_eq!(wait_for(tree.get(key)).unwrap(), Some(*before));
                    } else {
                        assert_eq!(wait_for(tree.insert(key, step)).unwrap(), Some(*before));
                        *before = step;
                    }
                }
            });
        }
    });
    assert_eq!(wait_for(all(&tree))?.len(), 50_000);
    Ok(())
}

#[test]
fn what_does_not_work_says_why() {
    let pool = Arc::new(InProcess::new(1, 1 << 20).unwrap());
    let open = |options| wait_for(RemoteTree::open(pool.clone(), options));
    let line = |error: Option<Error>| error.expect("it fails").to_string();
    assert_eq!(
        line(open(options(1 << 20, 1)).err()),
        "the pool holds no tree: memory server 0 does not begin with one"
    );
    let unordered = load(pool.clone(), Layout::default(), [(5, 0), (5, 1)]);
    assert_eq!(wait_for(unordered), Err(Error::OutOfOrder(5)));
    wait_for(load(pool.clone(), Layout::default(), [(5, 0)])).unwrap();
    assert!(line(open(options(1_000, 1)).err()).contains("a cache of 1000 bytes is too small"));
    // The version is the superblock's second word, behind its lock.
    let connection = Connection::new(pool.clone());
    let version = Address::new(0, 16);
    let ours = wait_for(connection.read(version, 1)).unwrap()[0];
    wait_for(connection.write(version, vec![ours + 1])).unwrap();
    assert_eq!(
        line(open(options(1 << 20, 1)).err()),
        format!(
            "the pool holds no tree: its version is {}, not {ours}",
            ours + 1
        )
    );
    wait_for(connection.write(version, vec![ours])).unwrap();
    let tree = open(quarter(1, 1 << 20)).unwrap();
    assert_eq!(wait_for(tree.get(3)), Err(Error::NotOwned(3)));
    assert!(tree.scan(3..=QUARTER).is_err());
}

#[test]
fn a_full_pool_refuses_and_goes_on() -> Result<()> {
    let pool = Arc::new(InProcess::new(1, 2 << 20).unwrap());
    wait_for(load(pool.clone(), Layout::default(), []))?;
    let tree = wait_for(RemoteTree::open(pool, options(200 << 10, 1)))?;
    let mut inserted = 0;
    let refused = loop {
        match wait_for(tree.insert(inserted, inserted)) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, Error::PoolFull(0));
    assert!(inserted > 50_000, "{inserted} records in 2 MiB");
    for key in 0..inserted {
        assert_eq!(wait_for(tree.get(key))?, Some(key));
    }
    // What is there can be changed and removed, and then there is room again.
    assert_eq!(wait_for(tree.update(7, 1))?, Some(7));
    assert_eq!(wait_for(tree.remove(9))?, Some(9));
    assert_eq!(wait_for(tree.insert(9, 9))?, None);
    Ok(())
}
