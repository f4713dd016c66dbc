//! How long a get of a record in memory takes, where one thread asks, and where several do.
//!
//! `memory_gets FOLDER [THREADS]` makes a store of 100,000 records of 100 bytes there. It prints
//! the nanoseconds of a get by one thread alone, and by each of so many at the same time.

#[path = "records/name.rs"]
mod name;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use name::name;
use timberline_store::{Durability, Options, Store};

const USAGE: &str = "usage: memory_gets FOLDER [THREADS]";
const RECORDS: u64 = 100_000;
const GETS: u64 = 1_500_000;
const ROUNDS: usize = 5;

/// Nanoseconds of a get by one of some threads.
fn get(store: &Store, seed: u64) -> f64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let begin = Instant::now();
    let mut found = 0;
    for _ in 0..GETS {
        let name = name(rng.u64(..RECORDS));
        found += u64::from(store.get_now(&name, |_| ()).is_ready());
    }
    let spent = begin.elapsed();
    assert!(found > GETS / 2, "most records are on the disk");
    spent.as_nanos() as f64 / GETS as f64
}

/// The mean of so many threads.
fn mean(store: &Store, threads: u64) -> f64 {
    let each: Vec<f64> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..threads)
            .map(|seed| scope.spawn(move || get(store, seed)))
            .collect();
        let done = begun.into_iter().map(|it| it.join());
        done.map(|it| it.expect("no get panics")).collect()
    });
    each.iter().sum::<f64>() / threads as f64
}

fn run(folder: &Path, threads: u64) -> Result<(), Box<dyn Error>> {
    let options = Options {
        durability: Durability::None,
        ..Options::default()
    };
    let (store, _) = Store::open(folder, options)?;
    (0..RECORDS).try_for_each(|it| store.blocking().put(&name(it), &[b'x'; 100]))?;
    for _ in 0..ROUNDS {
        let (one, all) = (mean(&store, 1), mean(&store, threads));
        println!("one thread {one:.0} ns, {threads} threads {all:.0} ns");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [folder] => run(folder.as_ref(), 2),
        [folder, threads] => run(folder.as_ref(), threads.parse()?),
        _ => Err(USAGE.into()),
    }
}
