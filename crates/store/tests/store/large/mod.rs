//! Values in pieces. With segments of 64 KiB, a piece has 8,152 bytes.

mod trouble;

use timberline_store::{Batch, Durability, Error, Expiry, MAX_VALUE, Options, Store, ValueReader};

use crate::expiry::{get, remove_checkpoints};
use crate::{SEGMENT, options, simulated, with_store};

const PIECE: usize = 8152;

/// Bytes that are different in each value and each piece.
fn value(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(bytes).collect()
}

async fn read(reader: &mut ValueReader) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(part) = reader.next().await {
        let part = part?;
        assert!(part.len() <= PIECE, "no more than a piece at a time");
        all.extend(part);
    }
    Ok(all)
}

/// A store with this capacity in segments.
fn with_segments(segments: u64) -> Options {
    Options {
        capacity: segments * SEGMENT,
        ..options()
    }
}

async fn put(store: &Store, key: &[u8], value: &[u8]) {
    store.put(key, value).await.expect("there is space");
}

/// Whether a value is in pieces depends on its key, too.
#[test]
fn values_of_about_the_longest_record_are_put() {
    let (_, disk, mut driver) = simulated(2);
    driver.block_on(with_store(&disk, options(), async |store| {
        for bytes in PIECE - 24..PIECE + 24 {
            for key in 1..20 {
                let (key, value) = (vec![7; key], vec![bytes as u8; bytes]);
                put(store, &key, &value).await;
                let found = store.get(&key).await.expect("it is read");
                assert_eq!(found, Some(value));
            }
        }
    }));
}

#[test]
fn large_values_are_put_read_and_kept() {
    for with_checkpoint in [true, false] {
        let (_, disk, mut driver) = simulated(1);
        let of = |seed| value(seed, PIECE * 3 + seed as usize);
        let expected = [
            (b"a", of(1)),
            (b"b", of(2)),
            (b"c", of(7)),
            (b"d", value(4, 9)),
        ];
        driver.block_on(async {
            with_store(&disk, options(), async |store| {
                put(store, b"a", &of(1)).await;
                let mut batch = Batch::new();
                batch.put(b"b", &of(1));
                batch.put(b"b", &of(2));
                batch.put(b"c", &of(3));
                batch.put(b"e", &of(4));
                batch.delete(b"e");
                batch.put(b"d", &value(4, 9));
                store.write(&batch).await.expect("it is written");
                let set = async |expected: Option<&[u8]>, new: Option<&[u8]>| {
                    let set = store.compare_and_set(b"c", expected, new).await;
                    set.expect("it is done")
                };
                assert_eq!(set(Some(&of(4)), Some(b"x")).await, Err(Some(of(3))));
                assert_eq!(set(None, Some(&of(5))).await, Err(Some(of(3))));
                assert_eq!(set(Some(&of(3)), Some(&of(7))).await, Ok(()));
                let stats = store.stats();
                assert_eq!(stats.keys, 4);
                // In pieces of a record each, and no others count.
                let set = store.set_expiry(b"a", Expiry::After(std::time::Duration::MAX));
                assert!(set.await.expect("it is done"));
                assert!(
                    store
                        .set_expiry(b"b", Expiry::At(u64::MAX - 1))
                        .await
                        .expect("so")
                );
                assert!(store.persist(b"b").await.expect("it is done"));
            })
            .await;
            if !with_checkpoint {
                remove_checkpoints(&disk);
            }
            with_store(&disk, options(), async |store| {
                for (key, value) in &expected {
                    assert_eq!(get(store, *key).await.as_ref(), Some(value));
                }
                let (mut up, mut down) = (store.range(..), store.prefix(b""));
                for (key, value) in &expected {
                    let next = up.next().await.expect("one more").expect("it is read");
                    assert_eq!((&next.0[..], &next.1), (&key[..], value));
                }
                for (key, value) in expected.iter().rev() {
                    let next = down
                        .next_back()
                        .await
                        .expect("one more")
                        .expect("it is read");
                    assert_eq!((&next.0[..], &next.1), (&key[..], value));
                }
                assert!(up.next().await.is_none() && down.next_back().await.is_none());
                for key in ["a", "b", "c", "d"] {
                    assert!(store.delete(key.as_bytes()).await.expect("it is deleted"));
                }
                assert_eq!((store.len(), store.stats().live), (0, 0.0));
            })
            .await;
        });
    }
}

