//! Records that expire, by a clock that the tests set.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use timberline_io::Disk;
use timberline_store::{Batch, Clock, Durability, Error, Expiry, MAX_EXPIRING_KEY, Options, Store};

use crate::{SEGMENT, options, pause, simulated, with_store};

pub const NOW: u64 = 1_000_000;

pub fn timed() -> (Arc<AtomicU64>, Options) {
    let now = Arc::new(AtomicU64::new(NOW));
    let options = Options {
        durability: Durability::None,
        clock: Clock::Program(Arc::clone(&now)),
        ..options()
    };
    (now, options)
}

pub fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

pub async fn get(store: &Store, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).await.expect("it is read")
}

pub async fn put(store: &Store, key: &[u8], value: &[u8], expiry: Expiry) {
    let put = store.put_expiring(key, value, expiry).await;
    put.expect("there is space");
}

/// Lets maintenance go on until something is so.
pub async fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if is_so() {
            return;
        }
        pause().await;
    }
    panic!("it never is so");
}

/// Removes the checkpoints, so that opening reads all records.
pub fn remove_checkpoints(disk: &Disk) {
    for path in disk.list(Path::new("store")).expect("it is there") {
        if path.extension() == Some("checkpoint".as_ref()) {
            disk.remove_now(&path).expect("it is there");
        }
    }
}

#[test]
pub fn a_record_is_gone_from_its_instant_on() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(1);
    driver.block_on(with_store(&disk, options, async |store| {
        store.put(b"a", b"1").await.expect("there is space");
        put(store, b"b", b"2", Expiry::At(NOW + 10)).await;
        put(
            store,
            b"c",
            b"3",
            Expiry::After(Duration::from_micros(9_001)),
        )
        .await;
        put(store, b"d", b"4", Expiry::At(NOW)).await;
        let all = async || {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            let (mut scan, mut back) = (store.range(..), store.prefix(b""));
            while let Some(record) = scan.next().await {
                up.push(record.expect("it is read").0[0]);
            }
            while let Some(record) = back.next_back().await {
                down.push(record.expect("it is read").0[0]);
            }
            down.reverse();
            let keys: Vec<u8> = store.keys(..).map(|key| key[0]).collect();
            assert_eq!((&up, &down), (&keys, &keys));
            for key in [b"a", b"b", b"c", b"d"] {
                assert_eq!(store.contains_key(key), keys.contains(&key[0]));
                assert_eq!(get(store, key).await.is_some(), keys.contains(&key[0]));
            }
            String::from_utf8(keys).expect("letters")
        };
        assert_eq!(all().await, "abc");
        assert_eq!(store.expiry(b"a"), Some(Expiry::Never));
        assert_eq!(store.expiry(b"b"), Some(Expiry::At(NOW + 10)));
        assert_eq!((store.expiry(b"d"), store.remaining(b"d")), (None, None));
        assert_eq!(store.remaining(b"a"), Some(Duration::MAX));
        assert_eq!(store.remaining(b"c"), Some(Duration::from_millis(10)));

        // What a scan has read ahead is not returned when it has expired.
        let mut ahead = store.range(..);
        assert_eq!(ahead.next().await.expect("a").expect("it is read").0, b"a");
        now.store(NOW + 9, SeqCst);
        assert_eq!(all().await, "abc");
        assert_eq!(store.remaining(b"b"), Some(Duration::from_millis(1)));
        now.store(NOW + 10, SeqCst);
        assert!(ahead.next().await.is_none());
        assert_eq!(all().await, "a");

        assert!(!store.delete(b"b").await.expect("it is not there"));
        assert!(!store.persist(b"b").await.expect("it is not there"));
        let set = store.set_expiry(b"b", Expiry::Never).await;
        assert!(!set.expect("it is not there"));
        let swap = async |expected: Option<&[u8]>, new: Option<&[u8]>| {
            let swapped = store.compare_and_set(b"b", expected, new).await;
            swapped.expect("it is done")
        };
        assert_eq!(swap(Some(b"2"), Some(b"5")).await, Err(None));
        assert_eq!(swap(None, None).await, Ok(()));
        assert_eq!(swap(None, Some(b"5")).await, Ok(()));
        assert_eq!(store.expiry(b"b"), Some(Expiry::Never));
        assert_eq!(all().await, "ab");
    }));
}

