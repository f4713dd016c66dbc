//! A slot that its holder owns.

use std::mem;
use std::ptr::NonNull;

use super::Arenas;
use crate::TierId;

/// A slot that nobody else knows. Dropping it gives it back to its arena; [`Slot::keep`] makes
/// something of it that others are going to know.
#[must_use = "the slot is free again when this is dropped"]
pub struct Slot<'a> {
    arenas: &'a Arenas,
    start: NonNull<u8>,
    bytes: usize,
}

impl<'a> Slot<'a> {
    /// # Safety
    /// These arenas handed it out for this size, and the caller passes it on to nobody else.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub(super) unsafe fn new(arenas: &'a Arenas, start: NonNull<u8>, bytes: usize) -> Self {
        Slot {
            arenas,
            start,
            bytes,
        }
    }

    /// Its address. What is written there is reached by it: its provenance is exposed.
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
    pub fn tier(&self) -> TierId {
        self.arenas.tier_of(self.address())
    }

    /// The slot, which is not given back when this is dropped: [`Arenas::free`] does that, with
    /// the same number of bytes.
    #[inline(always)]
    pub fn keep(self) -> NonNull<u8> {
        let start = self.start;
        mem::forget(self);
        start
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // SAFETY: as `new` was promised; nobody else was told of it, and it is dropped once.
        #[allow(unsafe_code)]
        unsafe {
            self.arenas.free(self.start, self.bytes);
        }
    }
}
