//! A budget that changes: an index gives fast memory back while others need it, and takes it again.
//!
//! `cargo run --release --example changing_budget` prints how long the calls take, and how soon the
//! worker uses what was granted, beside a thread that reads.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use timberline::{BTree, Error};

/// An index of records with these keys and values, and with this much fast memory.
pub type Index = BTree<u64, u64>;

/// An index of `records` records.
pub fn index(records: u64, fast: usize) -> Result<Index, Error> {
    let index = Index::builder().fast_memory(fast).build()?;
    for key in 0..records {
        index.insert(&key, key)?;
    }
    Ok(index)
}

/// Sets another budget. Returns how long that took, and how long until nine tenths of it were used,
/// or until `patience` was over.
pub fn set(index: &Index, fast: usize, patience: Duration) -> Result<(Duration, Duration), Error> {
    let began = Instant::now();
    index.set_fast_memory(fast)?;
    let took = began.elapsed();
    assert!(index.committed().0 <= fast);
    while index.committed().0 < fast / 10 * 9 && began.elapsed() < patience {
        thread::sleep(Duration::from_millis(1));
    }
    Ok((took, began.elapsed()))
}

/// Changes the budget of an index of 2 million records that a thread reads at random.
pub fn main() -> Result<(), Error> {
    const RECORDS: u64 = 2_000_000;
    const MIB: usize = 1 << 20;
    let index = index(RECORDS, 4 * MIB)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut key: u64 = 1;
            while !done.load(Relaxed) {
                key = key.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                assert!(index.get(&((key >> 32) % RECORDS)).is_some());
            }
        });
        let changed = [16, 8, 32, 2, 16].map(|fast| {
            let (took, used) = set(&index, fast * MIB, Duration::from_secs(5))?;
            println!(
                "{fast} MiB: set in {} ms, nine tenths used after {} ms",
                took.as_millis(),
                used.as_millis()
            );
            Ok(())
        });
        done.store(true, Relaxed);
        changed.into_iter().collect()
    })
}
