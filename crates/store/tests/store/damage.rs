//! Damaged records and failed requests: each costs no more than it has to.

use std::collections::BTreeMap;
use std::path::Path;

use timberline_io::{Buffer, Disk, Faults, Mode};
use timberline_store::{Batch, Dropped, Durability, Error, Options, Shortened, Store, join};

use crate::checkpoints::beside_maintenance;
use crate::expiry::remove_checkpoints;
use crate::{options, options_with, simulated, with_store};

/// Options with which a segment has nothing between its records: none says what was on the disk
/// before.
fn unmarked() -> Options {
    options_with(Durability::None)
}

#[test]
fn a_damaged_record_costs_that_record() {
    let (simulation, disk, mut driver) = simulated(7);
    let count = 300u32;
    driver.block_on(with_store(&disk, unmarked(), async |store| {
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
        disk.remove_now(path).expect("it is there");
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
        let dropped = Dropped {
            path: path.into(),
            offset: 4096 + 10 * 728,
            keys: vec![10u32.to_le_bytes().to_vec()],
        };
        assert_eq!(report.damaged, [dropped]);
        assert_eq!(report.damaged_bytes, 728);
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

/// What was on the disk when more was written is damaged since, also where the store was killed: it
/// costs as little as in a segment that was sealed. What came last may be where a crash ended it.
#[test]
fn a_damaged_record_costs_that_record_after_a_kill() {
    let count = 60u64;
    let value = |key: u64| [1 + key as u8; 696];
    for (damaged, is_last) in [(0, false), (3, false), (40, false), (count - 1, true)] {
        let (simulation, disk, mut driver) = simulated(7);
        let path = Path::new("store/000000.segment");
        let open = async || {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            opened.expect("it opens")
        };
        driver.block_on(async {
            let (store, _) = open().await;
            let work = async {
                for key in 0..count {
                    let put = store.put(&key.to_le_bytes(), &value(key)).await;
                    put.expect("there is space");
                }
            };
            beside_maintenance(&store, work).await;
        });
        let bytes = driver.block_on(whole(&disk, path));
        let at = bytes.windows(696).position(|it| it == value(damaged));
        let at = at.expect("it is there") as u64;
        simulation
            .flip_bit(path, 8 * (at + 400))
            .expect("it is there");
        let offset = at - 24 - 8;
        for round in 0..2 {
            driver.block_on(async {
                let (store, report) = open().await;
                assert_eq!(report.keys as u64, count - 1, "{round}");
                for key in (0..count).filter(|&key| key != damaged) {
                    let found = store.get(&key.to_le_bytes()).await.expect("it is read");
                    assert_eq!(found, Some(value(key).to_vec()));
                }
                let dropped = Dropped {
                    path: path.into(),
                    offset,
                    keys: vec![damaged.to_le_bytes().to_vec()],
                };
                match is_last {
                    true => assert_eq!(report.incomplete, [(path.into(), offset)]),
                    false => assert_eq!(report.damaged, [dropped]),
                }
                assert_eq!(report.damaged.len() + report.incomplete.len(), 1);
                let check = store.check().await.expect("it is read");
                assert_eq!(check.damaged.len(), usize::from(!is_last));
            });
        }
    }
}

async fn whole(disk: &Disk, path: &Path) -> Vec<u8> {
    let file = disk.open_file(path, Mode::read()).expect("it is there");
    let bytes = file.len().expect("it is there") as usize;
    let buffer = Buffer::zeroed(bytes).expect("there is memory");
    let (buffer, read) = file.read_exact(buffer, 0..bytes, 0).await;
    read.expect("it is read");
    buffer.to_vec()
}

/// Nothing says that what is damaged was on the disk: what is behind it is dropped, which is told,
/// and stays in its file. That file is not taken for one in which nothing was written.
#[test]
fn what_is_dropped_behind_damage_is_told_and_stays() {
    let path = Path::new("store/000000.segment");
    // A bit, or all of the record: the store may have been killed before its block was written.
    for zeros in [false, true] {
        let (simulation, disk, mut driver) = simulated(7);
        let (before, after) = driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), unmarked()).await;
            let (store, _) = opened.expect("it opens");
            let work = async {
                for key in 0..20u64 {
                    let put = store.put(&key.to_le_bytes(), &[7; 480]).await;
                    put.expect("there is space");
                }
                store.sync().await.expect("it is written");
            };
            beside_maintenance(&store, work).await;
            drop(store);
            match zeros {
                true => {
                    let file = disk.open_file(path, Mode::create()).expect("it is there");
                    let zeros = Buffer::zeroed(512).expect("there is memory");
                    let (_, written) = file.write_all(zeros, 0..512, 4096).await;
                    written.expect("it is written");
                }
                false => simulation.flip_bit(path, 8 * 4200).expect("it is there"),
            }
            let before = whole(&disk, path).await;
            let opened = Store::open_on(&disk, Path::new("store"), unmarked()).await;
            let (store, report) = opened.expect("it opens");
            assert_eq!(
                (store.len(), report.incomplete),
                (0, vec![(path.into(), 4096)])
            );
            (before, whole(&disk, path).await)
        });
        assert_eq!(before, after);
    }
}

