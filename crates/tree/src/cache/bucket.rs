//! A bucket: copies of up to three records in one line, behind an optimistic lock.
//!
//! ```text
//!  0  version        8  counts, 3 × u8        16  keys, 3 × u64        40  values, 3 × u64
//! ```
//!
//! A copy's count says how often it was hit lately, at least 1; 0 means no copy. A record without a
//! copy competes with the least used one: each miss decrements that count, and at 0 replaces the
//! copy. So the hottest records stay, whatever cold traffic passes (after Misra and Gries: "Finding
//! Repeated Elements", Science of Computer Programming 2(2), 1982, who decrement all counts).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Snapshot, Versioned};

use crate::value::Loan;

/// Copies in a bucket.
pub const WAYS: usize = 3;

/// The maximum of a count: a hot record's bucket is then no longer written, and one that cooled is
/// soon replaced.
const MAX_COUNT: u8 = 15;

/// A bucket behind its lock; one cache line.
pub type Bucket = Versioned<Body>;

/// The data that the lock guards.
#[repr(C)]
#[derive(Debug)]
pub struct Body {
    counts: [AtomicU8; WAYS],
    keys: [AtomicU64; WAYS],
    values: [AtomicU64; WAYS],
}

/// Bytes of a bucket.
pub const BYTES: usize = {
    assert!(size_of::<Bucket>() == 64);
    size_of::<Bucket>()
};

impl Body {
    /// The index of a record's copy.
    #[inline(always)]
    pub fn find(&self, key: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.keys[way].load(Relaxed) == key && self.count(way) > 0)
    }

    /// The index of a record's copy, and its value, if a bucket has one.
    #[inline(always)]
    pub fn lend<'g>(seen: &Snapshot<'g, Body>, key: u64) -> Option<(usize, Loan<'g>)> {
        let find = |body: &Body| body.find(key).map(|way| (way, body.value(way)));
        let (way, word) = seen.get(find).ok()??;
        // SAFETY: validated, so that it is a record's value, or was when the bucket's page went,
        // which was under this guard.
        Some((way, unsafe { Loan::new(word) }))
    }

    /// The value there.
    #[inline(always)]
    fn value(&self, way: usize) -> u64 {
        self.values[way.min(WAYS - 1)].load(Relaxed)
    }

    #[inline(always)]
    fn count(&self, way: usize) -> u8 {
        self.counts[way].load(Relaxed)
    }

    /// Whether a hit of this copy need no longer be counted.
    pub fn is_at_most(&self, way: usize) -> bool {
        self.count(way.min(WAYS - 1)) >= MAX_COUNT
    }

    // The functions below write, and are reached through an `Exclusive` only.

    /// Makes this an empty bucket.
    pub fn reset(&self) {
        for count in &self.counts {
            count.store(0, Relaxed);
        }
    }

    /// Counts one more hit of a copy.
    pub fn count_use(&self, way: usize) {
        let count = (self.count(way) + 1).min(MAX_COUNT);
        self.counts[way].store(count, Relaxed);
    }

    /// A record without a copy competes for a place. Returns whether it got one.
    pub fn offer(&self, key: u64, value: u64) -> bool {
        let least = (0..WAYS).min_by_key(|&way| self.count(way));
        let way = least.expect("there are ways");
        let count = self.count(way);
        if count > 1 {
            self.counts[way].store(count - 1, Relaxed);
            return false;
        }
        self.keys[way].store(key, Relaxed);
        self.values[way].store(value, Relaxed);
        self.counts[way].store(1, Relaxed);
        true
    }

    /// Replaces a copy's value.
    pub fn set(&self, way: usize, value: u64) {
        self.values[way].store(value, Relaxed);
    }

    /// Removes a copy.
    pub fn clear(&self, way: usize) {
        self.counts[way].store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> Body {
        let (counts, keys, values) = Default::default();
        Body {
            counts,
            keys,
            values,
        }
    }

    fn copy(bucket: &Body, key: u64) -> Option<u64> {
        bucket.find(key).map(|way| bucket.value(way))
    }

    #[test]
    fn an_empty_bucket_has_no_copy_of_key_0() {
        assert_eq!(bucket().find(0), None);
    }

    #[test]
    fn what_is_of_use_stays_and_what_is_not_goes() {
        let bucket = bucket();
        for key in 0..3 {
            assert!(bucket.offer(key, 10 + key));
        }
        (0..4).for_each(|_| bucket.count_use(0));
        bucket.count_use(2);
        assert!(
            bucket.offer(7, 17),
            "in the place of 1, which was of no use"
        );
        assert_eq!(
            [0, 1, 2, 7].map(|key| copy(&bucket, key)),
            [Some(10), None, Some(12), Some(17)]
        );
        // 7 has a count of 1, 2 of 2, 0 of 5.
        assert!(bucket.offer(8, 18));
        bucket.count_use(bucket.find(8).unwrap());
        assert!(!bucket.offer(9, 19), "one of two equals loses a count");
        assert!(bucket.offer(9, 19));
        assert_eq!([0, 9].map(|key| copy(&bucket, key)), [Some(10), Some(19)]);
    }

    #[test]
    fn counts_end_so_that_places_can_be_had() {
        let bucket = bucket();
        for key in 0..3 {
            bucket.offer(key, key);
            let way = bucket.find(key).unwrap();
            (0..1000).for_each(|_| bucket.count_use(way));
            assert!(bucket.is_at_most(way));
        }
        let asked = (1..).find(|_| bucket.offer(5, 5)).unwrap();
        assert_eq!(asked, usize::from(MAX_COUNT));
    }

    #[test]
    fn copies_change_and_go() {
        let bucket = bucket();
        bucket.offer(4, 40);
        bucket.set(bucket.find(4).unwrap(), 41);
        assert_eq!(copy(&bucket, 4), Some(41));
        bucket.clear(bucket.find(4).unwrap());
        assert_eq!(copy(&bucket, 4), None);
        bucket.offer(4, 42);
        bucket.reset();
        assert_eq!(copy(&bucket, 4), None);
    }
}
