//! The cache, of values and of blocks: it spares reads, keeps to its bound, and is never stale.

use timberline_io::{Disk, Simulation};
use timberline_store::{CacheMemory, Caching, Durability, Error, Options, Store};
use timberline_tree::Art;

const RECORDS: u32 = 200;

fn key(nth: u32) -> [u8; 4] {
    nth.to_be_bytes()
}

/// Runs work on a store, which is opened before and closed after it.
async fn with_store(disk: &Disk, cache_bytes: u64, work: impl AsyncFnOnce(&Store)) {
    with_cache(disk, cache_bytes, Caching::Values, work).await;
}

async fn with_cache(
    disk: &Disk,
    cache_bytes: u64,
    caching: Caching,
    work: impl AsyncFnOnce(&Store),
) {
    let options = Options {
        segment_bytes: 64 << 10,
        direct: false,
        cache_bytes,
        caching,
        ..Options::default()
    };
    crate::opened::with_store(disk, options, work).await;
}

/// Memory for a cache in two tiers, of which the fast one is small.
fn two_tiers() -> CacheMemory {
    CacheMemory::of(|| {
        let builder = Art::builder().fast_memory(64 << 10);
        builder.slow_memory(8 << 20).build()
    })
}

/// What a cache can keep in memory other than the heap.
fn placed() -> [Caching; 4] {
    [
        Caching::ValuesIn(CacheMemory::default()),
        Caching::ValuesIn(two_tiers()),
        Caching::BlocksIn(CacheMemory::default()),
        Caching::BlocksIn(two_tiers()),
    ]
}

async fn load(store: &Store, round: u8) {
    for nth in 0..RECORDS {
        let value = [nth as u8 ^ round; 700];
        store.put(&key(nth), &value).await.expect("there is space");
    }
}

/// Reads all records, and says how many requests to the disk that took.
async fn read_all(simulation: &Simulation, store: &Store, round: u8) -> u64 {
    let before = simulation.requests();
    for nth in 0..RECORDS {
        let value = store.get(&key(nth)).await.expect("it is read");
        assert_eq!(value, Some(vec![nth as u8 ^ round; 700]), "{nth}");
    }
    simulation.requests() - before
}

#[test]
fn a_value_is_read_from_the_disk_once() {
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        with_store(&disk, 0, async |store| load(store, 0).await).await;
        with_store(&disk, 1 << 20, async |store| {
            assert!(read_all(&simulation, store, 0).await >= RECORDS.into());
            assert_eq!(read_all(&simulation, store, 0).await, 0);
            assert!(store.stats().cached_bytes >= 700 * u64::from(RECORDS));
        })
        .await;
        with_store(&disk, 0, async |store| {
            for _ in 0..2 {
                assert!(read_all(&simulation, store, 0).await >= RECORDS.into());
            }
            assert_eq!(store.stats().cached_bytes, 0);
        })
        .await;
    });
}

#[test]
fn what_is_cached_in_a_maps_memory_is_read_from_the_disk_once() {
    for caching in placed() {
        let has_blocks = matches!(caching, Caching::BlocksIn(_));
        let simulation = Simulation::new(3);
        let (disk, mut driver) = Disk::simulated(&simulation);
        driver.block_on(async {
            with_store(&disk, 0, async |store| load(store, 0).await).await;
            with_cache(&disk, 1 << 20, caching, async |store| {
                let first = read_all(&simulation, store, 0).await;
                let again = read_all(&simulation, store, 0).await;
                match has_blocks {
                    // Five records and more are in a block. The last one of a segment may not be
                    // complete, so that its records are read each time.
                    true => assert!(
                        first < u64::from(RECORDS) / 2 && again <= 18,
                        "{first} {again}"
                    ),
                    false => assert!(first >= RECORDS.into() && again == 0, "{first} {again}"),
                }
            })
            .await;
        });
    }
}

#[test]
fn a_small_cache_keeps_to_its_bound() {
    for caching in placed().into_iter().chain([Caching::Values]) {
        let simulation = Simulation::new(3);
        let (disk, mut driver) = Disk::simulated(&simulation);
        driver.block_on(async {
            with_store(&disk, 0, async |store| load(store, 0).await).await;
            let bound = 40 << 10;
            with_cache(&disk, bound, caching, async |store| {
                for _ in 0..3 {
                    assert!(read_all(&simulation, store, 0).await > 0);
                    let cached = store.stats().cached_bytes;
                    assert!(0 < cached && cached <= bound, "{cached}");
                }
            })
            .await;
        });
    }
}

/// Memory for a cache of 1 MiB that has less.
#[test]
fn what_finds_no_memory_is_not_cached() {
    let memory = CacheMemory::of(|| {
        Art::builder()
            .fast_memory(64 << 10)
            .slow_memory(64 << 10)
            .build()
    });
    for caching in [Caching::ValuesIn(memory.clone()), Caching::BlocksIn(memory)] {
        let simulation = Simulation::new(3);
        let (disk, mut driver) = Disk::simulated(&simulation);
        driver.block_on(async {
            with_cache(&disk, 1 << 20, caching, async |store| {
                for round in 0..5 {
                    load(store, round).await;
                    read_all(&simulation, store, round).await;
                }
            })
            .await;
        });
    }
}

