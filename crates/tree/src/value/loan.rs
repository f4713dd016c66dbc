//! A value's word that a leaf has, or had until just now.
//!
//! The modules of nodes make these, and they alone: of a word that a validated read found, or one
//! that was read under the node's lock. So a word that leads to a block or an `Arc` is never
//! followed beyond its guard, and what it owns is released once.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use timberline_sync::epoch::Guard;
use timberline_tier::{Arenas, Memory};

use crate::store::Store;

/// A value's word, lent for as long as the guard lives that it was read under: the block that it
/// refers to stays there meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Loan<'g> {
    word: u64,
    pinned: PhantomData<&'g ()>,
}

impl<'g> Loan<'g> {
    /// # Safety
    /// It is the word of a value that was in a leaf, or in a copy of its record, at some moment
    /// since the guard was made that lives as long as `'g`; and a validated read found it, or one
    /// under the lock.
    #[inline(always)]
    pub unsafe fn new(word: u64) -> Self {
        let pinned = PhantomData;
        Loan { word, pinned }
    }

    /// The word, to be compared, or as a value that is one. It is another value's only after the
    /// guard's end.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.word
    }
}

/// Releases what a value's word owns: its block, or its count.
///
/// # Safety
/// The word was put into a leaf of a map whose values are represented so, in these arenas. No leaf
/// has it any more, and no thread is pinned that may have read it in one. It is called once for it.
pub type Dispose = unsafe fn(word: u64, arenas: &Arenas);

/// A value that was taken out of its leaf. Readers that came to it before may still look at what it
/// owns.
#[must_use = "what it owns is lost if it is not reclaimed"]
#[derive(Debug)]
pub struct RetiredValue<'g>(Loan<'g>);

impl<'g> RetiredValue<'g> {
    /// # Safety
    /// No leaf has the word any more, but nodes that are no longer linked. This is the only one of
    /// it.
    #[inline(always)]
    pub unsafe fn new(value: Loan<'g>) -> Self {
        RetiredValue(value)
    }

    /// The value, which is there as long as the guard lives.
    #[inline(always)]
    pub fn loan(&self) -> Loan<'g> {
        self.0
    }

    /// Releases what it owns, if anything, once no thread can reach it any more. The guard and the
    /// store are its map's.
    #[inline(always)]
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        let word = self.0.word;
        // No word is 0 that owns anything.
        if let Some(dispose) = store.dispose()
            && word != 0
        {
            // SAFETY: as `new` was promised, and the epoch says that all readers are gone.
            store.reclaim(guard, move |state| unsafe { dispose(word, state.arenas()) });
        }
    }
}

/// Releases what the values of a map that ends own beyond its arenas. `each` shows all of them to
/// its argument.
/// Only the map's `drop` calls this.
pub fn dispose_of_all(store: &Store<impl Memory>, each: impl FnOnce(&mut dyn FnMut(Loan<'_>))) {
    if let Some(dispose) = store.dispose_at_end() {
        // SAFETY: the map ends, so no other thread has it, and nobody looks at its values again.
        each(&mut |value| unsafe { dispose(value.word, store.arenas()) });
    }
}
