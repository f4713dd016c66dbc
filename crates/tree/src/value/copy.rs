//! A copy of a value's block, for a leaf that moves to another tier.

use std::ptr::NonNull;

use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::block::ValueBlock;
use crate::goal::Goal;
use crate::store::Store;

/// An allocated slot for a copy; freed if no copy is made.
pub(crate) struct ValueCopy<'s, M: Memory> {
    store: &'s Store<M>,
    old: ValueBlock,
    slot: Option<NonNull<u8>>,
}

impl<'s, M: Memory> ValueCopy<'s, M> {
    /// Allocates in exactly that tier for the block of a word. The empty string needs none, nor
    /// does a block that is there already.
    pub fn new(
        store: &'s Store<M>,
        word: u64,
        goal: Goal<'_>,
    ) -> Result<Option<Self>, OutOfMemory> {
        let elsewhere = |block: &ValueBlock| !goal.has_beside(store.arenas(), block.address());
        let Some(old) = ValueBlock::of(word).filter(elsewhere) else {
            return Ok(None);
        };
        let slot = Some(store.allocate_in(goal.tier, old.slot())?.keep());
        Ok(Some(ValueCopy { store, old, slot }))
    }

    /// The same, or in the next slower tier with a free slot.
    pub fn new_or_fall(
        store: &'s Store<M>,
        word: u64,
        tier: TierId,
    ) -> Result<Option<Self>, OutOfMemory> {
        match Self::new(store, word, Goal::tier(tier)) {
            Err(_) if tier < store.arenas().slowest() => {
                Self::new_or_fall(store, word, TierId(tier.0 + 1))
            }
            outcome => outcome,
        }
    }

    /// Makes the copy. Returns the word that refers to it.
    pub fn make(mut self, guard: &Guard) -> u64 {
        let slot = self.slot.take().expect("made once");
        self.old.copy_to(slot, &self.store.memory, guard).word()
    }
}

impl<M: Memory> Drop for ValueCopy<'_, M> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.old.discard_copy(slot, self.store.arenas());
        }
    }
}
