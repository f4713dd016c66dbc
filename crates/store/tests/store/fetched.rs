//! Records that are fetched ahead of operations: all at the same time, and never stale.

use std::task::Poll;

use timberline_io::{Disk, Faults, Simulation};
use timberline_store::{CacheMemory, Caching, Error, Expiry, IndexMemory, Options, Store};

use crate::opened::{simulated, tiers, with_store};
use crate::{MAP, options};

const RECORDS: u8 = 16;

fn keys() -> Vec<[u8; 1]> {
    (0..RECORDS).map(|nth| [nth]).collect()
}

/// A store without a cache, unless that is in other memory than the heap's, whose records lie on
/// the disk.
fn with_records(
    simulation: &Simulation,
    change: impl Fn(Options) -> Options,
    work: impl AsyncFnOnce(&Store),
) {
    let (disk, mut driver) = Disk::simulated(simulation);
    let options = || {
        change(Options {
            cache_bytes: 0,
            ..options()
        })
    };
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            // Behind those are others, so that all lie in a segment that is full.
            for key in 0..200 {
                let value = vec![key; 700];
                store.put(&[key], &value).await.expect("there is space");
            }
        })
        .await;
        with_store(&disk, options(), async |store| {
            // What opening left to do is done meanwhile.
            for key in RECORDS..200 {
                store.get(&[key]).await.expect("it is read");
            }
            work(store).await;
        })
        .await;
    });
}

/// Fetches keys, whatever memory that takes.
async fn fetch<'s>(store: &'s Store, keys: &[[u8; 1]]) -> timberline_store::Fetched<'s> {
    let keys: Vec<&[u8]> = keys.iter().map(|it| &it[..]).collect();
    let mut fetched = store.fetched();
    assert_eq!(fetched.fetch(&keys, |_| true).await, keys.len());
    fetched
}

#[test]
fn they_are_read_at_the_same_time_and_once() {
    let simulation = Simulation::new(31);
    with_records(
        &simulation,
        |it| it,
        async |store| {
            let begin = simulation.now_ns();
            for key in keys() {
                assert!(store.get_now(&key, <[u8]>::len).is_pending());
                store.get(&key).await.expect("it is read");
            }
            let one_by_one = simulation.now_ns() - begin;
            let (begin, requests) = (simulation.now_ns(), simulation.requests());
            let before = store.stats();
            // Some twice, and one that is not there.
            let twice = [&keys()[..], &keys()[..3], &[[200]]].concat();
            let fetched = fetch(store, &twice).await;
            assert!((simulation.now_ns() - begin) * 4 < one_by_one);
            assert_eq!(simulation.requests() - requests, RECORDS.into());
            // Two hold the same.
            let again = fetch(store, &keys()).await;
            drop(fetched);
            // The first get of each is the one that was read for.
            for in_memory in [0, u64::from(RECORDS)] {
                for key in keys() {
                    let found = store.get_now(&key, |it| it == [key[0]; 700]);
                    assert_eq!(found, Poll::Ready(Some(true)));
                }
                let stats = store.stats();
                let read = stats.read_from_disk - before.read_from_disk;
                assert_eq!(read, RECORDS.into());
                assert_eq!(stats.found_in_memory - before.found_in_memory, in_memory);
            }
            assert_eq!(simulation.requests() - requests, RECORDS.into());
            drop(again);
            assert!(
                keys()
                    .iter()
                    .all(|it| store.get_now(it, |_| ()).is_pending())
            );
        },
    );
}

#[test]
fn what_changes_meanwhile_is_seen() {
    let simulation = Simulation::new(32);
    with_records(
        &simulation,
        |it| it,
        async |store| {
            let _fetched = fetch(store, &keys()).await;
            store.put(&[0], b"new").await.expect("there is space");
            store.delete(&[1]).await.expect("it is deleted");
            let gone = store.put_expiring(&[2], b"gone", Expiry::At(1));
            gone.await.expect("there is space");
            let values = [Some(&b"new"[..]), None, None, Some(&[3; 700])];
            for (key, value) in keys().iter().zip(values) {
                let found = store.get(key).await.expect("it is read");
                assert_eq!(found.as_deref(), value, "{key:?}");
                if let Poll::Ready(found) = store.get_now(key, <[u8]>::to_vec) {
                    assert_eq!(found.as_deref(), value, "{key:?}");
                }
            }
        },
    );
}

#[test]
fn what_has_no_room_or_can_not_be_read_is_left_to_the_operation() {
    let simulation = Simulation::new(33);
    with_records(
        &simulation,
        |it| it,
        async |store| {
            let all = keys();
            let all: Vec<&[u8]> = all.iter().map(|it| &it[..]).collect();
            let mut room = 4 * 1024;
            let fits = |bytes| {
                assert!((700..=1536).contains(&bytes), "{bytes}");
                room -= bytes as i64;
                room >= 0
            };
            let mut fetched = store.fetched();
            let looked_at = fetched.fetch(&all, fits).await;
            let is_here = |it: &&&[u8]| store.get_now(it, |_| ()).is_ready();
            let here = all.iter().filter(is_here).count();
            assert!((2..6).contains(&here) && looked_at == here, "{here}");
            // What it has it does not read again.
            let read = store.stats().read_from_disk;
            fetched.fetch(&all, |_| true).await;
            let more = store.stats().read_from_disk - read;
            assert_eq!(more, (all.len() - here) as u64);
            drop(fetched);
            simulation.set_faults(Faults {
                failed_request: Some(simulation.requests()),
                ..Faults::default()
            });
            let mut fetched = store.fetched();
            fetched.fetch(&all, |_| true).await;
            assert_eq!(all.iter().filter(is_here).count(), all.len() - 1);
            drop(fetched);
            // It fails once only.
            let found = store.get(&[0]).await;
            assert!(matches!(found, Ok(Some(_)) | Err(Error::Disk(..))));
        },
    );
}

/// Where the index, or the cache, may be in slow memory.
#[test]
fn they_are_found_whatever_memory_there_is() {
    let blocks = || Options {
        cache_bytes: 1 << 20,
        caching: Caching::BlocksIn(CacheMemory::default()),
        ..options()
    };
    let slow = || Options {
        index: tiers(MAP.get(), 8 << 20),
        ..options()
    };
    let small = || Options {
        index: IndexMemory::default(),
        cache_bytes: 4 << 10,
        ..options()
    };
    let shapes: [fn() -> Options; 3] = [blocks, slow, small];
    for (seed, shape) in (34..).zip(shapes) {
        let simulation = Simulation::new(seed);
        with_records(
            &simulation,
            |_| shape(),
            async |store| {
                let _fetched = fetch(store, &keys()).await;
                let requests = simulation.requests();
                for key in keys() {
                    let found = store.get(&key).await.expect("it is read");
                    assert_eq!(found, Some(vec![key[0]; 700]));
                }
                assert_eq!(simulation.requests(), requests, "{seed}");
            },
        );
    }
}

#[test]
fn values_in_pieces_are_passed_over() {
    let (simulation, disk, mut driver) = simulated(37);
    driver.block_on(with_store(&disk, options(), async |store| {
        let value = vec![7; 60_000];
        store.put(b"key", &value).await.expect("there is space");
        store.sync().await.expect("nothing fails");
        let requests = simulation.requests();
        let mut fetched = store.fetched();
        fetched.fetch(&[b"key"], |_| true).await;
        assert_eq!(simulation.requests(), requests);
        let found = store.get(b"key").await.expect("it is read");
        assert_eq!(found, Some(value));
    }));
}
