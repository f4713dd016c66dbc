//! Stores with threads of their own, on this machine's disk.

use std::path::Path;
use std::time::Duration;

use crate::opened::Folder;
use crate::options_with;
use timberline_io::wait_for;
use timberline_store::{Batch, Durability, Error, Expiry, Store};

fn open(folder: &Path, durability: Durability) -> Store {
    Store::open(folder, options_with(durability))
        .expect("it opens")
        .0
}

#[test]
fn threads_that_wait_do_all_that_futures_do() {
    let folder = Folder::new();
    let store = open(&folder.0, Durability::Each);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || {
                for nth in 0..20u8 {
                    let put = store.blocking().put(&[thread, nth], &[nth; 100]);
                    put.expect("it is put");
                }
            });
        }
    });
    let blocking = store.blocking();
    assert!(blocking.delete(&[0, 0]).expect("it is deleted"));
    let swapped = blocking.compare_and_set(&[0, 1], Some(&[1; 100]), Some(b"new"));
    assert_eq!(swapped.expect("it is set"), Ok(()));
    let mut batch = Batch::new();
    batch.put(&[9], b"last");
    batch.delete(&[0, 2]);
    blocking.write(&batch).expect("it is written");
    blocking.sync().expect("it is on the disk");
    let keys: Result<Vec<_>, _> = blocking.range(..).map(|it| it.map(|it| it.0)).collect();
    assert_eq!(keys.expect("they are read").len(), 4 * 20 - 2 + 1);
    let last = blocking.range(..).next_back().transpose();
    assert_eq!(last.expect("it is read").expect("it is there").1, b"last");
    let of_one = blocking.prefix(&[3]).count();
    assert_eq!(of_one, 20);
    // The same store, by a future.
    let got = wait_for(store.get(&[0, 1])).expect("it is read");
    assert_eq!(got.as_deref(), Some(&b"new"[..]));
}

#[test]
fn dropping_the_last_clone_keeps_what_was_written() {
    let folder = Folder::new();
    {
        let store = open(&folder.0, Durability::None);
        let clone = store.clone();
        drop(store);
        clone.blocking().put(b"key", b"value").expect("it is put");
        let other = Store::open(&folder.0, options_with(Durability::None)).err();
        assert!(matches!(other, Some(Error::InUse(_))), "{other:?}");
    }
    let store = open(&folder.0, Durability::None);
    let value = store.blocking().get(b"key").expect("it is read");
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_stopped_store_can_be_read() {
    let folder = Folder::new();
    let store = open(&folder.0, Durability::None);
    let clone = store.clone();
    store.blocking().put(b"key", b"value").expect("it is put");
    clone.stop().expect("all is on the disk");
    store.stop().expect("it was before");
    let late = store.blocking().put(b"key", b"other");
    assert!(matches!(late, Err(Error::Closed)), "{late:?}");
    let value = store.blocking().get(b"key").expect("it is read");
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
}

#[test]
fn records_expire_by_the_systems_clock() {
    let folder = Folder::new();
    let store = open(&folder.0, Durability::Interval(Duration::from_millis(1)));
    let blocking = store.blocking();
    let day = Expiry::After(Duration::from_secs(24 * 60 * 60));
    blocking.put_expiring(b"day", b"1", day).expect("it is put");
    let soon = Expiry::After(Duration::from_millis(1));
    blocking
        .put_expiring(b"soon", b"2", soon)
        .expect("it is put");
    while blocking.get(b"soon").expect("it is read").is_some() {
        std::thread::yield_now();
    }
    // By itself.
    while store.len() > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        blocking.get(b"day").expect("it is read").as_deref(),
        Some(&b"1"[..])
    );
    assert!(store.remaining(b"day") > Some(Duration::ZERO));
    assert!(blocking.persist(b"day").expect("it is there"));
    assert!(blocking.set_expiry(b"day", soon).expect("it is there"));
    while store.contains_key(b"day") {
        std::thread::yield_now();
    }
}

/// A copy of the files is what a crash would leave, at the least.
#[test]
fn an_interval_brings_writes_to_the_disk_by_itself() {
    let (folder, copy) = (Folder::new(), Folder::new());
    let store = open(&folder.0, Durability::Interval(Duration::from_millis(1)));
    store.blocking().put(b"key", b"value").expect("it is put");
    loop {
        std::fs::create_dir_all(&copy.0).expect("there is space");
        for file in std::fs::read_dir(&folder.0).expect("it is there") {
            let file = file.expect("it is read");
            std::fs::copy(file.path(), copy.0.join(file.file_name())).expect("there is space");
        }
        // A segment may have been copied before it was complete.
        if let Ok((crashed, _)) = Store::open(&copy.0, options_with(Durability::None)) {
            let value = crashed.blocking().get(b"key").expect("it is read");
            if value.as_deref() == Some(b"value") {
                break;
            }
        }
        std::fs::remove_dir_all(&copy.0).expect("it was made here");
    }
    store.stop().expect("all is on the disk");
}
