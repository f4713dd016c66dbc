//! A dirty copy, held by the thread that changes its value.
#![allow(unsafe_code)]

use timberline_sync::Exclusive;

use super::bucket::{Body, Bucket, lock_where};
use crate::value::{Loan, RetiredValue};

/// The dirty copy of a record, in its locked bucket: the record is there, and this is its value.
pub struct Dirty<'g> {
    bucket: Exclusive<'g, Body>,
    way: usize,
}

impl<'g> Dirty<'g> {
    /// Locks the bucket, if it has a dirty copy of this record.
    pub fn lock(bucket: &'g Bucket, key: u64) -> Option<Dirty<'g>> {
        let (bucket, way) = lock_where(bucket, |body| body.find_dirty(key))?;
        Some(Dirty { bucket, way })
    }

    /// The record's value.
    pub fn value(&self) -> Loan<'g> {
        // SAFETY: under the lock, the value of a record that is there.
        unsafe { Loan::new(self.bucket.value(self.way)) }
    }

    /// Counts an access that the copy served.
    pub fn count_use(&self) {
        self.bucket.count_use(self.way);
    }

    /// Replaces the value and unlocks.
    pub fn replace(self, value: u64) -> RetiredValue<'g> {
        let before = self.value();
        self.bucket.set(self.way, value);
        // SAFETY: the copy has another. The leaf may have it, but not for readers that come from
        // now on: they find this copy, or the leaf after it was written back.
        unsafe { RetiredValue::new(before) }
    }

    /// Unlocks. The leaf has this value from now on; it is locked.
    pub fn clean(self) -> Loan<'g> {
        self.bucket.clean(self.way);
        self.value()
    }

    /// Unlocks what was not changed.
    pub fn unchanged(self) {
        self.bucket.unchanged();
    }
}
