//! Stores for tests: on a simulated disk, or in a folder of this machine's.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_io::{Disk, Driver, Simulation};
use timberline_store::{IndexMap, IndexMemory, Options, Store, join};
use timberline_tree::{Art, BTree, Builder};

/// A folder of one test on this machine's disk, which is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("timberline-store-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&folder.0);
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn simulated(seed: u64) -> (Simulation, Disk, Driver) {
    let simulation = Simulation::new(seed);
    let (disk, driver) = Disk::simulated(&simulation);
    (simulation, disk, driver)
}

/// An index in two tiers of this machine's memory: 1 MiB of fast memory, so much of slow.
pub fn tiers(map: IndexMap, slow: usize) -> IndexMemory {
    fn placed<M>(map: Builder<M>, slow: usize) -> Builder<M> {
        map.fast_memory(1 << 20).slow_memory(slow)
    }
    match map {
        IndexMap::Art => IndexMemory::of(move || placed(Art::<[u8], u64>::builder(), slow).build()),
        IndexMap::BTree => {
            IndexMemory::of(move || placed(BTree::<[u8], u64>::builder(), slow).build())
        }
    }
}

/// The default map in two tiers, with 64 MiB of slow memory.
pub fn two_tiers() -> IndexMemory {
    tiers(IndexMap::default(), 64 << 20)
}

/// Runs work on the store in the folder `store`, which is opened before and closed after it.
pub async fn with_store<T>(
    disk: &Disk,
    options: Options,
    work: impl AsyncFnOnce(&Store) -> T,
) -> T {
    with_store_in("store", disk, options, work).await
}

/// The same in another folder.
pub async fn with_store_in<T>(
    folder: &str,
    disk: &Disk,
    options: Options,
    work: impl AsyncFnOnce(&Store) -> T,
) -> T {
    let opened = Store::open_on(disk, Path::new(folder), options).await;
    let (store, _) = opened.expect("it opens");
    let work = async {
        let result = work(&store).await;
        store.close();
        result
    };
    let (result, maintained) = join(work, store.maintain()).await;
    maintained.expect("nothing fails");
    result
}

/// Gives others a turn.
pub async fn pause() {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}
