//! The blocks of a leaf's records, on their way to another tier together with it.
//!
//! Room for them is taken before any lock; they are copied under the leaf's lock.

use std::ptr::NonNull;

use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::node::{Block, Body};
use super::payload::Payload;
use super::tree::Tree;
use crate::store::Store;

/// Slots for copies, by the index of the entry they belong to. Freed if they are not used.
pub(crate) struct Blocks<'t, M: Memory> {
    store: &'t Store<M>,
    slots: Vec<(usize, Block, NonNull<u8>, usize)>,
}

impl<'t, M: Memory> Blocks<'t, M> {
    /// Nothing goes along.
    pub fn none(store: &'t Store<M>) -> Self {
        let slots = Vec::new();
        Blocks { store, slots }
    }

    /// Room in exactly this tier for all blocks of a leaf.
    pub fn ask<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        tier: TierId,
    ) -> Result<Result<(), OutOfMemory>, Restart> {
        let store = self.store;
        self.room::<P, WORDS>(leaf, 0, |bytes| store.allocate_in(tier, bytes))
    }

    /// Room in this tier, or the next slower one that has some, for the blocks from an entry on.
    pub fn ask_or_fall<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        from: usize,
        tier: TierId,
    ) -> Result<Result<(), OutOfMemory>, Restart> {
        let store = self.store;
        self.room::<P, WORDS>(leaf, from, |bytes| store.allocate_from(tier, bytes))
    }

    fn room<P: Payload, const WORDS: usize>(
        &mut self,
        leaf: &Snapshot<'_, Body<WORDS>>,
        from: usize,
        mut allocate: impl FnMut(usize) -> Result<NonNull<u8>, OutOfMemory>,
    ) -> Result<Result<(), OutOfMemory>, Restart> {
        for index in from..leaf.get(Body::count)? {
            let (key, payload) = leaf.get(|body| (body.key(index), body.payload(index)))?;
            let Some(block) = P::block(key, payload) else {
                continue;
            };
            let bytes = block.slot();
            match allocate(bytes) {
                Ok(slot) => self.slots.push((index, block, slot, bytes)),
                Err(full) => return Ok(Err(full)),
            }
        }
        Ok(Ok(()))
    }

    /// Copies the blocks, under the lock of their leaf: index, old and new one of each.
    pub fn copy(mut self) -> impl Iterator<Item = (usize, Block, Block)> {
        let store = self.store;
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().map(|(index, old, slot, _)| {
            store.memory.visit(old.address(), old.used());
            (index, old, old.copy_to(slot))
        })
    }
}

impl<M: Memory> Drop for Blocks<'_, M> {
    fn drop(&mut self) {
        for (_, _, slot, bytes) in self.slots.drain(..) {
            Block::discard(slot, bytes, self.store.arenas());
        }
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Frees the block in a slot of so many bytes once nobody can look at it any more. It is unlinked.
    pub fn reclaim_block(&self, block: Block, bytes: usize, guard: &Guard) {
        let free = move |store: &Store<M>| block.free(bytes, store.arenas());
        self.store.reclaim(guard, free);
    }
}
