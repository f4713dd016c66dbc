//! Copies of hot records, apart from their leaves.
//!
//! A leaf of 1 KiB is a dear way to keep one hot record. So a record that is read from a leaf which
//! does not stay is offered a place here, of 21 bytes.
//!
//! **No copy is stale.** A copy is made only by an operation that has the leaf's flight, so that
//! nobody else has the leaf. Whoever changes a record changes its copy too, before the leaf's lock
//! or flight is released. And copies are asked only for records whose leaf is not in the cache.

use std::sync::{Mutex, MutexGuard};

/// Records of a set: with their counts and the lock they fill a cache line.
const WAYS: usize = 3;

/// The count of a record that is asked for all the time.
const MAX_COUNT: u8 = 31;

/// Records by their keys.
pub(crate) struct Copies {
    sets: Box<[Aligned]>,
}

#[repr(align(64))]
struct Aligned(Mutex<Set>);

#[derive(Default)]
struct Set {
    keys: [u64; WAYS],
    values: [u64; WAYS],
    /// How often each was asked for, lately; 0 where there is none.
    counts: [u8; WAYS],
}

impl Copies {
    /// As many sets as fit in so many bytes; there may be none.
    pub fn new(bytes: usize) -> Copies {
        let sets = bytes / size_of::<Aligned>();
        Copies {
            sets: (0..sets).map(|_| Aligned(Mutex::default())).collect(),
        }
    }

    /// The value of a key, if there is a copy.
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut set = self.set_of(key)?;
        let way = set.way(key)?;
        set.counts[way] = (set.counts[way] + 1).min(MAX_COUNT);
        Some(set.values[way])
    }

    /// Offers a record whose leaf this operation has alone. It gets a place if there is one, or if
    /// the one that is asked for least has been outlasted.
    pub fn offer(&self, key: u64, value: u64) {
        let Some(mut set) = self.set_of(key) else {
            return;
        };
        let least = (0..WAYS).min_by_key(|&way| set.counts[way]).unwrap_or(0);
        let way = set.way(key).unwrap_or(least);
        if set.keys[way] != key && set.counts[way] > 1 {
            set.counts[way] -= 1;
            return;
        }
        set.keys[way] = key;
        set.values[way] = value;
        set.counts[way] = set.counts[way].max(1);
    }

    /// Makes a copy, if there is one, what its record has become.
    pub fn change(&self, key: u64, value: Option<u64>) {
        let Some(mut set) = self.set_of(key) else {
            return;
        };
        if let Some(way) = set.way(key) {
            match value {
                Some(value) => set.values[way] = value,
                None => set.counts[way] = 0,
            }
        }
    }

    fn set_of(&self, key: u64) -> Option<MutexGuard<'_, Set>> {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        let Aligned(set) = self.sets.get(set as usize)?;
        Some(set.lock().unwrap_or_else(|it| it.into_inner()))
    }
}

impl Set {
    fn way(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.counts[way] > 0 && self.keys[way] == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_cache_line() {
        assert_eq!(size_of::<Aligned>(), 64);
    }

    #[test]
    fn what_is_asked_for_stays() {
        let copies = Copies::new(64);
        for key in 0..3 {
            copies.offer(key, key + 10);
        }
        for _ in 0..5 {
            assert_eq!(copies.get(0), Some(10));
            assert_eq!(copies.get(2), Some(12));
        }
        copies.offer(7, 17);
        assert_eq!((copies.get(1), copies.get(7)), (None, Some(17)));
        copies.change(0, Some(5));
        copies.change(2, None);
        assert_eq!((copies.get(0), copies.get(2)), (Some(5), None));
        assert_eq!(Copies::new(63).get(1), None);
    }
}
