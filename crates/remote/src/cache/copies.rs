//! Copies of hot records, apart from their leaves.
//!
//! A leaf of 1 KiB is a dear way to keep one hot record. So a record that is read from a leaf which
//! does not stay is offered a place here, of 21 bytes. A record with a copy is changed here, too:
//! the copy is *dirty* until its leaf is next in this server's hands.
//!
//! **No copy is stale, and no leaf is used without its dirty copies.** Copies are asked for only
//! while the leaf is not in the cache. They are made, changed, and merged into their leaf by
//! operations that have the leaf's flight, or its page's lock, so by one at a time.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use super::{GOLDEN, below, boxed};
use crate::error::Result;

/// Records of a set: with their counts and the lock they fill a cache line.
const WAYS: usize = 3;

/// The count of a record that is asked for all the time.
const MAX_COUNT: u8 = 31;

/// Records by their keys.
pub(crate) struct Copies {
    sets: Box<[Aligned]>,
    dirty: AtomicUsize,
}

#[repr(align(64))]
struct Aligned(Mutex<Set>);

#[derive(Default)]
struct Set {
    keys: [u64; WAYS],
    values: [u64; WAYS],
    /// How often each was asked for, lately; 0 where there is none.
    counts: [u8; WAYS],
    /// A bit for each whose leaf has another value.
    dirty: u8,
}

/// The record of a dirty copy that has to be written before its place can be used.
#[must_use = "it stays dirty"]
pub(crate) struct InTheWay(pub u64);

impl Copies {
    /// As many sets as fit in so many bytes; there may be none.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(bytes: usize) -> Result<Copies> {
        let sets = bytes / size_of::<Aligned>();
        Ok(Copies {
            sets: boxed(sets, || Aligned(Mutex::default()))?,
            dirty: AtomicUsize::new(0),
        })
    }

    /// The value of a key, if there is a copy.
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut set = self.set_of(key)?;
        let way = set.visit(key)?;
        Some(set.values[way])
    }

    /// Changes the value of a key that has a copy, and returns the one before. The copy is dirty
    /// then.
    pub fn update(&self, key: u64, value: u64) -> Option<u64> {
        let mut set = self.set_of(key)?;
        let way = set.visit(key)?;
        self.mark(&mut set, way, true);
        Some(std::mem::replace(&mut set.values[way], value))
    }

    /// Offers a record that has no copy, as its leaf has it. It gets a place if there is one, or if
    /// the record that is asked for least has been outlasted.
    pub fn offer(&self, key: u64, value: u64) -> Option<InTheWay> {
        let mut set = self.set_of(key)?;
        if set.way(key).is_some() {
            return None;
        }
        let least = (0..WAYS).min_by_key(|&way| set.counts[way])?;
        if set.counts[least] > 1 {
            set.counts[least] -= 1;
            return None;
        }
        if set.is_dirty(least) {
            return Some(InTheWay(set.keys[least]));
        }
        set.keys[least] = key;
        set.values[least] = value;
        set.counts[least] = 1;
        None
    }

    /// Makes a copy, if there is one, what the leaf has become.
    pub fn follow(&self, key: u64, value: Option<u64>) {
        let Some(mut set) = self.set_of(key) else {
            return;
        };
        if let Some(way) = set.way(key) {
            self.mark(&mut set, way, false);
            match value {
                Some(value) => set.values[way] = value,
                None => set.counts[way] = 0,
            }
        }
    }

    /// The value of a dirty copy.
    pub fn dirty_value(&self, key: u64) -> Option<u64> {
        let set = self.set_of(key)?;
        let way = set.way(key)?;
        set.is_dirty(way).then_some(set.values[way])
    }

    /// Whether any copy is dirty.
    pub fn any_dirty(&self) -> bool {
        self.dirty.load(Relaxed) > 0
    }

    /// How many sets there are.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// The keys of the dirty copies in a set.
    pub fn dirty_keys(&self, set: usize) -> Vec<u64> {
        let set = lock(&self.sets[set]);
        let dirty = (0..WAYS).filter(|&way| set.is_dirty(way));
        dirty.map(|way| set.keys[way]).collect()
    }

    /// Forgets the copies of these keys, none of which is dirty.
    pub fn forget(&self, keys: &RangeInclusive<u64>) {
        for set in &self.sets {
            let mut set = lock(set);
            for way in 0..WAYS {
                if keys.contains(&set.keys[way]) {
                    debug_assert!(!set.is_dirty(way));
                    set.counts[way] = 0;
                }
            }
        }
    }

    fn mark(&self, set: &mut Set, way: usize, dirty: bool) {
        match (set.is_dirty(way), dirty) {
            (false, true) => self.dirty.fetch_add(1, Relaxed),
            (true, false) => self.dirty.fetch_sub(1, Relaxed),
            _ => return,
        };
        set.dirty ^= 1 << way;
    }

    fn set_of(&self, key: u64) -> Option<MutexGuard<'_, Set>> {
        let hash = key.wrapping_mul(GOLDEN);
        let hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.sets.get(below(self.sets.len(), hash)).map(lock)
    }
}

impl Set {
    fn way(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.counts[way] > 0 && self.keys[way] == key)
    }

    /// The same, and counts that it was asked for.
    fn visit(&mut self, key: u64) -> Option<usize> {
        let way = self.way(key)?;
        self.counts[way] = (self.counts[way] + 1).min(MAX_COUNT);
        Some(way)
    }

    fn is_dirty(&self, way: usize) -> bool {
        self.dirty & 1 << way != 0
    }
}

fn lock(set: &Aligned) -> MutexGuard<'_, Set> {
    set.0.lock().unwrap_or_else(|it| it.into_inner())
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
        let copies = Copies::new(64).unwrap();
        for key in 0..3 {
            assert!(copies.offer(key, key + 10).is_none());
        }
        for _ in 0..5 {
            assert_eq!(copies.get(0), Some(10));
            assert_eq!(copies.get(2), Some(12));
        }
        assert!(copies.offer(7, 17).is_none());
        assert_eq!((copies.get(1), copies.get(7)), (None, Some(17)));
        copies.follow(0, Some(5));
        copies.follow(2, None);
        assert_eq!((copies.get(0), copies.get(2)), (Some(5), None));
        assert_eq!(Copies::new(63).unwrap().get(1), None);
    }

    #[test]
    fn a_dirty_copy_keeps_its_place() {
        let copies = Copies::new(64).unwrap();
        for key in 0..3 {
            assert!(copies.offer(key, 1).is_none());
        }
        for key in [0, 2, 0, 2, 0, 2] {
            assert_eq!(copies.get(key), Some(1));
        }
        assert_eq!(copies.update(1, 2), Some(1));
        assert_eq!(copies.update(9, 2), None);
        assert_eq!(
            (copies.dirty_value(1), copies.dirty_value(0)),
            (Some(2), None)
        );
        for key in 10..100 {
            if let Some(InTheWay(key)) = copies.offer(key, 3) {
                assert_eq!(key, 1);
                assert_eq!((copies.dirty_keys(0), copies.any_dirty()), (vec![1], true));
                copies.follow(1, Some(2));
                assert!(!copies.any_dirty());
            }
        }
        assert_eq!(copies.get(1), None, "it was outlasted");
    }
}
