//! The store's operations, and what it says when something goes wrong.

use std::collections::BTreeMap;
use std::path::Path;

use timberline_io::{Disk, Driver, Faults, Simulation, wait_for};
use timberline_store::{Batch, Durability, Error, MAX_KEY, Options, Store, join};

const SEGMENT: u64 = 64 << 10;

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT,
        direct: false,
        ..Options::default()
    }
}

/// Runs work on a store that is opened before and closed after it.
async fn with_store<T>(disk: &Disk, options: Options, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let (store, _) = Store::open_on(disk, Path::new("store"), options)
        .await
        .expect("it opens");
    let work = async {
        let result = work(&store).await;
        store.close();
        result
    };
    let (result, maintained) = join(work, store.maintain()).await;
    maintained.expect("nothing fails");
    result
}

fn simulated(seed: u64) -> (Simulation, Disk, Driver) {
    let simulation = Simulation::new(seed);
    let (disk, driver) = Disk::simulated(&simulation);
    (simulation, disk, driver)
}

#[test]
fn records_are_put_read_and_deleted() {
    let (_, disk, mut driver) = simulated(1);
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            assert!(store.is_empty());
            assert_eq!(store.get(b"a").await.expect("it is read"), None);
            store.put(b"a", b"1").await.expect("it is put");
            store.put(b"", b"").await.expect("an empty key is a key");
            store.put(b"a", b"2").await.expect("it is put");
            assert_eq!(
                store.get(b"a").await.expect("it is read").as_deref(),
                Some(&b"2"[..])
            );
            assert_eq!(
                store.get(b"").await.expect("it is read").as_deref(),
                Some(&b""[..])
            );
            assert_eq!((store.len(), store.contains_key(b"a")), (2, true));
            assert!(store.delete(b"a").await.expect("it is deleted"));
            assert!(!store.delete(b"a").await.expect("it is not there"));
            assert_eq!(store.len(), 1);
        })
        .await;
        // And after it was closed and opened again.
        with_store(&disk, options(), async |store| {
            assert_eq!(store.len(), 1);
            assert_eq!(
                store.get(b"").await.expect("it is read").as_deref(),
                Some(&b""[..])
            );
        })
        .await;
    });
}

#[test]
fn a_value_is_set_only_if_it_is_the_expected_one() {
    let (_, disk, mut driver) = simulated(2);
    driver.block_on(with_store(&disk, options(), async |store| {
        let set = async |expected: Option<&[u8]>, new: Option<&[u8]>| {
            store
                .compare_and_set(b"key", expected, new)
                .await
                .expect("it is done")
        };
        assert_eq!(set(Some(b"1"), Some(b"2")).await, Err(None));
        assert_eq!(set(None, None).await, Ok(()));
        assert_eq!(set(None, Some(b"1")).await, Ok(()));
        assert_eq!(set(None, Some(b"2")).await, Err(Some(b"1".to_vec())));
        assert_eq!(set(Some(b"1"), Some(b"2")).await, Ok(()));
        assert_eq!(set(Some(b"2"), None).await, Ok(()));
        assert!(store.is_empty());
    }));
}

