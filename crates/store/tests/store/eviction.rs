//! A store that is a cache takes puts when it is full: its oldest records go, those in use stay,
//! and what is gone stays gone.

use std::collections::HashSet;
use std::path::Path;
use std::task::Poll;

use crate::opened::{Folder, with_store};
use crate::{SEGMENT, options_with};
use timberline_io::{Disk, Faults, Simulation, wait_for};
use timberline_store::{Durability, Error, Expiry, Options, Store, join};

/// Records of about a kilobyte: three times what there is space for.
const RECORDS: u32 = 3_000;

fn options(evict: bool, cache_bytes: u64) -> Options {
    Options {
        capacity: 16 * SEGMENT,
        cache_bytes,
        evict,
        ..options_with(Durability::None)
    }
}

fn key(nth: u32) -> [u8; 4] {
    nth.to_be_bytes()
}

fn value(nth: u32, round: u32) -> Vec<u8> {
    [nth, round].map(u32::to_be_bytes).concat().repeat(125)
}

#[test]
fn a_full_cache_takes_puts_and_the_oldest_records_go() {
    let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
    driver.block_on(async {
        let refused = with_store(&disk, options(false, 0), async |store| {
            for nth in 0..RECORDS {
                if let Err(error) = store.put(&key(nth), &value(nth, 0)).await {
                    assert!(matches!(error, Error::Full), "{error}");
                    return true;
                }
            }
            false
        });
        assert!(refused.await, "one that is no cache is full");
    });
    let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
    driver.block_on(async {
        with_store(&disk, options(true, 0), async |store| {
            for nth in 0..RECORDS {
                let put = store.put(&key(nth), &value(nth, 1)).await;
                put.expect("a cache has space");
            }
            let stats = store.stats();
            assert!(stats.evicted > u64::from(RECORDS) / 2, "{stats:?}");
            assert!(stats.segments <= 16, "{stats:?}");
            let mut there = Vec::new();
            for nth in 0..RECORDS {
                let found = store.get(&key(nth)).await.expect("it is read");
                there.push(found.is_some());
                assert!(found.is_none_or(|it| it == value(nth, 1)), "{nth}");
            }
            // About in order: what is left of a segment may have moved behind newer ones.
            let (old, new) = (&there[..1_500], &there[there.len() - 500..]);
            assert!(!old.contains(&true) && !new.contains(&false), "{there:?}");
            let found = there.iter().filter(|&&it| it).count();
            assert!(store.len() <= found, "eviction may go on meanwhile");
        })
        .await;
    });
}

#[test]
fn records_in_use_stay() {
    let (disk, mut driver) = Disk::simulated(&Simulation::new(2));
    driver.block_on(with_store(&disk, options(true, 256 << 10), async |store| {
        let in_use = 0..20;
        for nth in 0..RECORDS {
            let put = store.put(&key(nth), &value(nth, 0)).await;
            put.expect("a cache has space");
            if nth % 10 == 0 {
                for nth in in_use.clone().filter(|&it| it < nth) {
                    store.get(&key(nth)).await.expect("it is read");
                }
            }
        }
        for nth in in_use {
            let found = store.get(&key(nth)).await.expect("it is read");
            assert_eq!(found, Some(value(nth, 0)), "{nth}");
        }
        assert!(store.stats().evicted > 0);
    }));
}

/// Keys are overwritten and evicted until the power fails; no older value may be back then.
#[test]
fn no_older_value_comes_back_after_a_crash() {
    let evicted = std::cell::Cell::new(0);
    for seed in 0..40 {
        let simulation = Simulation::new(seed);
        let (disk, mut driver) = Disk::simulated(&simulation);
        let mut rng = fastrand::Rng::with_seed(seed);
        // The rounds in which each key was put, of which the last may be lost.
        let mut rounds = vec![0; 1_500];
        let mut unsynced: HashSet<usize> = HashSet::new();
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options(true, 64 << 10)).await;
            let (store, _) = opened.expect("it opens");
            let work = async {
                let mut round = 0;
                loop {
                    round += 1;
                    if round == 4_000 {
                        let off = simulation.requests() + rng.u64(0..300);
                        simulation.set_faults(Faults {
                            power_off: Some(off),
                            ..Faults::default()
                        });
                    }
                    if round % 500 == 0 && round < 4_000 {
                        store.sync().await.expect("the power is on");
                        unsynced.clear();
                    }
                    let nth = rng.usize(0..rounds.len());
                    let put = store.put(&key(nth as u32), &value(nth as u32, round)).await;
                    if put.is_err() {
                        break;
                    }
                    rounds[nth] = round;
                    unsynced.insert(nth);
                }
                evicted.set(evicted.get() + store.stats().evicted);
                store.close();
            };
            let _ = join(work, store.maintain()).await;
        });
        let (disk, mut driver) = Disk::simulated(&simulation.crash());
        driver.block_on(with_store(&disk, options(true, 0), async |store| {
            for (nth, &round) in rounds.iter().enumerate() {
                let found = store.get(&key(nth as u32)).await.expect("it is read");
                let is_sure = !unsynced.contains(&nth);
                let expected = value(nth as u32, round);
                assert!(
                    !is_sure || found.is_none_or(|it| it == expected),
                    "seed {seed}: an older value of {nth} is back"
                );
            }
        }));
    }
    assert!(evicted.get() > 0, "some were evicted");
}

