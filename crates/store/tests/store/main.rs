//! The store's operations, and what it says when something goes wrong.

mod closing;
mod damage;
mod expiry;
mod hiding;
mod large;
#[path = "../opened/mod.rs"]
mod opened;
mod opening;
mod operations;
mod scans;
mod space;

use std::path::Path;

use opened::{pause, simulated, with_store};
use timberline_io::{Buffer, Disk, Mode};
use timberline_store::Options;

const SEGMENT: u64 = 64 << 10;

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT,
        direct: false,
        ..Options::default()
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
