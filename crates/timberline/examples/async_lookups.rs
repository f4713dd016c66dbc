//! Look-ups as futures on tokio: each yields wherever it would wait for memory, so the look-ups of
//! many tasks overlap on each thread.
//!
//! A spawned task owns what it uses, so it gets a handle of its own: a clone.

use timberline::{Art, Error};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// A map of squares.
pub fn squares(records: u64) -> Result<Art<u64, u64>, Error> {
    let map = Art::new();
    for key in 0..records {
        map.insert(&key, key * key)?;
    }
    Ok(map)
}

/// The sum of the values of these keys, looked up by as many tasks.
pub async fn sum(map: &Art<u64, u64>, keys: impl Iterator<Item = u64>) -> u64 {
    let mut tasks = JoinSet::new();
    for key in keys {
        let map = map.clone();
        tasks.spawn(async move { map.get_async(&key).await });
    }
    let found = tasks.join_all().await;
    found.into_iter().flatten().sum()
}

/// Prints the sum of a thousand look-ups.
pub fn main() -> Result<(), Error> {
    let map = squares(100_000)?;
    let runtime = Builder::new_current_thread()
        .build()
        .expect("no driver is needed");
    let sum = runtime.block_on(sum(&map, (0..100_000).step_by(100)));
    println!("1000 look-ups: the squares sum up to {sum}");
    Ok(())
}
