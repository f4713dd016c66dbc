//! A copy of a value's block, for a leaf that moves to another tier.

use timberline_tier::{Memory, OutOfMemory, Slot, TierId};

use super::Loan;
use super::block::{NewBlock, ValueBlock};
use crate::goal::Goal;
use crate::store::Store;

/// An allocated slot for a copy; freed if no copy is made.
pub(crate) struct ValueCopy<'s, M: Memory> {
    store: &'s Store<M>,
    slot: Slot<'s>,
}

impl<'s, M: Memory> ValueCopy<'s, M> {
    /// Allocates in exactly that tier for the block of a value. The empty string needs none, nor
    /// does a block that lies there already.
    pub fn new(
        store: &'s Store<M>,
        value: Loan<'_>,
        goal: Goal<'_>,
    ) -> Result<Option<Self>, OutOfMemory> {
        let elsewhere = |block: &ValueBlock| !goal.has_beside(store.arenas(), block.address());
        let Some(old) = ValueBlock::of(value).filter(elsewhere) else {
            return Ok(None);
        };
        let slot = store.allocate_in(goal.tier, old.slot())?;
        Ok(Some(ValueCopy { store, slot }))
    }

    /// The same, or in the next slower tier with a free slot.
    pub fn new_or_fall(
        store: &'s Store<M>,
        value: Loan<'_>,
        tier: TierId,
    ) -> Result<Option<Self>, OutOfMemory> {
        match Self::new(store, value, Goal::tier(tier)) {
            Err(_) if tier < store.arenas().slowest() => {
                Self::new_or_fall(store, value, TierId(tier.0 + 1))
            }
            outcome => outcome,
        }
    }

    /// Copies the value that it was allocated for. Returns the word that refers to the copy.
    pub fn make(self, value: Loan<'_>) -> u64 {
        let memory = &self.store.memory;
        NewBlock::write(self.slot, value.bytes(memory), memory).keep()
    }
}
