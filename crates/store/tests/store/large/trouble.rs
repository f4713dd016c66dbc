//! Values in pieces where space ends, the disk fails or damages them, and the clock is set back.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use timberline_io::Faults;
use timberline_store::{Clock, Damage, Dropped, Error, Expiry, Incomplete, Options, Store, join};

use super::{PIECE, put, value, with_segments};
use crate::expiry::{get, remove_checkpoints};
use crate::opened::with_store_in;
use crate::{options, simulated, with_store};

#[test]
fn a_full_disk_leaves_the_old_value_and_the_space_comes_back() {
    for by_writer in [false, true] {
        let (_, disk, mut driver) = simulated(7);
        let [old, new] = [1, 2].map(|seed| value(seed, 10 * PIECE));
        driver.block_on(async {
            with_store(&disk, with_segments(10), async |store| {
                put(store, b"key", &old).await;
                for _ in 0..5 {
                    // More than there is.
                    let most = value(3, 70 * PIECE);
                    let error = match by_writer {
                        false => store.put(b"key", &most).await,
                        true => store.writer(b"key", Expiry::Never).write(&most).await,
                    };
                    let error = error.expect_err("it is too much");
                    assert!(matches!(error, Error::Full), "{error}");
                    assert!(get(store, b"key").await == Some(old.clone()));
                    for _ in 0..3 {
                        put(store, b"other", &new).await;
                        assert!(get(store, b"other").await == Some(new.clone()));
                    }
                }
            })
            .await;
            with_store(&disk, with_segments(10), async |store| {
                assert!(get(store, b"key").await == Some(old));
                assert!(get(store, b"other").await == Some(new));
            })
            .await;
        });
    }
}

#[test]
fn cleaning_moves_pieces_of_values_that_stay() {
    let (_, disk, mut driver) = simulated(8);
    let stays = |nth: u32| value(nth.into(), 2 * PIECE + 77);
    driver.block_on(async {
        with_store(&disk, with_segments(24), async |store| {
            for nth in 0..15u32 {
                put(store, &nth.to_le_bytes(), &stays(nth)).await;
                put(store, b"goes", &value(1, 3 * PIECE)).await;
            }
            for _ in 0..100 {
                put(store, b"goes", &value(2, 3 * PIECE)).await;
            }
            let stats = store.stats();
            assert!(stats.cleaned > 20 && stats.moved > 20, "{stats:?}");
            for nth in 0..15u32 {
                assert!(get(store, &nth.to_le_bytes()).await == Some(stays(nth)));
            }
        })
        .await;
        remove_checkpoints(&disk);
        with_store(&disk, with_segments(24), async |store| {
            for nth in 0..15u32 {
                assert!(get(store, &nth.to_le_bytes()).await == Some(stays(nth)));
            }
            assert_eq!(store.len(), 16);
        })
        .await;
    });
}

#[test]
fn a_cache_evicts_whole_values() {
    let (_, disk, mut driver) = simulated(9);
    let options = Options {
        evict: true,
        cache_bytes: 1 << 20,
        ..with_segments(16)
    };
    let of = |nth: u32| value(nth.into(), 3 * PIECE + nth as usize);
    driver.block_on(async {
        with_store(&disk, options.clone(), async |store| {
            for nth in 0..300u32 {
                put(store, &nth.to_le_bytes(), &of(nth)).await;
            }
            assert!(store.stats().evicted > 100, "{:?}", store.stats());
        })
        .await;
        for again in 0..2 {
            with_store(&disk, options.clone(), async |store| {
                let mut there = 0;
                for nth in 0..300u32 {
                    if let Some(value) = get(store, &nth.to_le_bytes()).await {
                        assert!(value == of(nth));
                        there += 1;
                    }
                }
                assert!(there > 5 && there < 100, "{there}");
            })
            .await;
            if again == 0 {
                remove_checkpoints(&disk);
            }
        }
    });
}

/// Where the second piece of the value lies: behind the first one, of which the record has 40 bytes
/// more.
const SECOND: u64 = 4096 + 40 + PIECE as u64;