/// Segments that a checkpoint knows: some gone, others cut off. Neither is what a crash leaves.
#[test]
fn segments_that_are_gone_or_cut_off_are_named() {
    let count = 300u32;
    let load = async |store: &Store| {
        for key in 0..count {
            let put = store.put(&key.to_le_bytes(), &[key as u8; 700]).await;
            put.expect("there is space");
        }
    };
    let path = Path::new("store/000000.segment");
    let opened = async |disk: &Disk| {
        let opened = Store::open_on(disk, Path::new("store"), options()).await;
        opened.expect("it opens")
    };

    let (_, disk, mut driver) = simulated(7);
    driver.block_on(async {
        with_store(&disk, options(), load).await;
        disk.remove_now(path).expect("it is there");
        let (store, report) = opened(&disk).await;
        let lost = u64::from(count) - store.len() as u64;
        assert!(lost > 0);
        assert_eq!(report.shortened, [Shortened::Missing(path.into(), lost)]);
        let line = format!(
            "lost: {} is missing: {lost} keys had their values there",
            path.display()
        );
        assert_eq!(report.losses(|key| key).collect::<Vec<_>>(), [line]);
    });

    let (_, disk, mut driver) = simulated(7);
    driver.block_on(async {
        with_store(&disk, options(), load).await;
        let file = disk.open_file(path, Mode::create()).expect("it is there");
        let end = file.len().expect("it is there");
        file.set_len(20_480).expect("it is there");
        drop(file);
        let (store, report) = opened(&disk).await;
        assert!(store.len() < count as usize);
        let [Shortened::CutOff(of, 20_480, before)] = &report.shortened[..] else {
            panic!("{report:?}");
        };
        assert!(of == path && *before > 20_480 && *before <= end);
        let passed_over = report.checkpoints.iter().map(|it| &it.1[..]);
        assert!(passed_over.eq(["000000.segment is shorter than it says"]));
        for key in 0..count {
            let value = store.get(&key.to_le_bytes()).await.expect("it is read");
            assert!(value.is_none_or(|it| it == [key as u8; 700]));
        }
    });
}

async fn put_sevens(store: &Store, keys: u32) {
    for key in 0..keys {
        let put = store.put(&key.to_le_bytes(), &[7; 700]).await;
        put.expect("there is space");
    }
}

/// Cleaning removes segments behind a checkpoint: none of them is missing.
#[test]
fn segments_that_were_cleaned_are_not_missing() {
    let (_, disk, mut driver) = simulated(7);
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            put_sevens(store, 300).await;
        })
        .await;
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, _) = opened.expect("it opens");
        let before = store.stats();
        let work = async {
            while store.stats().cleaned < before.cleaned + 4 {
                let key = fastrand::u32(..300).to_le_bytes();
                store.put(&key, &[8; 700]).await.expect("there is space");
            }
            store.sync().await.expect("it is written");
        };
        beside_maintenance(&store, work).await;
        drop(store);
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, report) = opened.expect("it opens");
        assert_eq!((store.len(), report.shortened), (300, Vec::new()));
    });
}

/// Deletes behind a checkpoint may be cleaned, too, when what they hide is gone: then nothing is
/// behind it.
#[test]
fn segments_whose_keys_were_deleted_are_not_missing() {
    let (_, disk, mut driver) = simulated(7);
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            put_sevens(store, 100).await;
        })
        .await;
        // Each ends as by a kill.
        for start in 0..4 {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, report) = opened.expect("it opens");
            assert_eq!(report.shortened, [], "{start}");
            let work = async {
                for key in 0..100u32 {
                    store
                        .delete(&key.to_le_bytes())
                        .await
                        .expect("there is space");
                }
                // Until maintenance has nothing to do.
                for _ in 0..1000 {
                    timberline_io::yield_now().await;
                }
                store.sync().await.expect("it is written");
            };
            beside_maintenance(&store, work).await;
        }
    });
}

