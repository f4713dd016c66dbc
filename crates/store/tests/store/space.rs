//! Space on the disk: cleaning bounds it, and a full store recovers.

use std::collections::BTreeMap;
use std::path::Path;
use std::task::{Context, Waker};

use timberline_io::{Disk, Faults, Mode};
use timberline_store::{Batch, Durability, Error, Options, Store, join};

use crate::checkpoints::beside_maintenance;
use crate::{SEGMENT, options, simulated, with_store};

#[test]
pub fn overwriting_for_ever_needs_no_more_space() {
    let (simulation, disk, mut driver) = simulated(5);
    let options = Options {
        capacity: 20 * SEGMENT,
        durability: Durability::None,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut model = BTreeMap::new();
        // Ten segments' worth of keys, each overwritten twenty times.
        for write in 0..12_000u32 {
            let key = rng.u32(0..600).to_le_bytes();
            let value = vec![write as u8; 1000];
            store.put(&key, &value).await.expect("there is space");
            model.insert(key, value);
        }
        for (key, value) in &model {
            assert_eq!(
                store.get(key).await.expect("it is read").as_ref(),
                Some(value)
            );
        }
        let stats = store.stats();
        println!("{stats:?}, {} bytes on the disk", simulation.used());
        assert!(stats.cleaned > 100 && stats.segments <= 20);
        // A checkpoint, and the next one under way, take 16 bytes a key and whole blocks.
        assert!(simulation.used() <= 20 * SEGMENT + 2 * (600 * 16 + 3 * 4096));
    }));
}

#[test]
fn what_reads_wait_for_is_small() {
    let (_, disk, mut driver) = simulated(7);
    let options = Options {
        segment_bytes: 4 << 20,
        capacity: 12 * (4 << 20),
        cache_bytes: 0,
        durability: Durability::None,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        const KEYS: u32 = 32_000;
        const RECORD: u64 = 1040;
        let mut rng = fastrand::Rng::with_seed(7);
        let overwrite = async |keys: &mut dyn Iterator<Item = u32>| {
            let (before, cleaned) = (disk.counts(), store.stats().cleaned);
            for key in keys {
                let put = store.put(&key.to_le_bytes(), &[1; 1000]).await;
                put.expect("there is space");
            }
            let counts = disk.counts();
            let mean = |bytes, requests| bytes / u64::max(requests, 1);
            let read = mean(
                counts.read_bytes - before.read_bytes,
                counts.reads - before.reads,
            );
            let written = mean(
                counts.written_bytes - before.written_bytes,
                counts.writes - before.writes,
            );
            (read, written, store.stats().cleaned - cleaned)
        };
        overwrite(&mut (0..KEYS)).await;
        let mut any = std::iter::repeat_with(|| rng.u32(0..KEYS)).take(3 * KEYS as usize);
        let (read, written, cleaned) = overwrite(&mut any).await;
        assert!(cleaned > 10, "{cleaned}");
        assert!(read > 128 << 10 && written > 128 << 10, "{read}, {written}");

        // A get whose read is under way for as long as nobody looks at it.
        let key = 3u32.to_le_bytes();
        let mut get = Box::pin(store.get(&key));
        let mut context = Context::from_waker(Waker::noop());
        assert!(get.as_mut().poll(&mut context).is_pending());
        let mut any = std::iter::repeat_with(|| rng.u32(4..KEYS)).take(3 * KEYS as usize);
        let (read, written, cleaned) = overwrite(&mut any).await;
        assert!(cleaned > 10, "{cleaned}");
        let most = (64 << 10) + RECORD + 8192;
        assert!(read <= most && written <= most, "{read}, {written}");
        let value = get.await.expect("it is read");
        assert_eq!(value, Some(vec![1; 1000]));
    }));
}

#[test]
fn a_full_store_reads_deletes_and_takes_writes_again() {
    for disk_is_full in [false, true] {
        let (simulation, disk, mut driver) = simulated(6);
        let bytes = 10 * SEGMENT;
        let capacity = if disk_is_full { u64::MAX } else { bytes };
        if disk_is_full {
            simulation.set_faults(Faults {
                capacity: bytes,
                ..Faults::default()
            });
        }
        let options = Options {
            capacity,
            ..options()
        };
        driver.block_on(with_store(&disk, options, async |store| {
            let mut put = 0u32;
            let error = loop {
                match store.put(&put.to_le_bytes(), &[7; 900]).await {
                    Ok(()) => put += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Full), "{error}");
            assert!(put > 250, "{put}");
            for key in 0..put {
                let value = store.get(&key.to_le_bytes()).await.expect("it is read");
                assert_eq!(value, Some(vec![7; 900]));
            }
            for key in 0..put / 2 {
                assert!(
                    store
                        .delete(&key.to_le_bytes())
                        .await
                        .expect("deletes go on")
                );
            }
            let mut again = 0;
            for _ in 0..10_000 {
                match store.put(&(put + again).to_le_bytes(), &[8; 900]).await {
                    Ok(()) => again += 1,
                    Err(Error::Full) => {}
                    Err(error) => panic!("{error}"),
                }
                if again == put / 4 {
                    break;
                }
            }
            assert_eq!(again, put / 4, "space came back");
        }));
    }
}