#[test]
fn a_damaged_piece_costs_its_value_and_is_reported_with_its_place() {
    for with_checkpoint in [true, false] {
        let (simulation, disk, mut driver) = simulated(10);
        let path = Path::new("store/000000.segment");
        let options = || Options {
            cache_bytes: 0,
            ..options()
        };
        driver.block_on(async {
            with_store(&disk, options(), async |store| {
                put(store, b"a", &value(1, 3 * PIECE)).await;
                put(store, b"b", &value(2, 3 * PIECE)).await;
                // Until the segment is sealed.
                for nth in 0..9u32 {
                    put(store, &nth.to_le_bytes(), &vec![7; 8000]).await;
                }
            })
            .await;
            simulation
                .flip_bit(path, 8 * (SECOND + 500))
                .expect("it is there");
            if !with_checkpoint {
                remove_checkpoints(&disk);
            }
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let report = opened.expect("it opens").1;
            let (damaged, lost) = match with_checkpoint {
                true => (vec![], vec![]),
                false => {
                    let dropped = Dropped {
                        path: path.into(),
                        offset: SECOND,
                        keys: vec![],
                    };
                    (vec![dropped], vec![b"a".to_vec()])
                }
            };
            assert_eq!((report.damaged, report.lost), (damaged, lost));
            with_store(&disk, options(), async |store| {
                let error = store.get(b"a").await.expect_err("it is damaged");
                if with_checkpoint {
                    let message = "store/000000.segment: the record at byte 12288 is damaged";
                    assert_eq!(error.to_string(), message);
                    // The others can be read.
                    let reader = store.reader(b"a").await.expect("it is read");
                    let mut reader = reader.expect("it is there");
                    let parts = [
                        reader.next().await,
                        reader.next().await,
                        reader.next().await,
                    ];
                    let [Some(Ok(first)), Some(Err(_)), Some(Ok(third))] = parts else {
                        panic!("one is damaged");
                    };
                    let whole = value(1, 3 * PIECE);
                    assert!(first == whole[..PIECE] && third == whole[2 * PIECE..]);
                } else {
                    let message = "store/000000.segment: pieces of the value are lost whose \
                                   record is at byte 28672";
                    assert_eq!(error.to_string(), message);
                }
                let check = store.check().await.expect("it is read");
                let place = SECOND..SECOND + 40 + PIECE as u64;
                let damaged = Damage {
                    path: path.into(),
                    place,
                    keys: vec![b"a".to_vec()],
                };
                let incomplete = Incomplete {
                    key: b"a".to_vec(),
                    path: path.into(),
                    offset: 28672,
                    missing: 1,
                    pieces: 3,
                };
                // Where it was known where the piece lies, it is not missed.
                let incomplete = Some(incomplete).filter(|_| !with_checkpoint);
                let incomplete: Vec<_> = incomplete.into_iter().collect();
                assert_eq!(
                    (check.damaged, check.incomplete),
                    (vec![damaged], incomplete)
                );
                assert!(get(store, b"b").await == Some(value(2, 3 * PIECE)));
                // And it can be put again.
                put(store, b"a", b"new").await;
                assert_eq!(get(store, b"a").await.as_deref(), Some(&b"new"[..]));
            })
            .await;
        });
    }
}

/// A piece whose name is damaged may have been anybody's.
#[test]
fn a_piece_that_nobody_can_name_is_still_missed() {
    let (simulation, disk, mut driver) = simulated(14);
    let path = Path::new("store/000000.segment");
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            put(store, b"a", &value(1, 3 * PIECE)).await;
            for nth in 0..9u32 {
                put(store, &nth.to_le_bytes(), &vec![7; 8000]).await;
            }
        })
        .await;
        // In its key.
        let bit = 8 * (SECOND + 24);
        simulation.flip_bit(path, bit).expect("it is there");
        remove_checkpoints(&disk);
        with_store(&disk, options(), async |store| {
            let check = store.check().await.expect("it is read");
            let keys: Vec<_> = check.damaged.iter().map(|it| it.keys.len()).collect();
            assert_eq!(keys, [0]);
            let incomplete = &check.incomplete[0];
            assert_eq!((&incomplete.key[..], incomplete.missing), (&b"a"[..], 1));
            store.delete(b"a").await.expect("it is deleted");
            let check = store.check().await.expect("it is read");
            assert_eq!((check.damaged.len(), check.incomplete), (1, vec![]));
        })
        .await;
    });
}

