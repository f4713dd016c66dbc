//! How long opening takes where a checkpoint has all records and newer ones of some of their keys
//! are behind it, and where the store was closed.
//!
//! `opening FOLDER make [RECORDS] [BEHIND]` makes such a store of records of 84 bytes there, and
//! leaves it as a kill would. `opening FOLDER open [MAP]` opens it and leaves it so again, `opening
//! FOLDER close [MAP]` closes it then. MAP is the index's.

#[path = "records/name.rs"]
mod name;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use name::name;
use timberline_store::{Durability, IndexMap, IndexMemory, Options, Store};

const USAGE: &str =
    "usage: opening FOLDER make [RECORDS] [BEHIND], or opening FOLDER open or close [MAP]";

fn options(map: IndexMap) -> Options {
    Options {
        index: IndexMemory::plain(map),
        durability: Durability::None,
        segment_bytes: 16 << 20,
        ..Options::default()
    }
}

/// Puts records, and some of them again, behind a checkpoint.
fn make(folder: &Path, records: u64, behind: u64) -> Result<(), Box<dyn Error>> {
    let (store, _) = Store::open(folder, options(IndexMap::default()))?;
    let put = |number: u64| store.blocking().put(&name(number), &[number as u8; 84]);
    (0..records).try_for_each(put)?;
    let before = store.stats().checkpoints;
    store.begin_checkpoint();
    while store.stats().checkpoints == before {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut rng = fastrand::Rng::with_seed(1);
    (0..behind).try_for_each(|_| put(rng.u64(..records)))?;
    store.blocking().sync()?;
    // Otherwise it is closed.
    std::mem::forget(store);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(folder), Some(what)) = (args.first(), args.get(1)) else {
        return Err(USAGE.into());
    };
    let folder = Path::new(folder);
    let number = |at: usize, otherwise| args.get(at).map_or(Ok(otherwise), |it| it.parse());
    if what == "make" {
        return make(folder, number(2, 20_000_000)?, number(3, 6_000_000)?);
    }
    if what != "open" && what != "close" {
        return Err(USAGE.into());
    }
    let map = args
        .get(2)
        .map_or(Ok(IndexMap::default()), |it| it.parse())?;
    let start = Instant::now();
    let (store, report) = Store::open(folder, options(map))?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} keys of {} segments, {} of them unread: {seconds:.2} s",
        report.keys, report.segments, report.unread
    );
    if what == "close" {
        return Ok(store.stop()?);
    }
    std::mem::forget(store);
    Ok(())
}
