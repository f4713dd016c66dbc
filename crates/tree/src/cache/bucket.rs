//! A bucket: copies of up to three records in one line, behind an optimistic lock.
//!
//! ```text
//!  0  version   8  counts, 3 × u8   11  flags, u8   16  keys, 3 × u64   40  values, 3 × u64
//! ```
//!
//! A flag a copy says that it is dirty: its value may be newer than its leaf's. One more closes the
//! bucket, whose page is about to go.
//!
//! A copy's count says how often it was hit lately, at least 1; 0 means no copy. A record without a
//! copy competes with the least used one: each miss decrements that count, and at 0 replaces the
//! copy. So the hottest records stay, whatever cold traffic passes (after Misra and Gries: "Finding
//! Repeated Elements", Science of Computer Programming 2(2), 1982, who decrement all counts).
#![allow(unsafe_code)]

use std::array::from_fn;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};

use crate::value::Loan;

/// Copies in a bucket.
pub const WAYS: usize = 3;

/// The maximum of a count: a hot record's bucket is then no longer written, and one that cooled is
/// soon replaced.
const MAX_COUNT: u8 = 15;

/// The count from which on a copy may be dirty: it was of use. One that just came may soon give way
/// to another, and would have to be written back for that (`docs/design/cache.md`).
const USED: u8 = 2;

/// The flag of a closed bucket. The lower ones are of the copies.
const CLOSED: u8 = 1 << WAYS;

/// A bucket behind its lock; one cache line.
pub type Bucket = Versioned<Body>;

/// The data that the lock guards.
#[repr(C)]
#[derive(Debug)]
pub struct Body {
    counts: [AtomicU8; WAYS],
    flags: AtomicU8,
    keys: [AtomicU64; WAYS],
    values: [AtomicU64; WAYS],
}

/// Locks a bucket and returns what `find` finds in it. `None` if it finds nothing, or the bucket's
/// page went.
pub fn lock_where<T>(
    bucket: &Bucket,
    find: impl Fn(&Body) -> Option<T>,
) -> Option<(Exclusive<'_, Body>, T)> {
    while let Ok(seen) = bucket.read() {
        let Ok(found) = seen.get(&find) else {
            continue;
        };
        let found = found?;
        if let Ok(held) = seen.upgrade() {
            return Some((held, found));
        }
    }
    None
}

/// What became of a record that competed for a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// It got one.
    Copied,
    /// All copies there are of more use.
    Refused,
    /// It would get the place of the copy of this key, which has to be written back first.
    Blocked(u64),
}

impl Offered {
    /// The key of the copy that is in the way.
    pub fn blocked(self) -> Option<u64> {
        match self {
            Offered::Blocked(key) => Some(key),
            Offered::Copied | Offered::Refused => None,
        }
    }
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

    /// The index of a record's copy, if that is dirty.
    pub fn find_dirty(&self, key: u64) -> Option<usize> {
        self.find(key).filter(|&way| self.is_dirty(way))
    }