/// Opening names the keys whose last changes it drops, and no others; so does a check then.
#[test]
fn keys_of_dropped_records_are_named() {
    const BYTES: u64 = 24 + 8 + 696;
    let place = |number: u64| 4096 + number * BYTES;
    let key = |number: u64| format!("key {number:04}").into_bytes();
    let value = [7; 696];
    let (simulation, disk, mut driver) = simulated(19);
    let path = Path::new("store/000000.segment");
    driver.block_on(async {
        with_store(&disk, unmarked(), async |store| {
            // 82 records in a segment.
            for number in 0..40 {
                store.put(&key(number), &value).await.expect("it is put");
            }
            for number in [5, 6] {
                store.delete(&key(number)).await.expect("it is deleted");
            }
            for number in 10..20 {
                store.put(&key(number), &value).await.expect("it is put");
            }
            store.delete(&key(30)).await.expect("it is deleted");
            let mut batch = Batch::new();
            (40..48).for_each(|number| batch.put(&key(number), &value));
            store.write(&batch).await.expect("it is written");
            for number in 48..200 {
                store.put(&key(number), &value).await.expect("it is put");
            }
        })
        .await;
        remove_checkpoints(&disk);
        // Two side by side that were current; one deleted; one overwritten; a delete, whose key is
        // back; one that has an older value; one of a batch.
        let deletes = place(40);
        let again = deletes + 64;
        let batch = again + 10 * BYTES + 32;
        let flipped = [
            place(0) + 100,
            place(1) + 200,
            place(5) + 100,
            place(11) + 100,
            deletes + 32,
            again + 2 * BYTES + 8,
            batch + 3 * BYTES + 50,
        ];
        for byte in flipped {
            simulation.flip_bit(path, 8 * byte).expect("it is there");
        }
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, report) = opened.expect("it opens");
        let found: Vec<_> = report
            .damaged
            .iter()
            .map(|it| (it.offset, it.keys.clone()))
            .collect();
        let expected = [
            (place(0), vec![key(0), key(1)]),
            (place(5), vec![]),
            (place(11), vec![]),
            (deletes + 32, vec![key(6)]),
            (again + 2 * BYTES, vec![key(12)]),
            (batch + 3 * BYTES, vec![key(43)]),
        ];
        assert_eq!(found, expected);
        let check = store.check().await.expect("it is read");
        let found: Vec<_> = check
            .damaged
            .iter()
            .map(|it| (it.place.start, it.keys.clone()))
            .collect();
        assert_eq!(found, expected);
        let losses: Vec<String> = report.losses(|key| key).collect();
        assert_eq!(
            losses[0],
            "lost: the record at byte 4096 of store/000000.segment is damaged; it was the last \
             change of \"key 0000\", \"key 0001\""
        );
        // The one before.
        let found = store.get(&key(12)).await.expect("it is read");
        assert_eq!(found, Some(value.to_vec()));
    });
}

/// Each as long as it can't be read, and no longer.
#[test]
fn sectors_that_cannot_be_read_cost_their_records() {
    let (simulation, disk, mut driver) = simulated(21);
    let path = Path::new("store/000000.segment");
    // It has the end of one record and the beginning of the next.
    const LOST: u64 = 4096 + 10 * 728 + 512;
    let options = || Options {
        capacity: 12 * crate::SEGMENT,
        cache_bytes: 0,
        durability: Durability::None,
        ..options()
    };
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            for key in 0..300u32 {
                let put = store.put(&key.to_le_bytes(), &[key as u8; 700]).await;
                put.expect("there is space");
            }
        })
        .await;
        simulation.lose_sector(path, LOST).expect("it is there");
        with_store(&disk, options(), async |store| {
            for key in 0..300u32 {
                match store.get(&key.to_le_bytes()).await {
                    Ok(Some(value)) => assert_eq!(value, [key as u8; 700]),
                    Err(Error::Corrupt(..)) if [10, 11].contains(&key) => {}
                    other => panic!("{key}: {other:?}"),
                }
            }
            let check = store.check().await.expect("it is read");
            let keys: Vec<_> = check.damaged.iter().map(|it| &it.keys[..]).collect();
            assert_eq!(keys, [[10u32, 11].map(|it| it.to_le_bytes().to_vec())]);
            // Cleaning leaves the segment, though little of it is current.
            for round in 0..15 {
                for key in (0..300u32).filter(|key| key % 10 > 1) {
                    let put = store.put(&key.to_le_bytes(), &[round; 700]).await;
                    put.expect("there is space");
                }
            }
            assert!(store.stats().cleaned > 20);
            // It can be read again.
            simulation.find_sector(path, LOST).expect("it is there");
            for key in [10u32, 11] {
                let value = store.get(&key.to_le_bytes()).await.expect("it is read");
                assert_eq!(value, Some(vec![key as u8; 700]));
            }
        })
        .await;
    });
}

