//! The keys: those loaded, in which order, and those inserted later.
//!
//! A record's *id* is its rank in key order, `0..records`, so "contiguous keys" means contiguous
//! ids, while the keys themselves look random.
//!
//! Invariants: [`KeySpace::key`] grows strictly with the id; loaded keys are even and inserted keys
//! are odd (dense keys: below and from `records` on), so they are disjoint; no two inserts have the
//! same key. Keys do not depend on the seed, so all runs over as many records start with the same
//! map.

use super::permutation::Permutation;
use super::rng::{self, Rng};
use crate::BadInput;

/// The keys of a benchmark's records. Cheap to copy.
#[derive(Clone, Debug)]
pub struct KeySpace {
    records: u64,
    /// Distance between the first keys of neighbouring ids; even, or 1 for dense keys.
    stride: u64,
    /// Scatters inserts over the key space; `None` if they follow the loaded keys.
    inserted: Option<Permutation>,
}

impl KeySpace {
    /// The maximum number of records.
    pub const MAX_RECORDS: u64 = 1 << 48;

    /// The keys of `records` records.
    ///
    /// # Errors
    ///
    /// `records` is 0 or above [`KeySpace::MAX_RECORDS`].
    pub fn new(records: u64) -> Result<KeySpace, BadInput> {
        if records == 0 || records > KeySpace::MAX_RECORDS {
            let most = KeySpace::MAX_RECORDS;
            return Err(BadInput(format!(
                "{records} records: possible are 1 to {most}"
            )));
        }
        Ok(KeySpace {
            records,
            stride: (u64::MAX / records) & !1,
            inserted: Some(Permutation::new(1 << 63, Rng::new(0, 0))),
        })
    }

    /// Dense keys: the key of id `n` is `n`, and inserts follow with `records`, `records + 1`, …
    ///
    /// # Errors
    ///
    /// The errors of [`KeySpace::new`].
    pub fn dense(records: u64) -> Result<KeySpace, BadInput> {
        Ok(KeySpace {
            stride: 1,
            inserted: None,
            ..KeySpace::new(records)?
        })
    }

    #[inline]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The key of the record with rank `id`, which must be below [`KeySpace::records`].
    #[inline]
    pub fn key(&self, id: u64) -> u64 {
        debug_assert!(id < self.records);
        id * self.stride + 2 * rng::scale(rng::hash(id), self.stride / 2)
    }

    /// Whether successive inserts are far apart in key order, like loaded records.
    #[inline]
    pub fn scatters_inserts(&self) -> bool {
        self.inserted.is_some()
    }

    /// The key of the `number`-th inserted record; `number` must be below 2⁶³. Except for dense
    /// keys, successive keys are far apart.
    #[inline]
    pub fn inserted_key(&self, number: u64) -> u64 {
        match &self.inserted {
            Some(scattered) => (scattered.at(number) << 1) | 1,
            None => self.records + number,
        }
    }
}

/// The ids `0..records` in the pseudo-random order of `seed`, of which `thread` out of `threads`
/// loads every `threads`-th. Together the threads load each id once.
///
/// # Panics
///
/// If `thread` is not below `threads`.
pub fn load_order(records: u64, seed: u64, thread: u64, threads: u64) -> LoadOrder {
    assert!(thread < threads, "thread {thread} of {threads}");
    LoadOrder {
        order: whole_load_order(records, seed),
        position: thread,
        step: threads,
    }
}

/// The order that the threads share.
pub(super) fn whole_load_order(records: u64, seed: u64) -> Permutation {
    Permutation::new(records, Rng::new(seed, rng::LOAD_ORDER))
}

/// One thread's part of the records to load.
#[derive(Clone, Debug)]
pub struct LoadOrder {
    order: Permutation,
    position: u64,
    step: u64,
}

impl Iterator for LoadOrder {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.position >= self.order.len() {
            return None;
        }
        let id = self.order.at(self.position);
        self.position += self.step;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.order.len().saturating_sub(self.position);
        let left = left.div_ceil(self.step) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for LoadOrder {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workload::tests::chi_square;

    #[test]
    fn keys_grow_strictly_with_the_id_and_reach_both_ends() {
        for records in [1, 2, 3, 7, 1000, 65_536, 100_003] {
            let space = KeySpace::new(records).unwrap();
            let keys: Vec<u64> = (0..records).map(|id| space.key(id)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{records} records");
            assert!(keys.iter().all(|key| key % 2 == 0));
        }
        let largest = KeySpace::new(KeySpace::MAX_RECORDS).unwrap();
        // Rounding the stride down loses less than 2 per record.
        let slack = 2 * (KeySpace::MAX_RECORDS + largest.stride);
        assert!(largest.key(KeySpace::MAX_RECORDS - 1) > u64::MAX - slack);
        assert!(largest.key(0) < largest.key(1));
    }

    #[test]
    fn keys_look_random_within_their_strides() {
        let space = KeySpace::new(100_000).unwrap();
        let mut bins = [0u64; 64];
        for id in 0..100_000 {
            bins[((space.key(id) - id * space.stride) / space.stride.div_ceil(64)) as usize] += 1;
        }
        chi_square::assert_fits(&bins, &[1.0 / 64.0; 64]);
    }

    #[test]
    fn inserted_keys_are_distinct_odd_and_everywhere() {
        let space = KeySpace::new(1000).unwrap();
        let keys: Vec<u64> = (0..100_000).map(|n| space.inserted_key(n)).collect();
        assert!(keys.iter().all(|key| key % 2 == 1));
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        let mut bins = [0u64; 64];
        for key in keys {
            bins[(key >> 58) as usize] += 1;
        }
        chi_square::assert_fits(&bins, &[1.0 / 64.0; 64]);
    }

    #[test]
    fn dense_keys_are_the_ids_and_inserts_follow_them() {
        let space = KeySpace::dense(1000).unwrap();
        assert!((0..1000).all(|id| space.key(id) == id));
        assert!((0..1000).all(|number| space.inserted_key(number) == 1000 + number));
        assert!(KeySpace::dense(0).is_err());
    }

    #[test]
    fn threads_share_out_the_load_without_gap_or_overlap() {
        for (records, threads) in [(1, 1), (1, 4), (10, 3), (1000, 7), (4096, 4)] {
            let mut ids = Vec::new();
            for thread in 0..threads {
                let share = load_order(records, 42, thread, threads);
                let expected = share.len();
                let before = ids.len();
                ids.extend(share);
                assert_eq!(ids.len() - before, expected);
            }
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..records), "{records} over {threads}");
        }
    }

    #[test]
    fn impossible_record_counts_are_named() {
        let error = KeySpace::new(0).unwrap_err().to_string();
        assert_eq!(error, "0 records: possible are 1 to 281474976710656");
        assert!(KeySpace::new(u64::MAX).is_err());
    }
}