#[test]
fn the_last_write_says_when_it_expires() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(2);
    let at = |after| Expiry::At(NOW + after);
    driver.block_on(async {
        with_store(&disk, options.clone(), async |store| {
            let mut batch = Batch::new();
            for after in [5, 9, 5] {
                batch.put_expiring(b"thrice", b"", at(after));
            }
            batch.put_expiring(b"gone", b"", at(5));
            batch.delete(b"gone");
            batch.delete(b"back");
            batch.put_expiring(b"back", b"", Expiry::After(Duration::from_millis(8)));
            batch.put_expiring(b"kept", b"", at(5));
            batch.put(b"kept", b"");
            store.write(&batch).await.expect("there is space");
            for (key, expiry) in [
                (&b"thrice"[..], Some(at(5))),
                (b"gone", None),
                (b"back", Some(at(8))),
                (b"kept", Some(Expiry::Never)),
            ] {
                assert_eq!(store.expiry(key), expiry, "{key:?}");
            }
            put(store, b"longer", b"1", at(5)).await;
            assert!(
                store
                    .set_expiry(b"longer", at(20))
                    .await
                    .expect("it is there")
            );
            put(store, b"shorter", b"2", at(20)).await;
            assert!(
                store
                    .set_expiry(b"shorter", at(5))
                    .await
                    .expect("it is there")
            );
            put(store, b"persisted", b"3", at(5)).await;
            assert!(store.persist(b"persisted").await.expect("it is there"));
            assert!(!store.persist(b"persisted").await.expect("it is there"));
            put(store, b"replaced", b"4", at(5)).await;
            store.put(b"replaced", b"5").await.expect("there is space");

            now.store(NOW + 5, SeqCst);
            store.begin_expiry();
            wait_until(|| store.stats().expired == 2).await;
            let left = ["back", "kept", "longer", "persisted", "replaced"];
            assert!(store.keys(..).eq(left.map(|it| it.as_bytes().to_vec())));
            assert_eq!(store.len(), left.len());
            assert_eq!(store.starting_with(b'b'), 1);
            assert_eq!(get(store, b"longer").await.as_deref(), Some(&b"1"[..]));
            assert_eq!(get(store, b"persisted").await.as_deref(), Some(&b"3"[..]));
        })
        .await;
        // The same after opening, with and without a checkpoint; time went on.
        for with_checkpoint in [true, false] {
            if !with_checkpoint {
                remove_checkpoints(&disk);
            }
            with_store(&disk, options.clone(), async |store| {
                assert_eq!(store.len(), 5);
                assert_eq!(store.expiry(b"back"), Some(at(8)));
                assert_eq!(store.expiry(b"longer"), Some(at(20)));
                assert_eq!(store.expiry(b"persisted"), Some(Expiry::Never));
            })
            .await;
        }
        for (with_checkpoint, after) in [(true, 8), (false, 8), (true, 20), (false, 20)] {
            if !with_checkpoint {
                remove_checkpoints(&disk);
            }
            now.store(NOW + after, SeqCst);
            with_store(&disk, options.clone(), async |store| {
                let left = if after == 8 { 4 } else { 3 };
                assert_eq!((store.len(), store.keys(..).count()), (left, left));
                assert_eq!(store.starting_with(b'b'), 0);
            })
            .await;
        }
    });
}

