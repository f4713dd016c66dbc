//! What hides older records of a key when a record has expired: they must not come back, and
//! nothing is kept where there are none.

use std::sync::atomic::Ordering::SeqCst;

use timberline_io::{Disk, Simulation};
use timberline_store::{Expiry, Options, Store};

use crate::expiry::{NOW, get, key, put, remove_checkpoints, timed, wait_until};
use crate::{pause, simulated, with_store};

/// Keys with an old value and one that expires: each 40th.
const KEYS: u32 = 200;

fn old_keys() -> impl Iterator<Item = u32> {
    (0..40 * KEYS).step_by(40)
}

/// Puts old values among others that stay, so that cleaning leaves them where they are.
async fn load(store: &Store) {
    for number in 0..40 * KEYS {
        let value = if number % 40 == 0 { [1; 30] } else { [2; 30] };
        let put = store.put(&key(number), &value).await;
        put.expect("there is space");
    }
}

async fn put_expiring(store: &Store) {
    for number in old_keys() {
        put(store, &key(number), &[3; 1900], Expiry::At(NOW + 1)).await;
    }
}

/// Puts other keys.
async fn put_others(store: &Store, keys: std::ops::Range<u32>) {
    for number in keys {
        let put = store.put(&others_key(number), &[4; 900]).await;
        put.expect("there is space");
    }
}

fn others_key(number: u32) -> Vec<u8> {
    [&key(number)[..], b"other"].concat()
}

/// After a crash, with and without a checkpoint, and with the clock set back, no old value is
/// there, and some of those that expired are gone for good.
fn assert_hidden(simulation: &Simulation, clock: &std::sync::atomic::AtomicU64, options: &Options) {
    for (time, with_checkpoint) in [(NOW + 1, true), (NOW + 1, false), (NOW, false)] {
        clock.store(time, SeqCst);
        let (disk, mut driver) = Disk::simulated(&simulation.crash());
        if !with_checkpoint {
            remove_checkpoints(&disk);
        }
        driver.block_on(with_store(&disk, options.clone(), async |store| {
            let mut gone = 0;
            for number in old_keys() {
                match get(store, &key(number)).await {
                    None => gone += 1,
                    // It is early again, and the record is still there.
                    Some(value) => assert!(time == NOW && value == [3; 1900], "{number}"),
                }
            }
            assert!(gone > 20, "{gone}");
            let others = store.keys(..).filter(|key| key.ends_with(b"other")).count();
            assert_eq!(store.len() - others, (40 * KEYS - gone) as usize);
        }));
    }
}

/// The record that expired replaced the old value: cleaning has to keep a delete in its place.
#[test]
fn a_value_that_was_replaced_does_not_come_back() {
    let (now, options) = timed();
    let (simulation, disk, mut driver) = simulated(4);
    driver.block_on(with_store(&disk, options.clone(), async |store| {
        load(store).await;
        put_expiring(store).await;
        store.sync().await.expect("nothing fails");
        now.fetch_add(1, SeqCst);
        store.begin_expiry();
        wait_until(|| store.stats().cleaned > 1).await;
    }));
    assert_hidden(&simulation, &now, &options);
}

/// The old value was deleted before: cleaning has to keep the delete while the key has the record
/// that will expire, and need not keep one in its place.
#[test]
fn a_value_that_was_deleted_does_not_come_back() {
    let (now, options) = timed();
    let (simulation, disk, mut driver) = simulated(5);
    driver.block_on(with_store(&disk, options.clone(), async |store| {
        load(store).await;
        // In each of ten segments, twenty deletes among other records.
        for (segment, keys) in (0..).zip(old_keys().collect::<Vec<_>>().chunks(20)) {
            put_others(store, 70 * segment..70 * (segment + 1)).await;
            for &number in keys {
                assert!(store.delete(&key(number)).await.expect("it is there"));
            }
        }
        put_expiring(store).await;
        assert_eq!(store.stats().cleaned, 0);
        // Now those segments have little but the deletes.
        while store.stats().cleaned < 8 {
            put_others(store, 0..700).await;
        }
        store.sync().await.expect("nothing fails");
        assert_eq!(store.stats().expired, 0);
        let cleaned = store.stats().cleaned;
        now.fetch_add(1, SeqCst);
        store.begin_expiry();
        wait_until(|| store.stats().cleaned > cleaned + 2).await;
    }));
    assert_hidden(&simulation, &now, &options);
}

/// Records that expire and hide nothing leave nothing, whatever else is in the store: also those
/// that were put again, later than the ones before.
#[test]
fn fresh_records_leave_nothing() {
    let (now, options) = timed();
    let (_, disk, mut driver) = simulated(6);
    driver.block_on(with_store(&disk, options, async |store| {
        load(store).await;
        let before = store.check().await.expect("it is read").records;
        for round in 0..4 {
            for number in 0..2_000 {
                let expiry = Expiry::At(NOW + 1 + round);
                put(
                    store,
                    &[&key(number)[..], b"session"].concat(),
                    &[5; 300],
                    expiry,
                )
                .await;
            }
        }
        store.sync().await.expect("nothing fails");
        now.fetch_add(10, SeqCst);
        store.begin_expiry();
        wait_until(|| store.stats().expired == 2_000).await;
        wait_until(|| store.stats().live > 0.7).await;
        let left = store.check().await.expect("it is read").records - before;
        // As much as may be obsolete, and the heads.
        assert!(left < 1_000, "{left}");
    }));
}

/// Deletes that have to be kept are moved once, not again and again.
#[test]
fn cleaning_ends_where_deletes_are_kept() {
    let (_, options) = timed();
    let (_, disk, mut driver) = simulated(7);
    driver.block_on(with_store(&disk, options, async |store| {
        load(store).await;
        for number in 0..12_000u32 {
            let key = [&key(number)[..], b"gone"].concat();
            let put = store.put(&key, &[6; 30]).await;
            put.expect("there is space");
            assert!(store.delete(&key).await.expect("it is there"));
        }
        store.sync().await.expect("nothing fails");
        let mut last = store.stats().cleaned;
        for _ in 0..20 {
            for _ in 0..2_000 {
                pause().await;
            }
            let cleaned = store.stats().cleaned;
            if cleaned == last {
                let left = store.check().await.expect("it is read").records;
                assert!(left < 15_000, "{left}: deletes go in the end");
                return;
            }
            last = cleaned;
        }
        panic!("it goes on: {:?}", store.stats());
    }));
}