#[test]
fn the_nth_request_fails_for_every_n() {
    let mut n = 0;
    loop {
        let (simulation, disk, mut driver) = simulated(11);
        simulation.set_faults(Faults {
            failed_request: Some(n),
            ..Faults::default()
        });
        let of = |nth: u64| value(nth, 3 * PIECE + nth as usize);
        let (mut acknowledged, mut last) = (None, 0);
        let reached_the_end = driver.block_on(async {
            let options = with_segments(12);
            let opened = Store::open_on(&disk, Path::new("store"), options).await;
            let Ok((store, _)) = opened else {
                return false;
            };
            let work = async {
                let mut all = true;
                for nth in 0..12 {
                    last = nth;
                    match store.put(b"key", &of(nth)).await {
                        Ok(()) => acknowledged = Some(nth),
                        Err(_) => all = false,
                    }
                    if let Ok(read) = store.get(b"key").await {
                        let is = |it: u64| read == Some(of(it));
                        assert!(is(nth) || !all && (read.is_none() || (0..nth).any(is)));
                    }
                }
                store.close();
                all
            };
            let (all, maintained) = join(work, store.maintain()).await;
            all && maintained.is_ok() && simulation.requests() <= n
        });
        simulation.set_faults(Faults::default());
        driver.block_on(with_store(&disk, with_segments(12), async |store| {
            let read = get(store, b"key").await;
            let least = acknowledged.unwrap_or(0);
            let is_one = (least..=last).any(|nth| read == Some(of(nth)));
            assert!(
                is_one || acknowledged.is_none() && read.is_none(),
                "request {n}"
            );
        }));
        if reached_the_end {
            break;
        }
        n += 1;
    }
    println!("{n} requests failed, one at a time");
    assert!(n > 50);
}

#[test]
fn a_backup_has_large_values_and_those_that_are_being_written_are_no_part_of_it() {
    let (_, disk, mut driver) = simulated(12);
    let old = value(1, 4 * PIECE);
    driver.block_on(async {
        with_store(&disk, options(), async |store| {
            put(store, b"key", &old).await;
            let mut writer = store.writer(b"key", Expiry::Never);
            writer.write(&value(2, 3 * PIECE)).await.expect("it is put");
            let copied = store.backup(Path::new("copy")).await;
            copied.expect("there is space");
            writer.commit().await.expect("it is put");
        })
        .await;
        let restored = Store::restore(&disk, Path::new("copy"), Path::new("restored")).await;
        restored.expect("there is space");
        with_store_in("restored", &disk, options(), async |store| {
            assert!(get(store, b"key").await == Some(old));
            store.delete(b"key").await.expect("it is deleted");
            assert_eq!(store.stats().live, 0.0);
        })
        .await;
    });
}

/// Its pieces go when it has expired; the record that names them may stay.
#[test]
fn a_value_that_expired_is_not_shown_in_part_when_the_clock_is_set_back() {
    for with_checkpoint in [true, false] {
        let (_, disk, mut driver) = simulated(13);
        let now = Arc::new(AtomicU64::new(1000));
        let options = Options {
            clock: Clock::Program(Arc::clone(&now)),
            ..with_segments(16)
        };
        driver.block_on(async {
            with_store(&disk, options.clone(), async |store| {
                put(store, b"soon", b"old").await;
                let soon = value(1, 7 * PIECE);
                let expiring = store.put_expiring(b"soon", &soon, Expiry::At(2000));
                expiring.await.expect("it is put");
                // Most of the pieces are in the first segment, with what stays behind them the
                // record is in the next.
                for nth in 0..9u32 {
                    put(store, &nth.to_le_bytes(), &[7; 8000]).await;
                }
                now.store(3000, SeqCst);
                store.begin_expiry();
                while store.stats().cleaned == 0 {
                    put(store, b"other", &vec![7; 8000]).await;
                }
                assert_eq!(get(store, b"soon").await, None);
            })
            .await;
            now.store(1000, SeqCst);
            if !with_checkpoint {
                remove_checkpoints(&disk);
            }
            for _ in 0..2 {
                with_store(&disk, options.clone(), async |store| {
                    let soon = get(store, b"soon").await;
                    assert!(soon.is_none(), "{:?}", soon.map(|it| it.len()));
                    assert_eq!(store.check().await.expect("it is read").damaged, []);
                    for nth in 0..60u32 {
                        put(store, &(nth % 9).to_le_bytes(), &[7; 8000]).await;
                    }
                    assert_eq!(get(store, b"soon").await, None);
                })
                .await;
                remove_checkpoints(&disk);
            }
        });
    }
}