/// Nobody looks at a key again: neither by a timer nor by the writes of others is it kept.
#[test]
pub fn space_and_memory_come_back() {
    for by_timer in [true, false] {
        let (now, options) = timed();
        let (simulation, disk, mut driver) = simulated(3);
        driver.block_on(with_store(&disk, options, async |store| {
            for number in 0..2_000 {
                put(store, &key(number), &[1; 600], Expiry::At(NOW + 1)).await;
            }
            store.sync().await.expect("nothing fails");
            let (before, segments) = (store.stats(), simulation.used() / SEGMENT);
            assert!(before.keys == 2_000 && segments > 18, "{before:?}");
            now.fetch_add(1, SeqCst);
            let mut written = 0;
            if by_timer {
                store.begin_expiry();
            } else {
                while store.stats().expired == 0 {
                    store
                        .put(b"other", &[2; 600])
                        .await
                        .expect("there is space");
                    written += 1;
                }
            }
            assert!(written < 400, "{written} writes until maintenance looked");
            wait_until(|| simulation.used() / SEGMENT < 10).await;
            let after = store.stats();
            assert_eq!(
                (after.expired, after.keys),
                (2_000, usize::from(written > 0))
            );
            assert!(after.index_bytes <= before.index_bytes, "{after:?}");
        }));
    }
}

/// `tests/store/version_1` to `version_3` are what these versions wrote: puts, a batch, deletes, a
/// checkpoint; from version 2 on records that expire; in version 3 a value in pieces.
#[test]
fn files_of_older_versions_are_read() {
    let old: [&[u8]; 2] = [
        include_bytes!("version_1/000000.segment"),
        include_bytes!("version_1/000005.checkpoint"),
    ];
    files_are_read(old, NOW, async |store| {
        assert_eq!(get(store, b"banana").await.as_deref(), Some(&b"yellow"[..]));
        assert_eq!(get(store, b"date").await.as_deref(), Some(&b""[..]));
        assert_eq!(get(store, b"").await, Some(vec![9; 40]));
        assert_eq!(
            (store.len(), store.expiry(b"date")),
            (3, Some(Expiry::Never))
        );
    });
    let old: [&[u8]; 2] = [
        include_bytes!("version_2/000000.segment"),
        include_bytes!("version_2/000002.checkpoint"),
    ];
    // When they were written.
    let now = 1 << 40;
    files_are_read(old, now, async |store| {
        assert_eq!(get(store, b"banana").await.as_deref(), Some(&b"yellow"[..]));
        assert_eq!(get(store, b"").await, Some(vec![9; 40]));
        assert_eq!(get(store, b"apple").await.as_deref(), Some(&b"green"[..]));
        assert_eq!(
            (store.len(), store.expiry(b"apple")),
            (4, Some(Expiry::At(now + 9)))
        );
        assert_eq!(store.expiry(b"cherry"), Some(Expiry::At(now + 5)));
    });
    let old: [&[u8]; 2] = [
        include_bytes!("version_3/000000.segment"),
        include_bytes!("version_3/000002.checkpoint"),
    ];
    files_are_read(old, now, async |store| {
        assert_eq!(get(store, b"apple").await.as_deref(), Some(&b"green"[..]));
        assert_eq!(get(store, b"melon").await, Some(vec![7; 9000]));
        assert_eq!(
            (store.len(), store.expiry(b"apple")),
            (5, Some(Expiry::At(now + 9)))
        );
    });
}

/// Opens a store that an older version wrote, at this time, with its checkpoint and without it;
/// `is_right` looks at what it has. New records are put beside the old ones.
fn files_are_read(files: [&[u8]; 2], at: u64, is_right: impl AsyncFn(&Store)) {
    for with_checkpoint in [true, false] {
        let (now, options) = timed();
        now.store(at, SeqCst);
        let (_, disk, mut driver) = simulated(5);
        let large = vec![3; 20_000];
        driver.block_on(async {
            disk.create_folder(Path::new("store")).expect("it is made");
            // The number is in its header.
            let checkpoint = format!("{:06x}.checkpoint", files[1][20]);
            let names = ["000000.segment", &checkpoint];
            let all = 1 + usize::from(with_checkpoint);
            for (name, bytes) in names.iter().zip(files).take(all) {
                crate::copy_in(&disk, &Path::new("store").join(name), bytes).await;
            }
            let opened = Store::open_on(&disk, Path::new("store"), options.clone()).await;
            let (store, report) = opened.expect("it opens");
            is_right(&store).await;
            assert_eq!(report.unread, usize::from(with_checkpoint));
            assert_eq!((report.checkpoints, report.damaged), (vec![], vec![]));
            drop(store);
            with_store(&disk, options.clone(), async |store| {
                is_right(store).await;
                let set = store.set_expiry(b"banana", Expiry::At(at + 1)).await;
                assert!(set.expect("there is space"));
                store.put(b"", &large).await.expect("there is space");
            })
            .await;
            now.fetch_add(1, SeqCst);
            with_store(&disk, options.clone(), async |store| {
                assert_eq!(get(store, b"banana").await, None);
                assert_eq!(get(store, b"").await.as_ref(), Some(&large));
                assert_eq!(store.check().await.expect("it is read").damaged, []);
            })
            .await;
        });
    }
}

