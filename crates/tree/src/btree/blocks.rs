//! What lies beside a leaf: the blocks of its entries, and of their values. They go to another tier
//! together with it.
//!
//! Room for them is taken before any lock; they are copied under the leaf's lock. Those that are in
//! the right tier already stay where they are.

use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Arenas, Memory, Slot, TierId};

use super::node::{Block, Body};
use super::payload::Payload;
use super::tree::Tree;
use crate::abort::Abort;
use crate::goal::Goal;
use crate::store::Store;
use crate::value::{Loan, ValueBlock, ValueCopy};

/// The block of an entry, and the word of its value if that may lie in one.
struct Beside {
    entry: Option<Block>,
    value: Option<u64>,
}

impl Beside {
    fn of<P: Payload, const WORDS: usize>(
        leaf: &Snapshot<'_, Body<WORDS>>,
        index: usize,
    ) -> Result<Self, Restart> {
        let (key, payload) = leaf.get(|body| (body.key(index), body.payload(index)))?;
        let value = match P::VALUES {
            true => P::value(key, payload),
            false => None,
        };
        // The value may lie in the entry's block, which is guarded by the leaf's version.
        leaf.validate()?;
        let entry = P::block(key, payload);
        Ok(Beside { entry, value })
    }

    /// The address of each block, and the bytes of its slot.
    fn slots(self) -> impl Iterator<Item = (usize, usize)> {
        let entry = self.entry.map(|block| (block.address(), block.slot()));
        let value = self.value.and_then(ValueBlock::of);
        let value = value.map(|block| (block.address(), block.slot()));
        entry.into_iter().chain(value)
    }
}

/// Bytes of all slots beside a leaf.
pub(super) fn bytes_beside<P: Payload, const WORDS: usize>(
    leaf: &Snapshot<'_, Body<WORDS>>,
) -> Result<usize, Restart> {
    let mut bytes = 0;
    if P::BLOCKS {
        for index in 0..leaf.get(Body::count)? {
            let slots = Beside::of::<P, WORDS>(leaf, index)?.slots();
            bytes += slots.map(|(_, bytes)| bytes).sum::<usize>();
        }
    }
    Ok(bytes)
}

/// Whether all blocks of a leaf are where they are to be.
pub(super) fn all_at<P: Payload, const WORDS: usize>(
    leaf: &Snapshot<'_, Body<WORDS>>,
    goal: Goal<'_>,
    arenas: &Arenas,
) -> Result<bool, Restart> {
    for index in 0..leaf.get(Body::count)? {
        let mut slots = Beside::of::<P, WORDS>(leaf, index)?.slots();
        if slots.any(|(address, _)| !goal.has_beside(arenas, address)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Room for copies, by the index of the entry they belong to. Freed if it is not used.
pub(crate) struct Blocks<'t, M: Memory> {
    store: &'t Store<M>,
    entries: Vec<(usize, Slot<'t>)>,
    values: Vec<(usize, ValueCopy<'t, M>)>,
}

impl<'t, M: Memory> Blocks<'t, M> {
    /// Nothing goes along.
    pub fn none(store: &'t Store<M>) -> Self {
        let (entries, values) = (Vec::new(), Vec::new());
        Blocks {
            store,
            entries,
            values,
        }
    }

    /// Slots exactly there for all blocks of a leaf that are elsewhere.
    pub fn allocate_in<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        goal: Goal<'_>,
    ) -> Result<(), Abort> {
        let store = self.store;
        for index in 0..leaf.get(Body::count)? {
            let Beside { entry, value } = Beside::of::<P, WORDS>(leaf, index)?;
            let elsewhere = |block: &Block| !goal.has_beside(store.arenas(), block.address());
            if let Some(block) = entry.filter(elsewhere) {
                let slot = store.allocate_in(goal.tier, block.slot())?;
                self.entries.push((index, slot));
            }
            if let Some(value) = value {
                let copy = ValueCopy::new(store, value, goal)?;
                self.values.extend(copy.map(|copy| (index, copy)));
            }
        }
        Ok(())
    }

    /// Slots in this tier, or the next slower one with room, for the blocks from an entry on.
    pub fn allocate_from<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        from: usize,
        tier: TierId,
    ) -> Result<(), Abort> {
        let store = self.store;
        for index in from..leaf.get(Body::count)? {
            let Beside { entry, value } = Beside::of::<P, WORDS>(leaf, index)?;
            let elsewhere = |block: &Block| store.arenas().tier_of(block.address()) != tier;
            if let Some(block) = entry.filter(elsewhere) {
                let slot = store.allocate_from(tier, block.slot())?;
                self.entries.push((index, slot));
            }
            if let Some(value) = value {
                let copy = ValueCopy::new_or_fall(store, value, tier)?;
                self.values.extend(copy.map(|copy| (index, copy)));
            }
        }
        Ok(())
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Copies blocks, under the lock of the leaf that room was taken for, and has the entries of
    /// `leaf` lead to the copies: these are the entries that room was taken for from `from` on.
    pub(super) fn move_blocks(
        &self,
        blocks: Blocks<'_, M>,
        leaf: &Body<WORDS>,
        from: usize,
        guard: &Guard,
    ) {
        for (index, slot) in blocks.entries {
            let index = index - from;
            let (key, payload) = (leaf.key(index), leaf.payload(index));
            let old = P::block(key, payload).expect("an entry with a block");
            self.memory().charge_access(old.address(), old.used());
            leaf.set_payload(index, P::with_block(payload, old.copy_to(slot.keep())));
            self.reclaim_block(old, old.slot(), guard);
        }
        for (index, copy) in blocks.values {
            let index = index - from;
            let (key, payload) = (leaf.key(index), leaf.payload(index));
            let old = P::value(key, payload).expect("a record");
            let new = copy.make(Loan::new(old, guard));
            leaf.set_payload(index, P::with_value(key, payload, new));
            self.reclaim_value(old, guard);
        }
    }

    /// Frees the block in a slot of this many bytes once no thread can reach it any more. It is
    /// unlinked.
    pub fn reclaim_block(&self, block: Block, bytes: usize, guard: &Guard) {
        self.store
            .reclaim(guard, move |state| block.free(bytes, state.arenas()));
    }

    /// Frees what a value's word leads to once nobody can look at it any more. No leaf leads to it.
    #[inline(always)]
    pub fn reclaim_value(&self, value: u64, guard: &Guard) {
        if P::VALUES {
            self.store.reclaim_value(value, guard);
        }
    }
}
