//! The slots of a domain, by the index of their thread: the first few lie in the domain, the others
//! in buckets that are made when the first thread needs one, each as large as all before it.
#![allow(unsafe_code)]

use std::ptr;
use std::slice;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crossbeam_utils::CachePadded;

use super::slot::Slot;
use crate::shim::AtomicPtr;

/// Slots that lie in the domain.
const NEAR: usize = if cfg!(loom) { 2 } else { 32 };
/// Buckets of others.
const BUCKETS: usize = if cfg!(loom) { 2 } else { 16 };

type Padded = CachePadded<Slot>;

/// All slots of a domain. No thread uses that of index 0.
#[repr(C)]
pub struct Slots {
    near: [Padded; NEAR],
    far: [AtomicPtr<Padded>; BUCKETS],
}

/// Where among the near slots a thread's lies, in bytes.
#[derive(Clone, Copy)]
pub struct Near(usize);

impl Near {
    /// The slot of index 0.
    pub const NOBODY: Near = Near(0);

    /// The slot of this index, or [`NOBODY`](Self::NOBODY)'s if it is not near.
    pub fn of(index: usize) -> Near {
        match index {
            ..NEAR => Near(index * size_of::<Padded>()),
            _ => Near::NOBODY,
        }
    }
}

impl Slots {
    pub fn new() -> Self {
        Slots {
            near: std::array::from_fn(|_| CachePadded::new(Slot::new())),
            far: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// The slot there. Neither a branch nor a multiplication.
    #[inline(always)]
    pub fn near(&self, near: Near) -> &Slot {
        // SAFETY: `Near` holds the distance of one of the slots from the first of them, and nothing
        // else.
        unsafe { &*self.near.as_ptr().byte_add(near.0) }
    }

    /// The slot of this index, made if need be.
    ///
    /// # Panics
    /// There are about a million threads.
    pub fn of(&self, index: usize) -> &Slot {
        if let Some(slot) = self.near.get(index) {
            return slot;
        }
        // The bucket holds as many slots as its first index is.
        let bucket = (index / NEAR).ilog2() as usize;
        let first = NEAR << bucket;
        let slots = self.bucket(bucket).unwrap_or_else(|| self.add(bucket));
        &slots[index - first]
    }

    /// All that were made so far. A slot that was taken before a barrier is seen after it.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        let far = (0..BUCKETS).filter_map(|bucket| self.bucket(bucket));
        let all = self.near.iter().chain(far.flatten());
        all.map(|slot| &**slot)
    }

    fn bucket(&self, bucket: usize) -> Option<&[Padded]> {
        let slots = self.far[bucket].load(Acquire);
        // SAFETY: `add` made the bucket with this length, and it is not freed before the domain is.
        (!slots.is_null()).then(|| unsafe { slice::from_raw_parts(slots, NEAR << bucket) })
    }

    #[cold]
    fn add(&self, bucket: usize) -> &[Padded] {
        let slots: Box<[Padded]> = (0..NEAR << bucket)
            .map(|_| CachePadded::new(Slot::new()))
            .collect();
        let slots = Box::into_raw(slots);
        let (none, first) = (ptr::null_mut(), slots.cast::<Padded>());
        if self.far[bucket]
            .compare_exchange(none, first, AcqRel, Acquire)
            .is_err()
        {
            // SAFETY: it was just made from a box, and no other thread has seen it.
            drop(unsafe { Box::from_raw(slots) });
        }
        self.bucket(bucket).expect("one of the threads made it")
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (bucket, slots) in self.far.iter().enumerate() {
            let slots = slots.load(Acquire);
            if !slots.is_null() {
                let slots = ptr::slice_from_raw_parts_mut(slots, NEAR << bucket);
                // SAFETY: `add` made it from a box of this length, and nothing borrows the domain
                // any more.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_a_slot_of_its_own_that_stays_where_it_is() {
        let slots = Slots::new();
        let address = |index| ptr::from_ref(slots.of(index)).addr();
        assert_eq!(slots.iter().count(), NEAR);
        let first: Vec<usize> = (0..10 * NEAR).map(address).collect();
        let again: Vec<usize> = (0..10 * NEAR).map(address).collect();
        assert_eq!(first, again);
        let all: Vec<usize> = slots
            .iter()
            .map(|slot| ptr::from_ref(slot).addr())
            .collect();
        assert_eq!(all.len(), 16 * NEAR, "NEAR and 1, 2, 4, 8 times that");
        assert_eq!(first, all[..first.len()]);
        for index in 0..2 * NEAR {
            let near = ptr::from_ref(slots.near(Near::of(index))).addr();
            assert_eq!(near, if index < NEAR { first[index] } else { first[0] });
        }
    }
}