#[test]
fn a_backup_keeps_the_times() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(6);
    let [backup, store] = ["backup", "store"].map(Path::new);
    driver.block_on(async {
        with_store(&disk, options.clone(), async |open| {
            put(open, b"soon", b"1", Expiry::At(NOW + 1)).await;
            put(open, b"late", b"2", Expiry::At(NOW + 2)).await;
            open.backup(backup).await.expect("there is space");
        })
        .await;
        now.fetch_add(1, SeqCst);
        for path in disk.list(store).expect("it is there") {
            disk.remove_now(&path).expect("it is there");
        }
        let restored = Store::restore(&disk, backup, store).await;
        restored.expect("there is space");
        with_store(&disk, options.clone(), async |open| {
            assert_eq!(open.len(), 1);
            assert_eq!(open.expiry(b"late"), Some(Expiry::At(NOW + 2)));
        })
        .await;
    });
}

#[test]
fn the_longest_keys_and_values_expire_and_longer_keys_are_refused() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(7);
    let options = Options {
        segment_bytes: 1 << 20,
        ..options
    };
    driver.block_on(async {
        with_store(&disk, options.clone(), async |store| {
            let long = vec![1; MAX_EXPIRING_KEY + 1];
            put(store, &long[1..], b"1", Expiry::At(NOW + 1)).await;
            let refused = store.put_expiring(&long, b"", Expiry::At(NOW + 1)).await;
            let message = "a key of 65528 bytes: the longest are 65527";
            assert_eq!(refused.expect_err("it is too long").to_string(), message);
            put(store, &long, b"2", Expiry::Never).await;
            let most = (1 << 20) / 8 - 24 - 8 - 8;
            put(store, b"k", &vec![2; most], Expiry::At(NOW + 1)).await;
            // In pieces.
            put(store, b"k", &vec![2; most + 8], Expiry::At(NOW + 1)).await;
            assert_eq!(get(store, b"k").await, Some(vec![2; most + 8]));
        })
        .await;
        with_store(&disk, options.clone(), async |store| {
            assert_eq!(store.len(), 3);
            now.fetch_add(1, SeqCst);
            store.begin_expiry();
            wait_until(|| store.len() == 1).await;
        })
        .await;
    });
}

/// Times take memory too; without it a put is refused, and leaves nothing behind.
#[test]
pub fn without_memory_for_its_time_a_put_is_refused() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(8);
    let options = Options {
        segment_bytes: 1 << 20,
        memory_bytes: Options::LEAST_MEMORY,
        ..options
    };
    driver.block_on(with_store(&disk, options, async |store| {
        let long = |number: u32| [&number.to_be_bytes()[..], &[7; 8_000]].concat();
        let mut count = 0;
        let error = loop {
            let expiry = Expiry::At(NOW + 1 + u64::from(count));
            match store.put_expiring(&long(count), b"", expiry).await {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory), "{error}");
        assert_eq!(
            (store.len() as u32, store.contains_key(&long(count))),
            (count, false)
        );
        // Those that have a place may get another time.
        put(store, &long(0), b"", Expiry::At(NOW + 1_000_000)).await;
        assert!(store.persist(&long(1)).await.expect("it is there"));
        now.fetch_add(u64::from(count), SeqCst);
        store.begin_expiry();
        wait_until(|| store.len() == 2).await;
        put(store, &long(count), b"", Expiry::At(NOW + 2_000_000)).await;
    }));
}