/// Keys are long, so the index is full soon, with space left on the disk.
fn options_of_long_keys(segment_bytes: u64) -> Options {
    Options {
        durability: Durability::None,
        segment_bytes,
        direct: false,
        cache_bytes: 1 << 20,
        memory_bytes: Options::LEAST_MEMORY,
        evict: true,
        index: crate::index(),
        ..Options::default()
    }
}

fn long_key(nth: u32) -> Vec<u8> {
    [nth.to_be_bytes(); 2_000].concat()
}

#[test]
pub fn where_the_index_has_no_more_memory_the_oldest_keys_go() {
    const KEYS: u32 = 8_000;
    // What the index may take of the least memory, and a chunk or two.
    const MOST: u64 = (32 << 20) + (4 << 20);
    let (disk, mut driver) = Disk::simulated(&Simulation::new(3));
    let options = || options_of_long_keys(1 << 20);
    driver.block_on(with_store(&disk, options(), async |store| {
        for nth in 0..KEYS {
            let key = long_key(nth);
            let put = match nth % 64 {
                // Those that expire need memory for the time, too.
                0..8 => {
                    let day = Expiry::After(std::time::Duration::from_secs(86_400));
                    store.put_expiring(&key, &value(nth, 1), day).await
                }
                8 => store.put(&key, &vec![7; 200_000]).await,
                _ => store.put(&key, &value(nth, 1)).await,
            };
            put.unwrap_or_else(|error| panic!("{nth}: {error}"));
            if nth % 100 == 0 {
                let stats = store.stats();
                assert!(stats.index_bytes <= MOST, "{nth}: {stats:?}");
            }
        }
        let stats = store.stats();
        assert!(stats.evicted > u64::from(KEYS) / 4, "{stats:?}");
        assert!(stats.keys > 2_000, "{stats:?}");
        let is_there = |nth: u32| store.contains_key(&long_key(nth));
        assert!((KEYS - 200..KEYS).all(is_there));
        assert!(!(0..200).any(is_there));
        let last = store.get(&long_key(KEYS - 1)).await.expect("it is read");
        assert_eq!(last, Some(value(KEYS - 1, 1)));
        // What is there is overwritten, and goes away, as ever.
        let again = store.put(&long_key(KEYS - 1), b"again").await;
        again.expect("it has a place");
        assert!(store.delete(&long_key(KEYS - 2)).await.expect("so"));
    }));
    // The same when it is opened again with as little.
    driver.block_on(with_store(&disk, options(), async |store| {
        let before = store.len();
        for nth in KEYS..KEYS + 1_500 {
            let put = store.put(&long_key(nth), &value(nth, 2)).await;
            put.expect("keys go");
        }
        assert!(store.len() < before + 1_500);
        assert!(store.stats().index_bytes <= MOST);
    }));
}

/// Several threads need room for keys at once.
#[test]
pub fn threads_wait_until_keys_are_gone() {
    const EACH: u32 = 2_500;
    let folder = Folder::new();
    let opened = Store::open(&folder.0, options_of_long_keys(1 << 20));
    let (store, _) = opened.expect("it opens");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for nth in thread * EACH..(thread + 1) * EACH {
                    let (key, value) = (long_key(nth), value(nth, 1));
                    let put = match store.put_now(&key, &value) {
                        Poll::Ready(put) => put,
                        Poll::Pending => wait_for(store.put(&key, &value)),
                    };
                    put.unwrap_or_else(|error| panic!("{nth}: {error}"));
                }
            });
        }
    });
    let stats = store.stats();
    assert!(stats.evicted > u64::from(EACH), "{stats:?}");
    assert!(stats.keys > 2_000, "{stats:?}");
    store.stop().expect("all is on the disk");
}

/// All is in the segment that is written to, so nothing can go; what waits would wait for ever.
#[test]
pub fn where_no_key_can_go_a_put_is_refused() {
    let (disk, mut driver) = Disk::simulated(&Simulation::new(4));
    let options = options_of_long_keys(128 << 20);
    driver.block_on(with_store(&disk, options, async |store| {
        let mut nth = 0;
        let refused = loop {
            match store.put(&long_key(nth), b"value").await {
                Ok(()) => nth += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::OutOfMemory), "{refused:?}");
        store.put(&long_key(0), b"again").await.expect("so");
    }));
}
