//! A value's word that is in a leaf, or was in one under the same guard.
//!
//! Only the modules of nodes make these, of a word that a validated read returned, that was read
//! under the node's lock, or that needs neither (`art/node/leaf.rs`, `dense.rs`). So a word that
//! refers to a block or an `Arc` is never followed beyond its guard, and what it owns is released
//! once.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use timberline_sync::epoch::{Guard, UNKNOWN_BYTES};
use timberline_tier::{Arenas, Memory};

use super::block::ValueBlock;
use crate::store::Store;

/// A value's word, lent for as long as the guard lives under which it was read. The block that it
/// refers to is not freed meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Loan<'g> {
    word: u64,
    pinned: PhantomData<&'g ()>,
}

impl<'g> Loan<'g> {
    /// The word belonged to a value in a leaf, or in a copy of its record, at some moment since the
    /// guard of `'g` was made, and was read as the module's text says.
    #[inline(always)]
    pub unsafe fn new(word: u64) -> Self {
        let pinned = PhantomData;
        Loan { word, pinned }
    }

    /// The word, to compare it or to decode it. It may become another value's only after the guard
    /// ends.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.word
    }
}

/// Releases what a value's word owns: its block, or its count.
///
/// # Safety
/// A leaf of a map whose values have this representation, in these arenas, held the word. No leaf
/// has it any more, and no thread is pinned that may have read it in one. It is called once for it.
pub type Dispose = unsafe fn(word: u64, arenas: &Arenas);

/// A value that was taken out of its leaf. Readers that found it before may still use what it owns.
#[must_use = "what it owns is lost if it is not reclaimed"]
#[derive(Debug)]
pub struct RetiredValue<'g>(Loan<'g>);

impl<'g> RetiredValue<'g> {
    /// # Safety
    /// No linked node has the word any more. There is no other `RetiredValue` of it.
    #[inline(always)]
    pub unsafe fn new(value: Loan<'g>) -> Self {
        RetiredValue(value)
    }

    /// The value, which is not freed while the guard lives.
    #[inline(always)]
    pub fn loan(&self) -> Loan<'g> {
        self.0
    }

    /// Releases what the value owns, if anything, when no thread can reach it any more. The guard
    /// and the store are its map's.
    #[inline(always)]
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        let word = self.0.word;
        // A word that owns something is never 0.
        if let Some(dispose) = store.dispose()
            && word != 0
        {
            let block = store.has_blocks().then(|| ValueBlock::of(self.0)).flatten();
            let bytes = block.map_or(UNKNOWN_BYTES, ValueBlock::slot);
            store.reclaim(guard, bytes, move |state| {
                // SAFETY: `new` required it, and the epoch has passed all readers.
                unsafe { dispose(word, state.arenas()) }
            });
        }
    }
}

/// Releases what the values of a map own outside its arenas, when the map ends. `each` calls its
/// argument with all of them. Only the map's `drop` calls this.
pub fn dispose_of_all(store: &Store<impl Memory>, each: impl FnOnce(&mut dyn FnMut(Loan<'_>))) {
    if let Some(dispose) = store.dispose_at_end() {
        // SAFETY: the map ends, so no other thread has it, and its values are not read again.
        each(&mut |value| unsafe { dispose(value.word, store.arenas()) });
    }
}
