//! What lies beside a leaf: the blocks of its entries, and of their values. They go to another tier
//! together with it.
//!
//! Room for them is taken before any lock; they are copied under the leaf's lock. Those that are in
//! the right tier already stay where they are.

use std::ptr::NonNull;

use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Arenas, Memory, OutOfMemory, Slot, TierId};

use super::node::{Block, Body};
use super::payload::Payload;
use super::tree::Tree;
use crate::abort::Abort;
use crate::goal::Goal;
use crate::store::Store;
use crate::value::ValueBlock;

/// A block beside a leaf.
#[derive(Clone, Copy)]
enum Beside {
    Entry(Block),
    Value(ValueBlock),
}

impl Beside {
    fn address(self) -> usize {
        match self {
            Beside::Entry(block) => block.address(),
            Beside::Value(block) => block.address(),
        }
    }

    fn slot(self) -> usize {
        match self {
            Beside::Entry(block) => block.slot(),
            Beside::Value(block) => block.slot(),
        }
    }

    fn discard(self, slot: NonNull<u8>, store: &Store<impl Memory>) {
        Block::discard(slot, self.slot(), store.arenas());
    }
}

/// The blocks of an entry. An entry's own comes first.
fn beside<P: Payload, const WORDS: usize>(
    leaf: &Snapshot<'_, Body<WORDS>>,
    index: usize,
) -> Result<impl Iterator<Item = Beside>, Restart> {
    let (key, payload) = leaf.get(|body| (body.key(index), body.payload(index)))?;
    let value = match P::VALUES {
        true => P::value(key, payload),
        false => None,
    };
    // The value may lie in the entry's block, which is guarded by the leaf's version.
    leaf.validate()?;
    let entry = P::block(key, payload).map(Beside::Entry);
    let value = value.and_then(ValueBlock::of).map(Beside::Value);
    Ok(entry.into_iter().chain(value))
}

/// Bytes of all slots beside a leaf.
pub(super) fn bytes_beside<P: Payload, const WORDS: usize>(
    leaf: &Snapshot<'_, Body<WORDS>>,
) -> Result<usize, Restart> {
    let mut bytes = 0;
    if P::BLOCKS {
        for index in 0..leaf.get(Body::count)? {
            bytes += beside::<P, WORDS>(leaf, index)?
                .map(Beside::slot)
                .sum::<usize>();
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
        let mut blocks = beside::<P, WORDS>(leaf, index)?;
        if blocks.any(|block| !goal.has_beside(arenas, block.address())) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Slots for copies, by the index of the entry they belong to. Freed if they are not used.
pub(crate) struct Blocks<'t, M: Memory> {
    store: &'t Store<M>,
    slots: Vec<(usize, Beside, NonNull<u8>)>,
}

impl<'t, M: Memory> Blocks<'t, M> {
    /// Nothing goes along.
    pub fn none(store: &'t Store<M>) -> Self {
        let slots = Vec::new();
        Blocks { store, slots }
    }

    /// Slots exactly there for all blocks of a leaf that are elsewhere.
    pub fn allocate_in<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        goal: Goal<'_>,
    ) -> Result<(), Abort> {
        let store = self.store;
        self.allocate::<P, WORDS>(leaf, 0, goal, |bytes| {
            store.allocate_in(goal.tier, bytes).map(Slot::keep)
        })
    }

    /// Slots in this tier, or the next slower one with room, for the blocks from an entry on.
    pub fn allocate_from<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        from: usize,
        tier: TierId,
    ) -> Result<(), Abort> {
        let store = self.store;
        let goal = Goal::tier(tier);
        self.allocate::<P, WORDS>(leaf, from, goal, |bytes| {
            store.allocate_from(tier, bytes).map(Slot::keep)
        })
    }

    fn allocate<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        from: usize,
        goal: Goal<'_>,
        mut allocate: impl FnMut(usize) -> Result<NonNull<u8>, OutOfMemory>,
    ) -> Result<(), Abort> {
        let arenas = self.store.arenas();
        for index in from..leaf.get(Body::count)? {
            for block in beside::<P, WORDS>(leaf, index)? {
                if goal.has_beside(arenas, block.address()) {
                    continue;
                }
                self.slots.push((index, block, allocate(block.slot())?));
            }
        }
        Ok(())
    }
}

impl<M: Memory> Drop for Blocks<'_, M> {
    fn drop(&mut self) {
        for (_, block, slot) in self.slots.drain(..) {
            block.discard(slot, self.store);
        }
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Copies blocks, under the lock of the leaf that room was taken for, and has the entries of
    /// `leaf` lead to the copies: these are the entries that room was taken for from `from` on.
    pub(super) fn move_blocks(
        &self,
        mut blocks: Blocks<'_, M>,
        leaf: &Body<WORDS>,
        from: usize,
        guard: &Guard,
    ) {
        for (index, block, slot) in std::mem::take(&mut blocks.slots) {
            let index = index - from;
            let (key, payload) = (leaf.key(index), leaf.payload(index));
            match block {
                Beside::Entry(old) => {
                    self.memory().charge_access(old.address(), old.used());
                    leaf.set_payload(index, P::with_block(payload, old.copy_to(slot)));
                    self.reclaim_block(old, old.slot(), guard);
                }
                Beside::Value(old) => {
                    let new = old.copy_to(slot, self.memory(), guard).word();
                    leaf.set_payload(index, P::with_value(key, payload, new));
                    self.reclaim_value(old.word(), guard);
                }
            }
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