#[test]
fn records_come_in_key_order_from_both_ends() {
    let (_, disk, mut driver) = simulated(11);
    driver.block_on(with_store(&disk, options(), async |store| {
        let mut model = BTreeMap::new();
        for number in 0..500u32 {
            let key = format!("{:04}", number * 7919 % 5000).into_bytes();
            let value = vec![number as u8; 300];
            store.put(&key, &value).await.expect("there is space");
            model.insert(key, value);
        }
        for (from, to) in [("", "9"), ("1000", "2500"), ("3", "3"), ("7", "71")] {
            let bounds = from.as_bytes()..to.as_bytes();
            let expected: Vec<_> = model
                .range::<[u8], _>((
                    std::ops::Bound::Included(bounds.start),
                    std::ops::Bound::Excluded(bounds.end),
                ))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let (mut up, mut down, mut mixed) = (vec![], vec![], (vec![], vec![]));
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next().await {
                up.push(record.expect("it is read"));
            }
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next_back().await {
                down.push(record.expect("it is read"));
            }
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next().await {
                mixed.0.push(record.expect("it is read"));
                mixed
                    .1
                    .extend(scan.next_back().await.map(|it| it.expect("it is read")));
            }
            down.reverse();
            mixed.1.reverse();
            mixed.0.append(&mut mixed.1);
            assert_eq!((&up, &down, &mixed.0), (&expected, &expected, &expected));
        }
        let mut scan = store.prefix(b"49");
        let mut count = 0;
        while let Some(record) = scan.next().await {
            assert!(record.expect("it is read").0.starts_with(b"49"));
            count += 1;
        }
        assert_eq!(
            count,
            model.keys().filter(|it| it.starts_with(b"49")).count()
        );
    }));
}

/// A scan goes on while records are moved, deleted and put.
#[test]
fn a_scan_returns_what_is_there_all_the_time() {
    let (_, disk, mut driver) = simulated(12);
    let options = Options {
        durability: Durability::None,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        for number in 0..400u32 {
            store
                .put(&number.to_be_bytes(), &[1; 500])
                .await
                .expect("there is space");
        }
        let mut scan = store.range(..);
        let mut seen = Vec::new();
        while let Some(record) = scan.next().await {
            seen.push(record.expect("it is read").0);
            // Odd keys come and go, so that segments of even ones are cleaned.
            for number in (1..400u32).step_by(8) {
                let key = number.to_be_bytes();
                store.put(&key, &[2; 900]).await.expect("there is space");
                store.delete(&key).await.expect("it is there");
            }
        }
        assert!(seen.is_sorted());
        let even = seen.iter().filter(|it| it[3].is_multiple_of(2)).count();
        assert_eq!(even, 200);
        assert!(store.stats().moved > 0);
    }));
}

#[test]
fn a_batch_may_name_a_key_twice() {
    let (_, disk, mut driver) = simulated(3);
    driver.block_on(with_store(&disk, options(), async |store| {
        store
            .write(&Batch::new())
            .await
            .expect("nothing is to be done");
        let mut batch = Batch::new();
        batch.put(b"a", b"1");
        batch.delete(b"a");
        batch.put(b"b", b"1");
        batch.put(b"b", b"2");
        batch.delete(b"c");
        store.write(&batch).await.expect("it is written");
        assert_eq!(store.len(), 1);
        assert_eq!(
            store.get(b"b").await.expect("it is read").as_deref(),
            Some(&b"2"[..])
        );
    }));
}

#[test]
fn the_longest_records_are_kept_and_longer_ones_refused() {
    let (_, disk, mut driver) = simulated(4);
    let options = Options {
        segment_bytes: 4 << 20,
        direct: false,
        ..Options::default()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        let (key, most) = (vec![1; MAX_KEY], 512 * 1024 - 24 - 8);
        store.put(&key, b"value").await.expect("the longest key");
        store
            .put(b"k", &vec![2; most])
            .await
            .expect("the longest value");
        assert_eq!(
            store.get(&key).await.expect("it is read").as_deref(),
            Some(&b"value"[..])
        );
        assert_eq!(
            store.get(b"k").await.expect("it is read"),
            Some(vec![2; most])
        );

        let long = store
            .put(&[&key[..], &[1]].concat(), b"")
            .await
            .expect_err("too long");
        assert_eq!(
            long.to_string(),
            "a key of 65536 bytes: the longest are 65535"
        );
        let long = store
            .put(b"k", &vec![0; most + 8])
            .await
            .expect_err("too long");
        let message = "a value of 524264 bytes: this store's longest are 524256";
        assert_eq!(long.to_string(), message);
        let mut batch = Batch::new();
        batch.put(b"a", &vec![0; most / 2]);
        batch.put(b"b", &vec![0; most]);
        let long = store.write(&batch).await.expect_err("too long");
        assert!(long.to_string().starts_with("a batch of 7864"), "{long}");
        assert_eq!(store.len(), 2);
    }));
}