/// More than fits into a record's space: as many of the longest values as it takes are in pieces.
#[test]
fn a_batch_of_many_values_takes_effect_at_once() {
    let (simulation, disk, mut driver) = simulated(15);
    let options = Options {
        durability: Durability::Each,
        ..options()
    };
    let of = |nth: u32| value(nth.into(), (nth as usize * 97) % 6000);
    let keys = |nth: u32| nth.to_be_bytes();
    driver.block_on(with_store(&disk, options.clone(), async |store| {
        let mut batch = Batch::new();
        for nth in 0..120 {
            batch.put(&keys(nth), &of(nth));
        }
        batch.delete(&keys(7));
        store.write(&batch).await.expect("there is space");
        assert_eq!(store.len(), 119);
        // Keys alone can be too many.
        let mut batch = Batch::new();
        for nth in 0..1000 {
            batch.put(&keys(nth), &[1; 30]);
        }
        let long = store.write(&batch).await.expect_err("it is too long");
        let message = "a batch of 56000 bytes: this store's longest are 8192";
        assert_eq!(long.to_string(), message);
    }));
    let (disk, mut driver) = timberline_io::Disk::simulated(&simulation.crash());
    driver.block_on(with_store(&disk, options, async |store| {
        for nth in 0..120 {
            let expected = Some(of(nth)).filter(|_| nth != 7);
            assert!(get(store, &keys(nth)).await == expected, "{nth}");
        }
    }));
}

#[test]
fn the_longest_value_is_kept_in_segments_of_any_size() {
    let (_, disk, mut driver) = simulated(2);
    let options = Options {
        segment_bytes: 8 << 20,
        durability: Durability::None,
        ..options()
    };
    let longest = value(1, MAX_VALUE);
    driver.block_on(with_store(&disk, options, async |store| {
        put(store, b"key", &longest).await;
        assert!(get(store, b"key").await == Some(longest.clone()));
        let mut writer = store.writer(b"key", Expiry::Never);
        writer.write(&longest).await.expect("there is space");
        let long = writer.write(b"x").await.expect_err("it is too long");
        let message = "a value of 67112961 bytes: this store's longest are 67112960";
        assert_eq!(long.to_string(), message);
        drop(writer);
        let long = store.put(b"key", &vec![0; MAX_VALUE + 1]).await;
        assert_eq!(long.expect_err("it is too long").to_string(), message);
        assert!(get(store, b"key").await == Some(longest.clone()));
    }));
}

#[test]
fn a_writer_shows_nothing_before_it_commits_and_leaves_nothing_when_it_is_dropped() {
    let (_, disk, mut driver) = simulated(3);
    let new = value(1, 10 * PIECE + 5);
    driver.block_on(with_store(&disk, with_segments(12), async |store| {
        put(store, b"key", b"old").await;
        let write = async |parts: usize, all: &[u8]| {
            let mut writer = store.writer(b"key", Expiry::Never);
            for part in all.chunks(parts) {
                writer.write(part).await.expect("there is space");
                assert_eq!(get(store, b"key").await.as_deref(), Some(&b"old"[..]));
            }
            assert_eq!(writer.len(), all.len() as u64);
            writer
        };
        // Many times the space that there is.
        for _ in 0..60 {
            drop(write(PIECE + 1, &new).await);
            assert_eq!(get(store, b"key").await.as_deref(), Some(&b"old"[..]));
        }
        for parts in [100, PIECE, 3 * PIECE, new.len()] {
            let writer = write(parts, &new).await;
            writer.commit().await.expect("there is space");
            assert!(get(store, b"key").await == Some(new.clone()));
            put(store, b"key", b"old").await;
        }
        // One that has no piece.
        for len in [0, 10, PIECE] {
            let writer = write(1000, &new[..len]).await;
            writer.commit().await.expect("there is space");
            assert_eq!(get(store, b"key").await.as_deref(), Some(&new[..len]));
            put(store, b"key", b"old").await;
        }
    }));
}

