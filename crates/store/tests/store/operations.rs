//! Puts, gets, deletes, batches: what each does to the records.

use std::path::Path;
use std::task::Poll;

use timberline_io::{Disk, wait_for};
use timberline_store::{Batch, Change, Durability, MAX_KEY, MAX_VALUE, Options, Store};

use crate::{options, simulated, with_store};

#[test]
pub fn records_are_put_read_and_deleted() {
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
pub fn a_batch_may_name_a_key_twice() {
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
        let long = store.put(b"k", &vec![0; MAX_VALUE + 1]).await;
        let message = "a value of 67112961 bytes: this store's longest are 67112960";
        assert_eq!(long.expect_err("too long").to_string(), message);
        let mut batch = Batch::new();
        for nth in 0..20_000u32 {
            batch.put(&nth.to_be_bytes(), b"");
        }
        let long = store.write(&batch).await.expect_err("too long");
        let message = "a batch of 640000 bytes: this store's longest are 524288";
        assert_eq!(long.to_string(), message);
        assert_eq!(store.len(), 2);
    }));
}

/// Puts, overwrites, deletes and batches; also after opening with a checkpoint, and without one.
#[test]
pub fn keys_are_counted_by_their_first_byte() {
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
                disk.remove_now(&path).expect("it is there");
            }
        }
        with_store(&disk, options(), async |store| {
            assert_eq!(counts(store), [0, 1, 2, 1]);
        })
        .await;
    });
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
fn what_needs_no_waiting_is_done_at_once_or_not_at_all() {
    let (_, disk, mut driver) = simulated(9);
    for durability in [Durability::None, Durability::Each] {
        let is_at_once = durability == Durability::None;
        let options = Options {
            durability,
            ..options()
        };
        driver.block_on(with_store(&disk, options, async |store| {
            let value = |key: &[u8]| match store.get_now(key, <[u8]>::to_vec) {
                Poll::Ready(value) => value,
                Poll::Pending => panic!("it was not flushed"),
            };
            assert_eq!(store.put_now(b"a", b"1").is_ready(), is_at_once);
            let changes = [Change::put(b"b", b"1"), Change::delete(b"a")];
            assert_eq!(store.write_now(&changes).is_ready(), is_at_once);
            if !is_at_once {
                assert_eq!((store.len(), value(b"b")), (0, None));
                return;
            }
            assert_eq!((value(b"a"), value(b"b")), (None, Some(b"1".to_vec())));
            let replaced = |key: &[u8]| match store.replace_now(key, b"2") {
                Poll::Ready(replaced) => replaced.expect("there is space"),
                Poll::Pending => panic!("there is nothing to wait for"),
            };
            assert!(replaced(b"b") && !replaced(b"a") && !replaced(b"c"));
            assert_eq!((value(b"b"), value(b"c")), (Some(b"2".to_vec()), None));
            assert_eq!((store.len(), store.starting_with(b'c')), (1, 0));
            // A batch whose keys are not all there is not done, whichever is missing.
            let replaced_all = |keys: [&[u8]; 3]| match store
                .replace_all_now(&keys.map(|key| Change::put(key, b"3")))
            {
                Poll::Ready(replaced) => replaced.expect("there is space"),
                Poll::Pending => panic!("there is nothing to wait for"),
            };
            for keys in [[b"a", b"b", b"b"], [b"b", b"a", b"b"], [b"b", b"b", b"a"]] {
                assert!(!replaced_all(keys.map(|it| &it[..])));
                assert_eq!((value(b"b"), store.len()), (Some(b"2".to_vec()), 1));
            }
            assert!(replaced_all([b"b", b"b", b"b"]));
            assert_eq!((value(b"b"), store.len()), (Some(b"3".to_vec()), 1));
            // What was refused left no gap in the log's numbers, for which this would wait.
            store.sync().await.expect("it is synced");
            store.delete(b"b").await.expect("it is deleted");
        }));
    }
}
