//! The store's operations, and what it says when something goes wrong. One program, so that the
//! store is compiled once for all of them.

mod at_once;
mod backup;
mod cache;
mod checkpoints;
mod closing;
mod crashes;
mod damage;
mod eviction;
mod expiry;
mod failures;
mod fetched;
mod headers;
mod hiding;
mod histories;
mod large;
mod limits;
#[path = "../../../remote/tests/linear/mod.rs"]
mod linear;
mod opened;
mod opening;
mod operations;
mod other_map;
mod panics;
mod scans;
mod snapshots;
mod space;
mod threads;
mod tiers;

use std::cell::Cell;
use std::path::Path;

use opened::{pause, simulated, with_store};
use timberline_io::{Buffer, Disk, Mode};
use timberline_store::{Durability, IndexMap, IndexMemory, Options};

const SEGMENT: u64 = 64 << 10;

thread_local! {
    /// Which map a test's stores have as their index.
    static MAP: Cell<IndexMap> = Cell::default();
}

/// The index of a test's stores, in plain memory.
fn index() -> IndexMemory {
    IndexMemory::plain(MAP.get())
}

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT,
        direct: false,
        index: index(),
        ..Options::default()
    }
}

fn options_with(durability: Durability) -> Options {
    Options {
        durability,
        ..options()
    }
}

/// Makes a file of these bytes.
async fn copy_in(disk: &Disk, path: &Path, bytes: &[u8]) {
    let file = disk.open_file(path, Mode::create()).expect("it is made");
    let mut buffer = Buffer::zeroed(bytes.len()).expect("there is memory");
    buffer[..bytes.len()].copy_from_slice(bytes);
    let written = file.write_all(buffer, 0..bytes.len(), 0).await.1;
    written.expect("there is space");
}