/// A delete may begin a segment of the reserve. Puts used to fill it, and the next one, until
/// nothing was left for deletes and for cleaning.
#[test]
fn puts_take_nothing_of_what_is_kept_for_deletes() {
    let (_, disk, mut driver) = simulated(8);
    let options = Options {
        capacity: 10 * SEGMENT,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        let mut put = 0u32;
        let mut put_all = async || loop {
            match store.put(&put.to_le_bytes(), &[7; 900]).await {
                Ok(()) => put += 1,
                Err(Error::Full) => break put,
                Err(error) => panic!("{error}"),
            }
        };
        let mut gone = 0u32;
        let there = put_all().await;
        for _ in 0..100 {
            let deleted = store.delete(&gone.to_le_bytes()).await;
            assert!(deleted.expect("deletes go on"), "{gone}");
            gone += 1;
            let all = put_all().await;
            // A segment for records that are moved had space.
            let most = there + gone + (SEGMENT / 900) as u32;
            assert!(all <= most, "{all} of {most} after {gone} deletes");
        }
    }));
}

/// A key of so many bytes.
fn long_key(nth: u32, bytes: usize) -> Vec<u8> {
    nth.to_be_bytes().repeat(bytes / 4)
}

/// Puts keys that have no value until the store is full, from this one on. Returns the next one.
async fn put_keys(store: &Store, from: u32, bytes: usize) -> u32 {
    for nth in from.. {
        match store.put(&long_key(nth, bytes), b"").await {
            Ok(()) => {}
            Err(Error::Full) => return nth,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("it is full before")
}

/// Deletes these keys in no order.
async fn delete_keys(store: &Store, keys: std::ops::Range<u32>, bytes: usize) {
    let mut keys: Vec<u32> = keys.collect();
    fastrand::Rng::with_seed(9).shuffle(&mut keys);
    for (nth, key) in keys.into_iter().enumerate() {
        let deleted = store.delete(&long_key(key, bytes)).await;
        let deleted = deleted.unwrap_or_else(|error| panic!("delete {nth}: {error}"));
        assert!(deleted, "{nth}");
    }
}

/// Deletes as long as what they delete used to take all of the reserve: they were refused, or
/// cleaning waited for ever for a segment that it alone can make. With many segments, all that one
/// segment of deletes makes obsolete is little of each.
#[test]
fn deletes_alone_empty_a_full_store() {
    for (segments, bytes) in [(10, 4000), (32, 400)] {
        let (_, disk, mut driver) = simulated(9);
        let options = Options {
            capacity: segments * SEGMENT,
            durability: Durability::None,
            ..options()
        };
        driver.block_on(with_store(&disk, options, async |store| {
            let put = put_keys(store, 0, bytes).await;
            assert!(
                u64::from(put) > (segments - 5) * 60_000 / bytes as u64,
                "{put}"
            );
            delete_keys(store, 0..put, bytes).await;
            assert!(store.is_empty());
            println!("{:?}", store.stats());
            // There is space again, of which deletes that are still kept take a fifth.
            let again = put_keys(store, put, bytes).await - put;
            assert!(again >= put / 4 * 3, "{again} after {put}");
        }));
    }
}

/// A store that is opened begins two segments. Those of its predecessor, of which hardly anything
/// was written, used to stay for ever.
#[test]
fn opening_a_store_again_takes_no_space() {
    let (_, disk, mut driver) = simulated(10);
    let options = || Options {
        capacity: 10 * SEGMENT,
        ..options()
    };
    driver.block_on(async {
        for round in 0..30u32 {
            with_store(&disk, options(), async |store| {
                let put = store.put(&round.to_be_bytes(), &[round as u8; 900]).await;
                put.unwrap_or_else(|error| panic!("round {round}: {error}"));
                for key in 0..=round {
                    let found = store.get(&key.to_be_bytes()).await.expect("it is read");
                    assert_eq!(found, Some(vec![key as u8; 900]), "round {round}");
                }
                // The two that were begun, until others are cleaned.
                assert!(store.stats().segments <= 12, "{:?}", store.stats());
            })
            .await;
        }
    });
}

/// The segments that a store begins when it is opened used to be there for puts, whatever was left
/// for deletes and for cleaning.
#[test]
fn a_full_store_that_is_opened_again_still_deletes() {
    const BYTES: usize = 4000;
    let (_, disk, mut driver) = simulated(11);
    let options = || Options {
        capacity: 10 * SEGMENT,
        durability: Durability::None,
        ..options()
    };
    driver.block_on(async {
        let mut put = 0;
        for round in 0..5 {
            let (before, segments) = with_store(&disk, options(), async |store| {
                let before = put;
                put = put_keys(store, put, BYTES).await;
                (before, store.stats().segments)
            })
            .await;
            println!("round {round}: {put} keys, {segments} segments");
            assert!(round == 0 || put == before, "{put} after {before}");
            assert!(segments <= 12, "{segments}");
        }
        with_store(&disk, options(), async |store| {
            delete_keys(store, 0..put, BYTES).await;
            assert!(store.is_empty());
        })
        .await;
    });
}

/// What was made in advance is the space for what opening begins.
#[test]
fn a_store_on_a_full_disk_opens_after_a_crash() {
    let (simulation, disk, mut driver) = simulated(12);
    let put = driver.block_on(async {
        let limited = Faults {
            capacity: 20 * SEGMENT,
            ..Faults::default()
        };
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, _) = opened.expect("it opens");
        simulation.set_faults(limited);
        // The power goes off then.
        beside_maintenance(&store, async {
            let put = put_keys(&store, 0, 900).await;
            store.sync().await.expect("it is written");
            put
        })
        .await
    });
    println!("{put} keys");
    let simulation = simulation.crash();
    let (disk, mut driver) = Disk::simulated(&simulation);
    for round in 0..3 {
        simulation.set_faults(Faults {
            capacity: simulation.used(),
            ..Faults::default()
        });
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, report) = opened.unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!((report.keys, store.len()), (put as usize, put as usize));
            for nth in 0..put {
                assert!(store.contains_key(&long_key(nth, 900)), "{nth}");
            }
        });
    }
    driver.block_on(with_store(&disk, options(), async |store| {
        delete_keys(store, 0..put, 900).await;
        assert!(put_keys(store, 0, 900).await > 0);
    }));
}

