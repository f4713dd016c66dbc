//! An owned slot.

use std::mem;
use std::ptr::NonNull;

use super::Arenas;
use crate::TierId;

/// An allocated slot that no other thread can reach. Dropping it frees it; [`Slot::keep`] turns it
/// into memory to be shared.
#[must_use = "the slot is free again when this is dropped"]
pub struct Slot<'a> {
    arenas: &'a Arenas,
    start: NonNull<u8>,
    bytes: usize,
}

impl<'a> Slot<'a> {
    /// # Safety
    /// These arenas allocated it for this size, and nothing else owns it.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub(super) unsafe fn new(arenas: &'a Arenas, start: NonNull<u8>, bytes: usize) -> Self {
        Slot {
            arenas,
            start,
            bytes,
        }
    }

    /// Its address. The provenance is exposed, so pointers can be made from it.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// The bytes that it was allocated for.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tier that it is in.
    #[inline(always)]
    pub fn tier(&self) -> TierId {
        self.arenas.tier_of(self.address())
    }

    /// The slot, which the caller now frees by [`Arenas::free`] with the same number of bytes.
    #[inline(always)]
    pub fn keep(self) -> NonNull<u8> {
        let start = self.start;
        mem::forget(self);
        start
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: as `new` was promised, and it is dropped once.
        #[allow(unsafe_code)]
        unsafe {
            self.arenas.free(self.start, self.bytes);
        }
    }
}