#[test]
fn a_reader_has_the_value_that_it_was_opened_with() {
    let (_, disk, mut driver) = simulated(4);
    let [old, new] = [1, 2].map(|seed| value(seed, 5 * PIECE + 100));
    let options = Options {
        cache_bytes: 0,
        ..with_segments(20)
    };
    driver.block_on(with_store(&disk, options, async |store| {
        assert!(store.reader(b"key").await.expect("it is read").is_none());
        put(store, b"key", &old).await;
        let snapshot = store.snapshot();
        let reader = store.reader(b"key").await.expect("it is read");
        let mut reader = reader.expect("it is there");
        // Until its segments were cleaned.
        for _ in 0..40 {
            put(store, b"key", &new).await;
        }
        assert!(store.stats().cleaned > 0 && store.stats().held > 0);
        assert_eq!(reader.len(), old.len() as u64);
        for (at, bytes) in [
            (0, 10),
            (PIECE - 1, 2),
            (PIECE, PIECE),
            (3, 4 * PIECE),
            (5 * PIECE, 200),
            (old.len(), 5),
            (usize::MAX, 5),
        ] {
            let mut buffer = vec![0; bytes];
            let read = reader.read_at(at as u64, &mut buffer).await;
            let expected = old.get(at..).unwrap_or_default();
            let expected = &expected[..expected.len().min(bytes)];
            assert_eq!(&buffer[..read.expect("it is read")], expected, "{at}");
        }
        assert!(read(&mut reader).await.expect("it is read") == old);
        assert!(snapshot.get(b"key").await.expect("it is read") == Some(old.clone()));
        let mut scan = snapshot.range(..);
        let next = scan.next().await.expect("one more").expect("it is read");
        assert!(next == (b"key".to_vec(), old.clone()));
        let of_it = snapshot.reader(b"key").await.expect("it is read");
        let mut of_it = of_it.expect("it is there");
        drop((snapshot, scan));
        assert!(read(&mut of_it).await.expect("it is read") == old);
        drop((reader, of_it));
        assert_eq!(store.stats().held, 0);
    }));
}

/// A time is set again, which writes the record and not the pieces, before the value goes.
#[test]
fn a_snapshot_has_a_value_whose_time_was_changed_since() {
    let (_, disk, mut driver) = simulated(5);
    let [old, new] = [1, 2].map(|seed| value(seed, 3 * PIECE));
    driver.block_on(with_store(&disk, with_segments(20), async |store| {
        put(store, b"key", &old).await;
        let snapshot = store.snapshot();
        assert!(
            store
                .set_expiry(b"key", Expiry::At(u64::MAX - 1))
                .await
                .expect("so")
        );
        for _ in 0..300 {
            put(store, b"key", &new).await;
        }
        // What came later is not noted.
        let stats = store.stats();
        assert!(
            stats.cleaned > 0 && stats.snapshot_bytes < 30_000,
            "{stats:?}"
        );
        assert!(snapshot.get(b"key").await.expect("it is read") == Some(old));
        assert!(get(store, b"key").await == Some(new));
    }));
}

#[test]
fn a_reader_that_would_hold_too_much_is_given_up() {
    let (_, disk, mut driver) = simulated(6);
    let [old, new] = [1, 2].map(|seed| value(seed, 5 * PIECE));
    let options = Options {
        snapshot_space: SEGMENT / 2,
        cache_bytes: 0,
        ..with_segments(12)
    };
    driver.block_on(with_store(&disk, options, async |store| {
        put(store, b"key", &old).await;
        let reader = store.reader(b"key").await.expect("it is read");
        let mut reader = reader.expect("it is there");
        for _ in 0..60 {
            put(store, b"key", &new).await;
        }
        let given_up = read(&mut reader).await;
        assert!(matches!(given_up, Err(Error::SnapshotGivenUp)));
        // A get is told nothing of that.
        assert!(get(store, b"key").await == Some(new));
        assert_eq!(store.stats().held, 0);
    }));
}