#[test]
fn what_a_store_did_not_use_of_its_last_segments_is_given_back() {
    for is_closed in [false, true] {
        let (_, disk, mut driver) = simulated(14);
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, _) = opened.expect("it opens");
            let work = async {
                store.put(b"key", b"value").await.expect("there is space");
                if is_closed {
                    store.close();
                }
            };
            match is_closed {
                true => join(work, store.maintain()).await.1.expect("it is closed"),
                false => beside_maintenance(&store, work).await,
            }
            drop(store);
            for _ in 0..2 {
                let opened = Store::open_on(&disk, Path::new("store"), options()).await;
                assert_eq!(opened.expect("it opens").0.len(), 1);
                let file = disk.open_file(Path::new("store/000000.segment"), Mode::read());
                let bytes = file.and_then(|it| it.len()).expect("it is there");
                assert_eq!(bytes, 8192, "{is_closed}");
            }
        });
    }
}

/// What opening begins is as long as the disk has space for: what the last start left, less what it
/// wrote.
#[test]
fn a_store_on_a_full_disk_opens_again_and_again() {
    const ROUNDS: u32 = 6;
    let (simulation, disk, mut driver) = simulated(13);
    let fill = async || {
        let mut put = 0u32;
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, _) = opened.expect("it opens");
        simulation.set_faults(Faults {
            capacity: 20 * SEGMENT,
            ..Faults::default()
        });
        beside_maintenance(&store, async {
            while store.put(&put.to_be_bytes(), &[7; 900]).await.is_ok() {
                put += 1;
            }
            store.sync().await.expect("it is written");
            put
        })
        .await
    };
    let put = driver.block_on(fill());
    for round in 0..ROUNDS {
        simulation.set_faults(Faults {
            // For a checkpoint, where the store is closed, and for no segment.
            capacity: simulation.used() + SEGMENT / 2,
            ..Faults::default()
        });
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, report) = opened.unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(report.keys, (put - round) as usize);
            let work = async {
                let deleted = store.delete(&round.to_be_bytes()).await;
                assert!(deleted.expect("deletes go on"));
                if round % 2 == 1 {
                    store.close();
                }
            };
            match round % 2 {
                0 => beside_maintenance(&store, work).await,
                _ => join(work, store.maintain()).await.1.expect("it is closed"),
            }
        });
    }
    driver.block_on(with_store(&disk, options(), async |store| {
        for nth in ROUNDS..put {
            let deleted = store.delete(&nth.to_be_bytes()).await;
            assert!(deleted.unwrap_or_else(|error| panic!("{nth}: {error}")));
        }
        for nth in 0..put / 2 {
            let put = store.put(&nth.to_be_bytes(), &[8; 900]).await;
            put.unwrap_or_else(|error| panic!("{nth}: {error}"));
        }
    }));
}

#[test]
fn little_that_is_overwritten_needs_no_moves() {
    let (_, disk, mut driver) = simulated(7);
    let options = Options {
        capacity: 40 * SEGMENT,
        idle_bytes: 4 * SEGMENT,
        durability: Durability::None,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        // Half a segment that is overwritten in turn, and keys that others take the place of.
        for write in 0..10_000u32 {
            let mut batch = Batch::new();
            batch.put(&(write % 32).to_be_bytes(), &[write as u8; 900]);
            batch.put(&[&b"at"[..], &write.to_be_bytes()].concat(), b"");
            if let Some(old) = write.checked_sub(32) {
                batch.delete(&[&b"at"[..], &old.to_be_bytes()].concat());
            }
            store.write(&batch).await.expect("there is space");
        }
        let stats = store.stats();
        println!("{stats:?}");
        assert!(stats.cleaned > 100 && stats.segments <= 12);
        assert_eq!((stats.moved, stats.keys), (0, 64));
    }));
}