#[test]
fn memory_that_can_not_be_made_is_an_error() {
    let memory = CacheMemory::of(|| {
        let builder = Art::builder().fast_memory(1 << 20).fast_nodes([0]);
        builder.slow_memory(1 << 20).slow_nodes([999]).build()
    });
    let (disk, mut driver) = Disk::simulated(&Simulation::new(3));
    let options = Options {
        caching: Caching::ValuesIn(memory),
        ..Options::default()
    };
    let opened = driver.block_on(Store::open_on(&disk, "store".as_ref(), options));
    let error = opened.err().expect("there is no such memory");
    assert!(matches!(error, Error::Configuration(_)), "{error}");
}

/// Overwritten, deleted and put again, and moved by cleaning.
#[test]
fn no_value_is_stale() {
    for caching in placed().into_iter().chain([Caching::Values]) {
        no_value_of(caching);
    }
}

fn no_value_of(caching: Caching) {
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        with_cache(&disk, 1 << 20, caching, async |store| {
            for round in 0..20 {
                load(store, round).await;
                read_all(&simulation, store, round).await;
                for nth in (0..RECORDS).step_by(3) {
                    assert!(store.delete(&key(nth)).await.expect("it is deleted"));
                    assert_eq!(store.get(&key(nth)).await.expect("it is read"), None);
                }
                for nth in (0..RECORDS).step_by(3) {
                    let value = [nth as u8 ^ round; 700];
                    store.put(&key(nth), &value).await.expect("there is space");
                }
                read_all(&simulation, store, round).await;
            }
            assert!(store.stats().moved > 0, "cleaning moved some");
        })
        .await;
    });
}

/// What was written a moment ago is read soon, and a counter again and again.
#[test]
fn what_was_just_written_is_not_read_from_the_disk() {
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        with_store(&disk, 1 << 20, async |store| {
            for round in 0..5 {
                load(store, round).await;
                store.sync().await.expect("it is on the disk");
                // Other requests are those of maintenance.
                let requests = read_all(&simulation, store, round).await;
                assert!(requests < u64::from(RECORDS) / 4, "{requests}");
                let cached = store.stats().cached_bytes;
                assert!((700 * u64::from(RECORDS)..=1 << 20).contains(&cached));
            }
        })
        .await;
    });
}

/// While there is room, values stay in memory when the log's end has moved on from them.
#[test]
fn what_was_written_stays_while_there_is_room() {
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        with_store(&disk, 1 << 20, async |store| {
            load(store, 0).await;
            for nth in 0..4 * RECORDS {
                let other = (RECORDS + nth % 100).to_be_bytes();
                store.put(&other, &[1; 700]).await.expect("there is space");
            }
            store.sync().await.expect("it is on the disk");
            let requests = read_all(&simulation, store, 0).await;
            assert!(requests < u64::from(RECORDS) / 4, "{requests}");
        })
        .await;
    });
}

/// Long keys fill the index fast.
#[test]
fn index_and_cache_share_the_memory() {
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    let (memory, buffers) = (64 << 20, 32 << 20);
    let options = Options {
        durability: Durability::None,
        segment_bytes: 8 << 20,
        direct: false,
        cache_bytes: u64::MAX,
        memory_bytes: memory,
        ..Options::default()
    };
    let key = |nth: u32| [nth.to_be_bytes(); 250].concat();
    driver.block_on(crate::opened::with_store(&disk, options, async |store| {
        let mut cached = 0;
        let full = loop_until_refused(store, key, &mut cached, memory - buffers).await;
        let stats = store.stats();
        assert!(cached > 1 << 20, "there was a cache first: {cached}");
        assert!(stats.index_bytes < memory - buffers + (4 << 20));
        // Old keys are written, and deletes make space.
        store.put(&key(0), b"again").await.expect("it has a place");
        for nth in 0..full {
            assert!(store.delete(&key(nth)).await.expect("it is deleted"));
        }
        store
            .put(&key(full), b"new")
            .await
            .expect("there is memory");
    }));
}

/// Puts until memory is used up; says how many it could.
async fn loop_until_refused(
    store: &Store,
    key: impl Fn(u32) -> Vec<u8>,
    cached: &mut u64,
    memory: u64,
) -> u32 {
    for nth in 0.. {
        match store.put(&key(nth), &[7; 100]).await {
            Ok(()) => {}
            Err(Error::OutOfMemory) => return nth,
            Err(error) => panic!("{error}"),
        }
        if nth % 1000 == 0 {
            let stats = store.stats();
            *cached = stats.cached_bytes.max(*cached);
            let both = stats.index_bytes + stats.cached_bytes;
            assert!(both <= memory + (4 << 20), "{stats:?}");
        }
    }
    unreachable!()
}
