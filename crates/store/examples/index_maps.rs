//! What a store's index takes of each map: bytes of memory a key, after keys were put in no order,
//! and when the store was opened again.
//!
//! `index_maps [RECORDS]`. To count instructions: `index_maps MAP KEYS OPERATION NUMBER` under
//! `valgrind --tool=callgrind`, less a run of another number; KEYS are `random` or `named`, an
//! OPERATION is `get`, `put` of a new key, or `overwrite`.

use std::error::Error;
use std::path::Path;
use std::task::Poll;

use timberline_io::{Disk, Driver, Simulation};
use timberline_store::{Durability, IndexMap, IndexMemory, Options, Store, join};

const USAGE: &str = "usage: index_maps [RECORDS], or index_maps MAP KEYS OPERATION NUMBER";
/// Records that are there when instructions are counted.
const THERE: usize = 200_000;

#[derive(Clone, Copy)]
enum Keys {
    /// Sixteen random bytes.
    Random,
    /// As programs name things: `user:000000123456`.
    Named,
}

const KEYS: [(&str, Keys); 2] = [("random", Keys::Random), ("named", Keys::Named)];

impl Keys {
    fn key(self, id: u64) -> Vec<u8> {
        match self {
            Keys::Random => [mixed(id), mixed(!id)].map(u64::to_be_bytes).concat(),
            Keys::Named => format!("user:{id:012}").into_bytes(),
        }
    }
}

/// One to one, and in no order: the finalizer of MurmurHash3.
fn mixed(mut id: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        id = (id ^ id >> 33).wrapping_mul(factor);
    }
    id ^ id >> 33
}

/// The first `count` numbers in no order.
fn shuffled(count: usize) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..count as u64).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut ids);
    ids
}

fn options(map: IndexMap) -> Options {
    Options {
        durability: Durability::None,
        index: IndexMemory::plain(map),
        cache_bytes: 256 << 20,
        direct: false,
        ..Options::default()
    }
}

/// Runs work on a store on a simulated disk.
fn with_store<T>(
    disk: &Disk,
    driver: &mut Driver,
    map: IndexMap,
    work: impl AsyncFnOnce(&Store) -> T,
) -> Result<T, Box<dyn Error>> {
    driver.block_on(async {
        let (store, _) = Store::open_on(disk, Path::new("store"), options(map)).await?;
        let work = async {
            let done = work(&store).await;
            store.close();
            done
        };
        let (done, maintained) = join(work, store.maintain()).await;
        maintained?;
        Ok(done)
    })
}

async fn put(store: &Store, key: &[u8]) -> Result<(), timberline_store::Error> {
    match store.put_now(key, b"a value!") {
        Poll::Ready(done) => done,
        Poll::Pending => store.put(key, b"a value!").await,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => bytes(1_000_000),
        [records] => bytes(records.parse()?),
        [map, keys, operation, number] => {
            let keys = KEYS.iter().find(|it| it.0 == keys).ok_or(USAGE)?.1;
            operate(map.parse()?, keys, operation, number.parse()?)
        }
        _ => Err(USAGE.into()),
    }
}

fn bytes(records: usize) -> Result<(), Box<dyn Error>> {
    let ids = shuffled(records);
    println!(
        "{:>8} {:>6} {:>8} {:>13}",
        "keys", "map", "put", "opened again"
    );
    for (name, keys) in KEYS {
        for map in IndexMap::ALL {
            let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
            let each = |store: &Store| store.stats().index_bytes as f64 / records as f64;
            let after_puts = with_store(&disk, &mut driver, map, async |store| {
                for &id in &ids {
                    put(store, &keys.key(id)).await?;
                }
                Ok::<f64, timberline_store::Error>(each(store))
            })??;
            let opened = with_store(&disk, &mut driver, map, async |store| each(store))?;
            println!("{name:>8} {map:>6} {after_puts:>8.1} {opened:>13.1}");
        }
    }
    Ok(())
}

fn operate(
    map: IndexMap,
    keys: Keys,
    operation: &str,
    number: usize,
) -> Result<(), Box<dyn Error>> {
    let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
    let ids = shuffled(THERE);
    with_store(&disk, &mut driver, map, async |store| {
        for &id in &ids {
            put(store, &keys.key(2 * id)).await?;
        }
        for (nth, id) in ids.iter().cycle().take(number).enumerate() {
            // As many as there are, between those that are there.
            let new = 2 * id + 1 + 2 * (nth / THERE * THERE) as u64;
            match operation {
                "get" => {
                    let found = store.get_now(&keys.key(2 * id), <[u8]>::len);
                    assert_eq!(found, Poll::Ready(Some(8)));
                }
                "put" => put(store, &keys.key(new)).await?,
                "overwrite" => put(store, &keys.key(2 * id)).await?,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(())
    })?
}