/// They are not left out of the next checkpoint.
#[test]
fn records_that_no_checkpoint_knows_have_to_be_readable() {
    let (simulation, disk, mut driver) = simulated(22);
    driver.block_on(async {
        let opened = Store::open_on(&disk, Path::new("store"), options()).await;
        let (store, _) = opened.expect("it opens");
        // As a kill leaves it.
        beside_maintenance(&store, async {
            for key in 0..100u32 {
                let put = store.put(&key.to_le_bytes(), &[7; 700]).await;
                put.expect("there is space");
            }
        })
        .await;
    });
    for number in [0, 2] {
        let simulation = simulation.crash();
        let path = format!("store/{number:06x}.segment");
        let lost = simulation.lose_sector(Path::new(&path), 4096 + 5 * 728);
        lost.expect("it is there");
        let (disk, mut driver) = Disk::simulated(&simulation);
        let opened = driver.block_on(Store::open_on(&disk, Path::new("store"), options()));
        let error = opened.err().expect("it is not opened").to_string();
        let reason = "the disk can't read all of it, and no checkpoint knows its records";
        assert_eq!(error, format!("{path}: {reason}"));
        let found = simulation.find_sector(Path::new(&path), 4096 + 5 * 728);
        found.expect("it is there");
        let opened = driver.block_on(Store::open_on(&disk, Path::new("store"), options()));
        assert_eq!(opened.expect("it opens").1.keys, 100);
    }
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
            store.sync().await.expect("it is written");
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
            with_store(&disk, unmarked(), async |store| {
                load(store).await;
                if !reopened {
                    damage(store).await;
                }
            })
            .await;
            if reopened {
                with_store(&disk, unmarked(), damage).await;
            }
        });
    }
}

/// Cleaning checks records ahead, in groups of 16.
#[test]
fn cleaning_moves_all_but_a_damaged_record() {
    const KEYS: u32 = 6 * 84;
    let value = |key: u32, round: u32| vec![(key + round) as u8; 700];
    for damaged in [0, 1, 15, 16, 40u32] {
        for is_obsolete in [false, true] {
            let (simulation, disk, mut driver) = simulated(17);
            let options = Options {
                capacity: 12 * options().segment_bytes,
                cache_bytes: 0,
                durability: Durability::None,
                ..options()
            };
            let work = async |store: &Store| {
                let put = async |key: u32, round| {
                    let put = store.put(&key.to_le_bytes(), &value(key, round)).await;
                    put.expect("there is space");
                };
                // 84 records in a segment.
                for key in 0..KEYS {
                    put(key, 0).await;
                }
                store.sync().await.expect("it is written");
                let bit = 8 * (4096 + u64::from(damaged) * 728 + 400);
                let path = Path::new("store/000000.segment");
                simulation.flip_bit(path, bit).expect("it is there");
                if is_obsolete {
                    put(damaged, 1).await;
                }
                // A third of the records, none of them damaged.
                let others = (0..KEYS).filter(|key| key % 3 == 2);
                for round in 1..=20 {
                    for key in others.clone() {
                        put(key, round).await;
                    }
                }
                assert!(store.stats().cleaned > 20);
                let files = disk.list(Path::new("store")).expect("it is there");
                assert_eq!(files.iter().any(|it| it == path), !is_obsolete);
                for key in 0..KEYS {
                    let read = store.get(&key.to_le_bytes()).await;
                    let round = match key % 3 {
                        2 => 20,
                        _ => u32::from(key == damaged && is_obsolete),
                    };
                    match key == damaged && !is_obsolete {
                        true => assert!(matches!(read, Err(Error::Corrupt(..))), "{read:?}"),
                        false => assert_eq!(read.expect("it is read"), Some(value(key, round))),
                    }
                }
            };
            driver.block_on(with_store(&disk, options, work));
        }
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
