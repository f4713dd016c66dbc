//! The store's operations, and what it says when something goes wrong.

mod damage;
mod opening;
mod operations;
mod scans;
mod space;

use std::path::Path;

use timberline_io::{Disk, Driver, Simulation};
use timberline_store::{Options, Store, join};

const SEGMENT: u64 = 64 << 10;

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT,
        direct: false,
        ..Options::default()
    }
}

/// Runs work on a store that is opened before and closed after it.
async fn with_store<T>(disk: &Disk, options: Options, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let (store, _) = Store::open_on(disk, Path::new("store"), options)
        .await
        .expect("it opens");
    let work = async {
        let result = work(&store).await;
        store.close();
        result
    };
    let (result, maintained) = join(work, store.maintain()).await;
    maintained.expect("nothing fails");
    result
}

fn simulated(seed: u64) -> (Simulation, Disk, Driver) {
    let simulation = Simulation::new(seed);
    let (disk, driver) = Disk::simulated(&simulation);
    (simulation, disk, driver)
}
