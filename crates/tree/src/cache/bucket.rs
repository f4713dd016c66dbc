//! A bucket: copies of up to three records in one line, behind an optimistic lock.
//!
//! ```text
//!  0  version    8  counts, 3 × u8 · lengths, 3 × u8    16  keys, 3 × u64    40  values, 3 × u64
//! ```
//!
//! A record whose key has at most eight bytes takes one of the three places. A longer key goes on
//! in the next place or two, with a word in place of a key and one in place of a value each: up to
//! 24 or 40 bytes. The count and the length are those of a copy's first place; its others have a
//! count of 0. (In a map whose keys are words nobody reads a length.)
//!
//! A copy's count says how often it was hit lately, at least 1; 0 means no copy. A record without a
//! copy competes with the least used one: each miss decrements that count, and at 0 replaces the
//! copy. So the hottest records stay, whatever cold traffic passes (after Misra and Gries: "Finding
//! Repeated Elements", Science of Computer Programming 2(2), 1982, who decrement all counts).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Snapshot, Versioned};

use super::key::{CopyKey, places_of};
use crate::value::Loan;

/// Places in a bucket.
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
    /// Of keys, in bytes.
    lengths: [AtomicU8; WAYS],
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
    pub fn find(&self, key: impl CopyKey) -> Option<usize> {
        (0..WAYS).find(|&way| key.is_at(self, way) && self.count(way) > 0)
    }

    /// The index of a record's copy, and its value, if a bucket has one.
    #[inline(always)]
    pub fn lend<'g>(seen: &Snapshot<'g, Body>, key: impl CopyKey) -> Option<(usize, Loan<'g>)> {
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

    /// Bytes of the key of the copy at a place.
    #[inline(always)]
    pub fn length(&self, way: usize) -> usize {
        self.lengths[way].load(Relaxed).into()
    }

    /// A word of the key of the copy at a place.
    #[inline(always)]
    pub fn key_word(&self, way: usize, index: usize) -> u64 {
        self.place_of_word(way, index).load(Relaxed)
    }

    /// Where that is. A length may be torn, so that what it tells may end behind the bucket.
    #[inline(always)]
    fn place_of_word(&self, way: usize, index: usize) -> &AtomicU64 {
        let further = way + index.div_ceil(2);
        match index > 0 && index.is_multiple_of(2) {
            true => &self.values[further.min(WAYS - 1)],
            false => &self.keys[further.min(WAYS - 1)],
        }
    }

    /// Each copy's first place, and the end of its places.
    fn copies(&self) -> impl Iterator<Item = (usize, usize)> {
        let first = (0..WAYS).filter(move |&way| self.count(way) > 0);
        first.map(move |way| (way, way + places_of(self.length(way))))
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

    /// A record without a copy competes for a place, or as many as its key takes. Returns whether
    /// it got one.
    pub fn offer(&self, key: impl CopyKey, value: u64) -> bool {
        let Some(places) = key.places() else {
            return false;
        };
        // The copies that are in its way there.
        let there = |at: usize| {
            self.copies()
                .filter(move |&(first, end)| first < at + places && at < end)
        };
        let cost = |&at: &usize| there(at).map(|(first, _)| self.count(first)).max();
        let at = (0..=WAYS - places).min_by_key(cost);
        let at = at.expect("there are places");
        let mut has_room = true;
        for (first, _) in there(at) {
            let count = self.count(first);
            if count > 1 {
                self.counts[first].store(count - 1, Relaxed);
                has_room = false;
            }
        }
        if !has_room {
            return false;
        }
        there(at).for_each(|(first, _)| self.clear(first));
        key.write_to(self, at);
        self.values[at].store(value, Relaxed);
        self.counts[at].store(1, Relaxed);
        true
    }

    /// Sets the length of the key of the copy at a place.
    #[inline(always)]
    pub fn set_length(&self, way: usize, bytes: usize) {
        self.lengths[way].store(bytes as u8, Relaxed);
    }

    /// Sets a word of it.
    #[inline(always)]
    pub fn set_key_word(&self, way: usize, index: usize, word: u64) {
        self.place_of_word(way, index).store(word, Relaxed);
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
        let (counts, lengths, keys, values) = Default::default();
        Body {
            counts,
            lengths,
            keys,
            values,
        }
    }

    fn copy(bucket: &Body, key: impl CopyKey) -> Option<u64> {
        bucket.find(key).map(|way| bucket.value(way))
    }

    #[test]
    fn an_empty_bucket_has_no_copy_of_key_0() {
        assert_eq!(bucket().find(0), None);
        assert_eq!(bucket().find(&b""[..]), None);
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

    /// A key of each length, which tells its length and its number.
    fn long(number: u8, bytes: usize) -> Vec<u8> {
        (0..bytes as u8).map(|at| at ^ number).collect()
    }

    #[test]
    fn strings_of_up_to_40_bytes_are_found_by_all_of_their_bytes() {
        for bytes in 0..=40 {
            let (bucket, key) = (bucket(), long(1, bytes));
            assert!(bucket.offer(&key[..], 7));
            assert_eq!(copy(&bucket, &key[..]), Some(7));
            for at in 0..bytes {
                let mut other = key.clone();
                other[at] ^= 0x80;
                assert_eq!(copy(&bucket, &other[..]), None, "{at} of {bytes}");
                assert_eq!(copy(&bucket, &key[..at]), None);
            }
            let longer = [&key[..], &[0]].concat();
            assert_eq!(copy(&bucket, &longer[..]), None);
        }
        let bucket = bucket();
        assert!(!bucket.offer(&long(1, 41)[..], 7));
        assert_eq!(bucket.find(&long(1, 41)[..]), None);
    }

    #[test]
    fn a_long_key_takes_the_places_of_the_least_used() {
        let bucket = bucket();
        for number in 0..3 {
            assert!(bucket.offer(&long(number, 8)[..], number.into()));
        }
        let used = |number: u8, times: usize| {
            let way = bucket.find(&long(number, 8)[..]).unwrap();
            (0..times).for_each(|_| bucket.count_use(way));
        };
        used(2, 5);
        used(1, 1);
        let key = long(9, 24);
        assert!(!bucket.offer(&key[..], 90), "one in its way was used twice");
        assert!(bucket.offer(&key[..], 90));
        let copies = [0, 1, 2].map(|number| copy(&bucket, &long(number, 8)[..]));
        assert_eq!(copies, [None, None, Some(2)]);
        assert_eq!(copy(&bucket, &key[..]), Some(90));
        // A short one takes the place of a long one as a whole.
        assert!(bucket.offer(&long(0, 3)[..], 30));
        assert_eq!(bucket.find(&key[..]), None);
        let last = long(5, 40);
        let asked = (1..).find(|_| bucket.offer(&last[..], 50)).unwrap();
        assert_eq!((asked, copy(&bucket, &last[..])), (6, Some(50)));
        assert_eq!(bucket.find(&long(0, 3)[..]), None);
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
