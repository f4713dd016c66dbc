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
pub fn a_value_that_was_replaced_does_not_come_back() {
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
pub fn a_value_that_was_deleted_does_not_come_back() {
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
pub fn fresh_records_leave_nothing() {
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

/// A record whose time has not come was deleted, which is not on the disk yet when cleaning finds
/// it. A crash may undo the delete, with all that came behind the last sync, and not more: nothing
/// that cleaning wrote may take the record's place. (For the cleaner's segment to be read first, it
/// is made before the record's; and opening reads all records.)
#[test]
fn a_record_that_was_deleted_but_not_durably_is_not_lost() {
    let (mut undone, mut requests) = (0, 0);
    for seed in 0..8 {
        let mut after = 0;
        loop {
            let (state, is_over) = state_after_crash(seed, after);
            // What came behind the sync, and the delete behind the put.
            let [deleted, put] = state;
            assert!(
                put || !deleted,
                "seed {seed}, request {after}: the record is lost"
            );
            undone += u64::from(!put);
            after += 1;
            if is_over {
                break;
            }
        }
        requests += after;
    }
    println!("{requests} crashes, {undone} of them before the put was on the disk");
    assert!(undone > 0 && requests > undone);
}

/// Has the power fail so many requests after the delete, and cleaning, begin. Whether the record
/// is gone then, and whether the put in front of the delete is there; and whether cleaning was
/// over before.
fn state_after_crash(seed: u64, after: u64) -> ([bool; 2], bool) {
    let (now, options) = timed();
    let (simulation, disk, mut driver) = simulated(seed);
    let is_over = driver.block_on(async {
        let opened = Store::open_on(&disk, "store".as_ref(), options.clone()).await;
        let (store, _) = opened.expect("it opens");
        let work = async {
            // The first segment stays.
            for number in 0..90 {
                put(&store, &key(number), &[1; 700], Expiry::Never).await;
            }
            // The second is the cleaner's. The next has a record that hides an older one.
            put(&store, &key(0), &[2; 700], Expiry::At(NOW + 1000)).await;
            put(&store, b"soon", b"", Expiry::At(NOW + 1)).await;
            for number in 100..190 {
                put(&store, &key(number), &[1; 700], Expiry::Never).await;
            }
            store.sync().await.expect("nothing fails");
            let stats = store.stats();
            assert_eq!((stats.cleaned, stats.moved), (0, 0));
            let off = simulation.requests() + after;
            simulation.set_faults(timberline_io::Faults {
                power_off: Some(off),
                ..Default::default()
            });
            put(&store, b"behind", b"", Expiry::Never).await;
            for number in (0..1).chain(100..180) {
                store.delete(&key(number)).await.expect("it is deleted");
            }
            now.fetch_add(1, SeqCst);
            store.begin_expiry();
            // Cleaning may be what finds that the power is off: then nothing says so.
            wait_until(|| store.stats().cleaned > 0 || simulation.requests() > off).await;
            let is_over = store.stats().cleaned > 0;
            store.close();
            is_over
        };
        timberline_store::join(work, store.maintain()).await.0
    });
    let (disk, mut driver) = Disk::simulated(&simulation.crash());
    remove_checkpoints(&disk);
    driver.block_on(async {
        let opened = Store::open_on(&disk, "store".as_ref(), options).await;
        let store = opened.expect("it opens").0;
        let is_there = |key: &[u8]| store.contains_key(key);
        ([!is_there(&key(0)), is_there(b"behind")], is_over)
    })
}
