//! The store's operations, and what it says when something goes wrong.

mod damage;
mod expiry;
mod hiding;
mod opening;
mod operations;
mod scans;
mod space;

use std::path::Path;

use timberline_io::{Buffer, Disk, Driver, Mode, Simulation};
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

/// Gives others a turn.
async fn pause() {
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

/// Makes a file of these bytes.
async fn copy_in(disk: &Disk, path: &Path, bytes: &[u8]) {
    let file = disk.open_file(path, Mode::create()).expect("it is made");
    let mut buffer = Buffer::zeroed(bytes.len()).expect("there is memory");
    buffer[..bytes.len()].copy_from_slice(bytes);
    let written = file.write_all(buffer, 0..bytes.len(), 0).await.1;
    written.expect("there is space");
}

fn simulated(seed: u64) -> (Simulation, Disk, Driver) {
    let simulation = Simulation::new(seed);
    let (disk, driver) = Disk::simulated(&simulation);
    (simulation, disk, driver)
}
