//! Latest: the newer a record, the likelier it is read (YCSB's "read latest": Cooper et al., SoCC
//! 2010).
//!
//! The age of a read's record, in records before the newest, follows Zipf's law over as many
//! records as were loaded. The newest are this thread's own inserts, then the loaded records in the
//! reverse of [`load_order`](super::load_order) with the same seed.
//!
//! YCSB counts the inserts of all threads in one shared counter. Here each thread reads its own
//! inserts only. So its requests do not depend on the speed of other threads, and every record that
//! it reads exists.

use super::key_space::{KeySpace, whole_load_order};
use super::permutation::Permutation;
use super::rng::Rng;
use super::stream::Inserts;
use super::zipf::Zipf;

#[derive(Clone, Debug)]
pub(super) struct Latest {
    back: Zipf,
    loaded: Permutation,
}

impl Latest {
    pub fn new(space: &KeySpace, theta: f64, seed: u64) -> Latest {
        Latest {
            back: Zipf::new(space.records(), theta),
            loaded: whole_load_order(space.records(), seed),
        }
    }

    #[inline]
    pub fn key(&self, rng: &mut Rng, space: &KeySpace, inserts: &Inserts) -> u64 {
        let back = self.back.rank(rng);
        match inserts.made.checked_sub(back + 1) {
            Some(nth) => space.inserted_key(inserts.number(nth)),
            None => {
                let loaded_back = back - inserts.made;
                space.key(self.loaded.at(space.records() - 1 - loaded_back))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::workload::load_order;
    use crate::workload::tests::chi_square;

    /// After `made` inserts, thread 1 of 3 reads back by Zipf's law over 100 records.
    fn check(made: u64) {
        let space = KeySpace::new(100).unwrap();
        let inserts = Inserts {
            made,
            thread: 1,
            threads: 3,
        };
        let oldest_first = load_order(100, 5, 0, 1)
            .map(|id| space.key(id))
            .chain((0..made).map(|nth| space.inserted_key(1 + 3 * nth)));
        let newest_first: Vec<u64> = oldest_first.collect::<Vec<_>>().into_iter().rev().collect();
        let ages: HashMap<u64, usize> = newest_first.into_iter().zip(0..).collect();

        let (latest, mut rng) = (Latest::new(&space, 0.99, 5), Rng::new(1, 0));
        let mut counts = vec![0; 100];
        for _ in 0..100_000 {
            counts[ages[&latest.key(&mut rng, &space, &inserts)]] += 1;
        }
        let weights: Vec<f64> = (1..=100).map(|k| f64::from(k).powf(-0.99)).collect();
        let total: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        chi_square::assert_fits(&counts, &law);
    }

    #[test]
    fn before_any_insert_the_last_loaded_are_the_newest() {
        check(0);
    }

    #[test]
    fn own_inserts_are_newer_than_what_was_loaded() {
        check(1);
        check(40);
    }

    #[test]
    fn after_many_inserts_only_they_are_read() {
        check(100);
        check(1000);
    }
}