#[test]
fn overwriting_for_ever_needs_no_more_space() {
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

#[test]
fn a_damaged_record_costs_that_record() {
    let (simulation, disk, mut driver) = simulated(7);
    let count = 300u32;
    driver.block_on(with_store(&disk, options(), async |store| {
        for key in 0..count {
            store
                .put(&key.to_le_bytes(), &[key as u8; 700])
                .await
                .expect("there is space");
        }
    }));
    // A checkpoint spares opening the records; without it they are read.
    let files = disk.list(Path::new("store")).expect("it is there");
    for path in files
        .iter()
        .filter(|it| it.extension() != Some("segment".as_ref()))
    {
        disk.remove(path).expect("it is there");
    }
    // In the first segment, which was sealed: the middle of some record.
    let path = Path::new("store/000000.segment");
    simulation
        .flip_bit(path, 8 * (4096 + 10 * 728 + 400))
        .expect("it is there");
    driver.block_on(async {
        // Without a cache, each get reads the disk.
        let options = Options {
            cache_bytes: 0,
            ..options()
        };
        let (store, report) = Store::open_on(&disk, Path::new("store"), options)
            .await
            .expect("it opens");
        assert_eq!(report.damaged, [(path.to_path_buf(), 4096 + 10 * 728)]);
        assert_eq!(
            (report.keys, store.len()),
            (count as usize - 1, count as usize - 1)
        );
        assert_eq!(
            store
                .get(&10u32.to_le_bytes())
                .await
                .expect("it is not there"),
            None
        );
        for key in (0..count).filter(|&key| key != 10) {
            let value = store.get(&key.to_le_bytes()).await.expect("it is read");
            assert_eq!(value, Some(vec![key as u8; 700]));
        }
        // While the store is open, it is found when it is read.
        simulation
            .flip_bit(path, 8 * (4096 + 20 * 728 + 400))
            .expect("it is there");
        let error = store
            .get(&20u32.to_le_bytes())
            .await
            .expect_err("it is damaged");
        assert_eq!(
            error.to_string(),
            "store/000000.segment: the record at byte 18656 is damaged"
        );
    });
}

/// Whether the damage is there when the store is opened, or comes while it is open.
#[test]
fn a_check_finds_each_damaged_record_and_its_key() {
    for reopened in [false, true] {
        let (simulation, disk, mut driver) = simulated(13);
        // Records of 728 bytes, 84 in a segment.
        let place = |number: u64| 4096 + number * 728..4096 + (number + 1) * 728;
        let load = async |store: &Store| {
            for key in 0..300u32 {
                let put = store.put(&key.to_le_bytes(), &[key as u8; 700]).await;
                put.expect("there is space");
            }
            // The record of this key in the first segment is obsolete.
            let put = store.put(&30u32.to_le_bytes(), b"new").await;
            put.expect("there is space");
        };
        let damage = async |store: &Store| {
            let check = store.check().await.expect("it is read");
            assert_eq!((check.records, check.damaged), (301, Vec::new()));
            let path = Path::new("store/000000.segment");
            for number in [10, 20, 21, 30] {
                let bit = 8 * (place(number).start + 400);
                simulation.flip_bit(path, bit).expect("it is there");
            }
            let after = store.check().await.expect("it is read");
            assert_eq!(after.records, 301 - 4);
            let expected = [
                (place(10), vec![10u32.to_le_bytes().to_vec()]),
                (
                    place(20).start..place(21).end,
                    [20u32, 21].map(|it| it.to_le_bytes().to_vec()).to_vec(),
                ),
                (place(30), vec![]),
            ];
            let found = after.damaged.into_iter().map(|it| {
                assert_eq!(it.path, path);
                (it.place, it.keys)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        };
        driver.block_on(async {
            with_store(&disk, options(), async |store| {
                load(store).await;
                if !reopened {
                    damage(store).await;
                }
            })
            .await;
            if reopened {
                with_store(&disk, options(), damage).await;
            }
        });
    }
}

#[test]
fn the_nth_request_fails_for_every_n() {
    let mut n = 0;
    loop {
        let (simulation, disk, mut driver) = simulated(8);
        simulation.set_faults(Faults {
            failed_request: Some(n),
            ..Faults::default()
        });
        let mut acknowledged = BTreeMap::new();
        let mut last = None;
        let reached_the_end = driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let Ok((store, _)) = opened else {
                return false;
            };
            let work = async {
                let mut all = true;
                for write in 0..150u32 {
                    let (key, value) = ((write % 40).to_le_bytes(), vec![write as u8; 900]);
                    last = Some((key, value.clone()));
                    match store.put(&key, &value).await {
                        Ok(()) => drop(acknowledged.insert(key, value)),
                        Err(error) => {
                            if matches!(error, Error::ReadOnly(_)) {
                                assert!(store.failure().is_some(), "{error}");
                            }
                            all = false;
                        }
                    }
                    let read = store.get(&key).await;
                    assert!(!all || read.is_err() || read.expect("it is read").is_some());
                }
                store.close();
                all
            };
            let (all, maintained) = join(work, store.maintain()).await;
            all && maintained.is_ok() && simulation.requests() <= n
        });
        simulation.set_faults(Faults::default());
        driver.block_on(async {
            let (store, _) = Store::open_on(&disk, Path::new("store"), options())
                .await
                .expect("it opens again");
            for (key, value) in &acknowledged {
                let read = store
                    .get(key)
                    .await
                    .expect("it is read")
                    .expect("it is there");
                // A write that failed may have been done all the same.
                assert!(read == *value || read[0] > value[0], "request {n}: {key:?}");
            }
        });
        if reached_the_end {
            break;
        }
        n += 1;
    }
    println!("{n} requests failed, one at a time");
    assert!(n > 100);
}

#[test]
fn another_stores_file_is_refused() {
    let (_, disk, mut driver) = simulated(9);
    let wrong = async |change: &dyn Fn(&mut [u8])| {
        let path = Path::new("other/000000.segment");
        with_store(&disk, options(), async |store| {
            store.put(b"a", b"1").await.expect("it is put");
        })
        .await;
        let from = disk
            .open_file(
                Path::new("store/000000.segment"),
                timberline_io::Mode::read(),
            )
            .expect("it opens");
        let mut bytes = timberline_io::Buffer::zeroed(SEGMENT as usize).expect("memory");
        from.read_exact_now(&mut bytes, 0).expect("it is read");
        change(&mut bytes);
        disk.create_folder(Path::new("other")).expect("a folder");
        let to = disk
            .open_file(path, timberline_io::Mode::create())
            .expect("it opens");
        to.write_all(bytes, 0..SEGMENT as usize, 0)
            .await
            .1
            .expect("it is written");
        let opened = Store::open_on(&disk, Path::new("other"), options()).await;
        opened.err().expect("it is refused").to_string()
    };
    driver.block_on(async {
        let name = "other/000000.segment: ";
        let message = wrong(&|bytes| bytes[0] = b'X').await;
        assert_eq!(message, format!("{name}this is no segment of a store"));
        let message = wrong(&|bytes| bytes[8] = 2).await;
        assert_eq!(
            message,
            format!("{name}its format is version 2; this program reads 1")
        );
        let message = wrong(&|bytes| bytes[20] ^= 1).await;
        assert_eq!(message, format!("{name}its header is damaged"));
    });
}

#[test]
fn options_that_cannot_be_are_named() {
    let (_, disk, mut driver) = simulated(10);
    for (options, message) in [
        (
            Options {
                segment_bytes: 1000,
                ..options()
            },
            "segments of 1000 bytes: they have 65536 to 134217728, in multiples of 4096",
        ),
        (
            Options {
                capacity: 5 * SEGMENT,
                ..options()
            },
            "a capacity of 327680 bytes: with segments of 65536 it is at least 524288",
        ),
    ] {
        let opened = driver.block_on(Store::open_on(&disk, Path::new("store"), options));
        assert_eq!(opened.err().expect("it is refused").to_string(), message);
    }
}

/// On this machine's own disk, from several threads.
#[test]
fn threads_share_a_store() {
    let folder = std::env::temp_dir().join(format!("timberline-store-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let (disk, mut driver) = Disk::open(32);
    let options = Options {
        segment_bytes: 1 << 20,
        ..Options::default()
    };
    let (store, _) = driver
        .block_on(Store::open_on(&disk, &folder, options))
        .expect("it opens");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..500u32 {
                        let key = [thread, (round % 50) as u8];
                        let value = vec![round as u8; 2000];
                        wait_for(store.put(&key, &value)).expect("it is put");
                        let read = wait_for(store.get(&key)).expect("it is read");
                        assert_eq!(read, Some(value));
                    }
                })
            })
            .collect();
        let closer = scope.spawn({
            let store = &store;
            move || {
                for thread in threads {
                    thread.join().expect("it ends");
                }
                store.close();
            }
        });
        driver.block_on(store.maintain()).expect("nothing fails");
        closer.join().expect("it ends");
    });
    assert_eq!(store.len(), 200);
    let closed = wait_for(store.put(b"late", b"")).expect_err("it is closed");
    assert_eq!(closed.to_string(), "the store is closed");
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn a_folder_is_open_once_at_a_time() {
    let folder = std::env::temp_dir().join(format!("timberline-in-use-{}", std::process::id()));
    let (disk, mut driver) = Disk::threads(2);
    driver.block_on(async {
        let open = async || Store::open_on(&disk, &folder, options()).await;
        disk.create_folder(&folder).expect("it is made");
        assert!(!Store::is_in(&disk, &folder).expect("it is read"));
        let (first, _) = open().await.expect("nobody has it");
        let clone = first.clone();
        drop(first);
        match open().await {
            Err(Error::InUse(named)) => assert_eq!(named, folder),
            other => panic!("{:?}", other.map(|it| it.1)),
        }
        drop(clone);
        let (again, _) = open().await.expect("it was given back");
        drop(again);
        assert!(Store::is_in(&disk, &folder).expect("it is read"));
    });
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Puts, overwrites, deletes and batches; also after opening with a checkpoint, and without one.
#[test]
fn keys_are_counted_by_their_first_byte() {
    let (_, disk, mut driver) = simulated(5);
    let counts = |store: &Store| [0, b'a', b'b', 255].map(|first| store.starting_with(first));
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            for key in ["a", "ab", "b", "", "a"] {
                store.put(key.as_bytes(), b"1").await.expect("it is put");
            }
            assert_eq!(counts(store), [0, 2, 1, 0]);
            let mut batch = Batch::new();
            batch.put(b"b2", b"1");
            batch.put(b"b2", b"2");
            batch.put(&[255], b"1");
            batch.delete(b"a");
            batch.delete(b"none");
            store.write(&batch).await.expect("it is written");
            assert_eq!(counts(store), [0, 1, 2, 1]);
            assert!(!store.delete(b"a").await.expect("it is not there"));
            assert_eq!(counts(store), [0, 1, 2, 1]);
        })
        .await;
        with_store(&disk, options(), async |store| {
            assert_eq!(counts(store), [0, 1, 2, 1]);
        })
        .await;
        for path in disk.list(Path::new("store")).expect("it is there") {
            if path.extension() != Some("segment".as_ref()) {
                disk.remove(&path).expect("it is there");
            }
        }
        with_store(&disk, options(), async |store| {
            assert_eq!(counts(store), [0, 1, 2, 1]);
        })
        .await;
    });
}