    /// The index of a record's copy, and its value, if a bucket has one.
    #[inline(always)]
    pub fn lend<'g>(
        seen: &Snapshot<'g, Body>,
        key: u64,
    ) -> Result<Option<(usize, Loan<'g>)>, Restart> {
        let find = |body: &Body| body.find(key).map(|way| (way, body.value(way)));
        // SAFETY: validated, so that it is a record's value, or was when the bucket's page went,
        // which was under this guard.
        let lend = |(way, word)| (way, unsafe { Loan::new(word) });
        Ok(seen.get(find)?.map(lend))
    }

    /// The value there.
    #[inline(always)]
    pub fn value(&self, way: usize) -> u64 {
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

    /// Whether there is a copy, and it is dirty.
    pub fn is_dirty(&self, way: usize) -> bool {
        self.flags.load(Relaxed) & flag(way) != 0
    }

    // The functions below write, and are reached through an `Exclusive` only.

    /// Makes this an empty bucket.
    pub fn reset(&self) {
        for count in &self.counts {
            count.store(0, Relaxed);
        }
        self.flags.store(0, Relaxed);
    }

    /// From now on nothing is copied to this bucket, and no copy becomes dirty. Returns the keys of
    /// those that are.
    pub fn close(&self) -> [Option<u64>; WAYS] {
        self.flags.store(self.flags.load(Relaxed) | CLOSED, Relaxed);
        from_fn(|way| self.is_dirty(way).then(|| self.keys[way].load(Relaxed)))
    }

    /// Counts one more hit of a copy.
    pub fn count_use(&self, way: usize) {
        let count = (self.count(way) + 1).min(MAX_COUNT);
        self.counts[way].store(count, Relaxed);
    }

    /// A record without a copy competes for a place.
    pub fn offer(&self, key: u64, value: u64) -> Offered {
        if self.flags.load(Relaxed) & CLOSED != 0 {
            return Offered::Refused;
        }
        let least = (0..WAYS).min_by_key(|&way| self.count(way));
        let way = least.expect("there are ways");
        let count = self.count(way);
        if count > 1 {
            self.counts[way].store(count - 1, Relaxed);
            return Offered::Refused;
        }
        if self.is_dirty(way) {
            return Offered::Blocked(self.keys[way].load(Relaxed));
        }
        self.keys[way].store(key, Relaxed);
        self.values[way].store(value, Relaxed);
        self.counts[way].store(1, Relaxed);
        Offered::Copied
    }

    /// Replaces a copy's value.
    pub fn set(&self, way: usize, value: u64) {
        self.values[way].store(value, Relaxed);
    }

    /// Marks a copy as dirty if it was of use, unless the bucket is closed. Returns whether it is
    /// dirty now.
    pub fn mark_dirty(&self, way: usize) -> bool {
        let flags = self.flags.load(Relaxed);
        if flags & CLOSED == 0 && self.count(way) >= USED {
            self.flags.store(flags | flag(way), Relaxed);
        }
        self.is_dirty(way)
    }

    /// Marks a copy as clean: its leaf has its value.
    pub fn clean(&self, way: usize) {
        let flags = self.flags.load(Relaxed);
        self.flags.store(flags & !flag(way), Relaxed);
    }

    /// Removes a copy.
    pub fn clear(&self, way: usize) {
        self.clean(way);
        self.counts[way].store(0, Relaxed);
    }
}

/// The flag of a dirty copy.
fn flag(way: usize) -> u8 {
    1 << way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket() -> Body {
        let (counts, flags, keys, values) = Default::default();
        Body {
            counts,
            flags,
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
            assert_eq!(bucket.offer(key, 10 + key), Offered::Copied);
        }
        (0..4).for_each(|_| bucket.count_use(0));
        bucket.count_use(2);
        let in_place_of_1 = bucket.offer(7, 17);
        assert_eq!(in_place_of_1, Offered::Copied, "it was of no use");
        assert_eq!(
            [0, 1, 2, 7].map(|key| copy(&bucket, key)),
            [Some(10), None, Some(12), Some(17)]
        );
        // 7 has a count of 1, 2 of 2, 0 of 5.
        assert_eq!(bucket.offer(8, 18), Offered::Copied);
        bucket.count_use(bucket.find(8).unwrap());
        let once = bucket.offer(9, 19);
        assert_eq!(once, Offered::Refused, "one of two equals loses a count");
        assert_eq!(bucket.offer(9, 19), Offered::Copied);
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
        let is_copied = |_: &usize| bucket.offer(5, 5) == Offered::Copied;
        let asked = (1..).find(is_copied).unwrap();
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

    #[test]
    fn a_dirty_copy_gives_way_once_it_is_clean() {
        let bucket = bucket();
        (0..3).for_each(|key| _ = bucket.offer(key, key));
        assert!(!bucket.mark_dirty(0), "it was of no use");
        (0..3).for_each(|way| bucket.count_use(way));
        (1..3).for_each(|way| bucket.count_use(way));
        assert!(bucket.mark_dirty(0));
        assert_eq!(bucket.offer(7, 17), Offered::Refused);
        assert_eq!(bucket.offer(7, 17), Offered::Blocked(0));
        bucket.clean(0);
        assert_eq!(bucket.offer(7, 17), Offered::Copied);
        assert!(!bucket.is_dirty(0), "its place had another");
    }

    #[test]
    fn a_closed_bucket_takes_nothing_and_tells_what_is_dirty() {
        let bucket = bucket();
        (4..7).for_each(|key| _ = bucket.offer(key, key));
        (0..3).for_each(|way| bucket.count_use(way));
        assert!(bucket.mark_dirty(0) && bucket.mark_dirty(2));
        bucket.clear(2);
        assert_eq!(bucket.close(), [Some(4), None, None]);
        assert!(!bucket.mark_dirty(1), "no more of them");
        assert!(bucket.mark_dirty(0), "it is dirty still");
        assert_eq!(bucket.offer(9, 9), Offered::Refused);
        bucket.reset();
        assert_eq!(bucket.offer(9, 9), Offered::Copied);
        bucket.count_use(0);
        assert!(bucket.mark_dirty(0));
    }
}
