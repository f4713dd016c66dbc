//! Correctness checks of a subject before it is timed: a fast wrong answer is worth nothing.
//!
//! First random operations on one thread against the standard library's map, then two threads that
//! insert concurrently, one by one and many a call. The checks do only what the workloads do:
//! inserted keys are new, updated keys exist.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use timberline_bench::workload::Rng;

use crate::index::{Index, LONGEST_SCAN, Scanned, Setting};
use crate::keys::{Block, Keys};

/// Random operations of the first part.
const OPERATIONS: u64 = 10_000;
/// The range of their ids: small, so that operations meet the same keys again.
const IDS: u64 = 4_000;
/// Records that each thread inserts in the second part.
const SHARE: u64 = 20_000;

/// Checks a fresh map of type `I`.
///
/// # Errors
/// One line: the first wrong answer.
pub fn check<I: Index<T::Key>, T: Keys>(keys: &T, seed: u64) -> Result<(), String> {
    let setting = Setting {
        longest_key: keys.longest(),
    };
    let index = I::new(&setting)?;
    let mut model = BTreeMap::new();
    alone(&index, keys, &mut model, seed)?;
    side_by_side(&index, keys)?;
    for id in IDS..IDS + 4 * SHARE {
        model.insert(T::bytes(one(keys, id).key(0)), (id, id));
    }
    whole(&index, keys, &model)
}

/// The expected contents of the map, by key: id and value.
type Model = BTreeMap<Vec<u8>, (u64, u64)>;

fn one<T: Keys>(keys: &T, id: u64) -> T::Block {
    let mut block = T::Block::default();
    keys.push(&mut block, id);
    block
}

fn alone<I: Index<T::Key>, T: Keys>(
    index: &I,
    keys: &T,
    model: &mut Model,
    seed: u64,
) -> Result<(), String> {
    let mut rng = Rng::new(seed, 0);
    for number in 0..OPERATIONS {
        let id = rng.below(IDS);
        let block = one(keys, id);
        let key = block.key(0);
        let bytes = T::bytes(key);
        let value = rng.bits() >> 1;
        match (rng.below(4), model.get(&bytes)) {
            (0, Some(_)) => {
                if !index.update(key, value) {
                    return Err(format!("operation {number}: update missed id {id}"));
                }
                model.insert(bytes, (id, value));
            }
            (0 | 1, None) => {
                if !index.insert(key, value) {
                    return Err(format!("operation {number}: insert refused id {id}"));
                }
                model.insert(bytes, (id, value));
            }
            (3, _) if I::SCANS => {
                let limit = 1 + rng.below(LONGEST_SCAN as u64) as usize;
                compare_scan(index, key, &bytes, limit, model)
                    .map_err(|wrong| format!("operation {number}: {wrong}"))?;
            }
            (_, expected) => {
                let expected = expected.map(|(_, value)| *value);
                let found = index.get(key);
                if found != expected {
                    return Err(format!(
                        "operation {number}: get of id {id} gave {found:?} instead of {expected:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn compare_scan<I: Index<K>, K: ?Sized>(
    index: &I,
    from: &K,
    from_bytes: &[u8],
    limit: usize,
    model: &Model,
) -> Result<(), String> {
    let above = model.range::<[u8], _>((Included(from_bytes), Unbounded));
    let expected = Scanned::of(above.map(|(_, (_, value))| *value), limit);
    let found = index.scan(from, limit);
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "a scan of {limit} gave {} records with sum {} instead of {} with {}",
        found.count, found.sum, expected.count, expected.sum
    ))
}

/// Two threads insert disjoint ids and read back their own earlier ones meanwhile.
fn side_by_side<I: Index<T::Key>, T: Keys>(index: &I, keys: &T) -> Result<(), String> {
    let share = |index: I, thread: u64| {
        let mut rng = Rng::new(thread, 1);
        for nth in 0..SHARE {
            let id = |nth| IDS + 2 * nth + thread;
            let (new, old) = (id(nth), id(rng.below(nth + 1)));
            if !index.insert(one(keys, new).key(0), new) {
                return Err(format!("thread {thread}: insert refused id {new}"));
            }
            let found = index.get(one(keys, old).key(0));
            if found != Some(old) {
                return Err(format!(
                    "thread {thread}: get of id {old} gave {found:?} while another inserts"
                ));
            }
        }
        let ids = (2 * SHARE..4 * SHARE).map(|nth| IDS + nth);
        let ids: Vec<_> = ids.filter(|id| id % 2 == thread).collect();
        let mut block = T::Block::default();
        for &id in &ids {
            keys.push(&mut block, id);
        }
        let records = ids.iter().enumerate();
        match index.insert_many(records.map(|(at, &id)| (block.key(at), id))) {
            true => Ok(()),
            false => Err(format!("thread {thread}: insert of many refused an id")),
        }
    };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            let index = index.clone();
            scope.spawn(move || share(index, thread))
        });
        let died = |_| Err("a thread that inserts panicked".to_string());
        let ends = threads.map(|thread| thread.join().unwrap_or_else(died));
        ends.into_iter().collect()
    })
}

/// Reads every record by key, then all of them in key order.
fn whole<I: Index<T::Key>, T: Keys>(index: &I, keys: &T, model: &Model) -> Result<(), String> {
    for (id, value) in model.values() {
        let found = index.get(one(keys, *id).key(0));
        if found != Some(*value) {
            return Err(format!(
                "in the end, get of id {id} gave {found:?} instead of {value}"
            ));
        }
    }
    if I::SCANS {
        for (bytes, (id, _)) in model.iter().step_by(LONGEST_SCAN / 2) {
            compare_scan(index, one(keys, *id).key(0), bytes, LONGEST_SCAN, model)
                .map_err(|wrong| format!("in the end, {wrong}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::keys::{Kind, Strings, Words};
    use crate::peers::Empty;
    use crate::peers::Locked;

    #[test]
    fn a_right_map_passes() {
        check::<Locked<u64>, _>(&Words { dense: false }, 1).unwrap();
        check::<Locked<u64>, _>(&Words { dense: true }, 1).unwrap();
        let urls = Strings::of(Kind::Urls, None).unwrap();
        check::<Locked<Vec<u8>>, _>(&urls, 1).unwrap();
    }

    #[test]
    fn no_map_does_not() {
        assert!(check::<Empty, _>(&Words { dense: true }, 1).is_err());
    }

    /// Loses every insert of a key that ends in seven.
    #[derive(Clone)]
    struct Forgetful(Locked<u64>);

    impl Index<u64> for Forgetful {
        fn new(_: &Setting) -> Result<Self, String> {
            Ok(Forgetful(Arc::default()))
        }

        fn insert(&self, key: &u64, value: u64) -> bool {
            key % 10 == 7 || self.0.insert(key, value)
        }

        fn get(&self, key: &u64) -> Option<u64> {
            self.0.get(key)
        }

        fn update(&self, key: &u64, value: u64) -> bool {
            self.0.update(key, value)
        }

        fn scan(&self, from: &u64, limit: usize) -> Scanned {
            self.0.scan(from, limit)
        }
    }

    #[test]
    fn a_map_that_loses_records_is_found_out() {
        let wrong = check::<Forgetful, _>(&Words { dense: true }, 1).unwrap_err();
        assert!(wrong.starts_with("operation "), "{wrong}");
    }
}
