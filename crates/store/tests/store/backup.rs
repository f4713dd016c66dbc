//! A backup is the store at one moment, whatever goes on meanwhile; a part of one is no store.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;

use crate::opened::{pause, simulated, with_store_in};
use crate::options_with;
use fastrand::Rng;
use timberline_io::{Disk, Faults};
use timberline_store::{Batch, Durability, Error, Options, Store, join};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u32 = 60;

fn options() -> Options {
    options_with(Durability::None)
}

/// Runs work on the store in a folder, which is opened before and closed after it.
async fn with_store<T>(disk: &Disk, folder: &str, work: impl AsyncFnOnce(&Store) -> T) -> T {
    with_store_in(folder, disk, options(), work).await
}

async fn content(store: &Store) -> Model {
    let mut all = Model::new();
    let mut records = store.range(..);
    while let Some(record) = records.next().await {
        let (key, value) = record.expect("it is read");
        all.insert(key, value);
    }
    all
}

/// Puts, deletes and batches of both.
async fn change(store: &Store, rng: &mut Rng, model: &mut Model) {
    let mut batch = Batch::new();
    for _ in 0..rng.usize(1..4) {
        let key = format!("key {}", rng.u32(0..KEYS)).into_bytes();
        if rng.u8(0..4) > 0 {
            let value = vec![rng.u8(..); rng.usize(0..900)];
            batch.put(&key, &value);
            model.insert(key, value);
        } else {
            batch.delete(&key);
            model.remove(&key);
        }
    }
    store.write(&batch).await.expect("there is space");
}

#[test]
fn a_backup_is_the_store_at_one_moment() {
    let cleaned = Cell::new(0);
    for seed in 0..60 {
        let (_simulation, disk, mut driver) = simulated(seed);
        driver.block_on(async {
            let mut rng = Rng::with_seed(seed);
            let states = RefCell::new(vec![Model::new()]);
            let (acknowledged, is_over) = (Cell::new(0), Cell::new(false));
            let begin = rng.usize(1..600);
            with_store(&disk, "store", async |store| {
                let writing = async {
                    let mut model = Model::new();
                    while !is_over.get() {
                        change(store, &mut rng, &mut model).await;
                        states.borrow_mut().push(model.clone());
                        if rng.u8(0..4) == 0 {
                            pause().await;
                        }
                    }
                };
                let copying = async {
                    while states.borrow().len() < begin {
                        pause().await;
                    }
                    acknowledged.set(states.borrow().len() - 1);
                    let copied = store.backup(Path::new("backup")).await;
                    let copied = copied.expect("there is space");
                    assert!(copied.segments >= 2 && copied.bytes > 8192);
                    is_over.set(true);
                };
                join(writing, copying).await;
                cleaned.set(cleaned.get() + store.stats().cleaned);
            })
            .await;
            let restored = Store::restore(&disk, Path::new("backup"), Path::new("again")).await;
            assert!(restored.expect("there is space").segments >= 2);
            for folder in ["backup", "again"] {
                let found = with_store(&disk, folder, async |store| {
                    assert_eq!(store.check().await.expect("it is read").damaged, []);
                    content(store).await
                });
                let (found, states) = (found.await, states.borrow());
                assert!(
                    states[acknowledged.get()..].contains(&found),
                    "seed {seed}: none of {} states",
                    states.len() - acknowledged.get()
                );
            }
        });
    }
    assert!(cleaned.get() > 0, "cleaning went on beside some");
}

#[test]
fn a_part_of_a_backup_is_no_store() {
    let is_whole = Cell::new(false);
    for last in 1.. {
        let (simulation, disk, mut driver) = simulated(last);
        driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, _) = opened.expect("it opens");
            let work = async {
                let mut model = Model::new();
                for _ in 0..50 {
                    change(&store, &mut Rng::with_seed(last), &mut model).await;
                }
                simulation.set_faults(Faults {
                    power_off: Some(simulation.requests() + last),
                    ..Faults::default()
                });
                let copied = store.backup(Path::new("backup")).await;
                is_whole.set(copied.is_ok());
                store.close();
            };
            let _ = join(work, store.maintain()).await;
        });
        let crashed = simulation.crash();
        let (disk, mut driver) = Disk::simulated(&crashed);
        driver.block_on(async {
            let backup = Path::new("backup");
            let is_there = Store::options_of(&disk, backup).is_ok_and(|it| it.is_some());
            let opened = Store::open_on(&disk, backup, options()).await;
            match opened.map(|it| it.0.len()) {
                Ok(keys) => assert!(keys > 0 || !is_there, "a part was opened"),
                Err(Error::Format(path, reason)) => {
                    assert_eq!(path, backup);
                    assert!(reason.contains("never completed"), "{reason}");
                }
                Err(other) => panic!("{other}"),
            }
            let store = Store::open_on(&disk, Path::new("store"), options()).await;
            store.expect("the store itself is as it was");
        });
        if is_whole.get() {
            assert!(last > 5, "it takes some requests");
            return;
        }
    }
}

#[test]
fn what_can_not_be_copied_is_said() {
    let (_simulation, disk, mut driver) = simulated(1);
    let [store, backup, empty] = ["store", "backup", "empty"].map(Path::new);
    driver.block_on(async {
        let opened = Store::open_on(&disk, store, options()).await;
        let (open, _) = opened.expect("it opens");
        let work = async {
            open.put(b"key", b"value").await.expect("there is space");
            open.backup(backup).await.expect("there is space");
            for to in [store, backup] {
                let error = open.backup(to).await.expect_err("it is not empty");
                assert!(error.to_string().contains("is not empty"), "{error}");
            }
            open.close();
        };
        join(work, open.maintain()).await.1.expect("nothing fails");
        let closed = open.backup(empty).await;
        assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");

        disk.create_folder(empty).expect("it is made");
        let error = Store::restore(&disk, empty, Path::new("new")).await;
        let error = error.expect_err("there is no backup");
        assert!(error.to_string().contains("there is no backup"), "{error}");
        let error = Store::restore(&disk, backup, store).await;
        let error = error.expect_err("there is a store");
        assert!(error.to_string().contains("is not empty"), "{error}");
    });
}
