//! What lies beside a leaf: the blocks of its entries, and of their values. They go to another tier
//! together with it.
//!
//! Room for them is taken before any lock; they are copied under the leaf's lock. Those that are in
//! the right tier already stay where they are.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Arenas, Memory, Slot, TierId};

use super::node::{Block, Body, Lead, LockedNode, View};
use super::payload::Payload;
use super::tree::Tree;
use crate::abort::Abort;
use crate::goal::Goal;
use crate::store::Store;
use crate::value::{Loan, RetiredValue, ValueBlock, ValueCopy};

/// The blocks of an entry, and its value if that may lie in one.
struct Beside<'g> {
    entry: Option<Block<'g>>,
    value: Option<Loan<'g>>,
}

impl<'g> Beside<'g> {
    fn of<P: Payload, const WORDS: usize>(
        leaf: &View<'g, WORDS>,
        index: usize,
    ) -> Result<Self, Restart> {
        let entry = leaf.entry(index)?;
        let value = match P::VALUES {
            true => P::value(entry),
            false => None,
        };
        // The value may lie in the entry's block, which is guarded by the leaf's version.
        leaf.validate()?;
        let entry = P::lead(entry).and_then(Lead::block);
        Ok(Beside { entry, value })
    }

    /// The address of each. No block is read.
    fn addresses(self) -> impl Iterator<Item = usize> {
        let entry = self.entry.map(Block::address);
        let value = self.value.and_then(ValueBlock::of);
        entry.into_iter().chain(value.map(ValueBlock::address))
    }

    /// The bytes of their slots.
    fn bytes(self) -> usize {
        let value = self.value.and_then(ValueBlock::of);
        self.entry.map_or(0, Block::slot) + value.map_or(0, ValueBlock::slot)
    }
}

/// Bytes of all slots beside a leaf.
pub(super) fn bytes_beside<P: Payload, const WORDS: usize>(
    leaf: &View<'_, WORDS>,
) -> Result<usize, Restart> {
    let mut bytes = 0;
    if P::BLOCKS {
        for index in 0..leaf.get(Body::count)? {
            bytes += Beside::of::<P, WORDS>(leaf, index)?.bytes();
        }
    }
    Ok(bytes)
}

/// Whether all blocks of a leaf are where they are to be.
pub(super) fn all_at<P: Payload, const WORDS: usize>(
    leaf: &View<'_, WORDS>,
    goal: Goal<'_>,
    arenas: &Arenas,
) -> Result<bool, Restart> {
    for index in 0..leaf.get(Body::count)? {
        let mut blocks = Beside::of::<P, WORDS>(leaf, index)?.addresses();
        if blocks.any(|block| !goal.has_beside(arenas, block)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Room for copies, by the index of the entry they belong to. Freed if it is not used.
pub(crate) struct Blocks<'t, M: Memory> {
    entries: Vec<(usize, Slot<'t>)>,
    values: Vec<(usize, ValueCopy<'t, M>)>,
}

impl<'t, M: Memory> Blocks<'t, M> {
    /// Nothing goes along.
    pub fn none() -> Self {
        let (entries, values) = (Vec::new(), Vec::new());
        Blocks { entries, values }
    }

    /// Slots exactly there for all blocks of a leaf that are elsewhere; `None` if there is no room.
    pub fn allocate_in<P: Payload, const WORDS: usize>(
        store: &'t Store<M>,
        leaf: &View<'_, WORDS>,
        goal: Goal<'_>,
    ) -> Result<Option<Self>, Restart> {
        match Self::allocate::<P, WORDS>(store, leaf, 0, goal, false) {
            Ok(blocks) => Ok(Some(blocks)),
            Err(Abort::Refused(_)) => Ok(None),
            Err(Abort::Restart) => Err(Restart),
        }
    }

    /// Slots in this tier, or the next slower one with room, for the blocks from an entry on.
    pub fn allocate_from<P: Payload, const WORDS: usize>(
        store: &'t Store<M>,
        leaf: &View<'_, WORDS>,
        from: usize,
        tier: TierId,
    ) -> Result<Self, Abort> {
        Self::allocate::<P, WORDS>(store, leaf, from, Goal::tier(tier), true)
    }

    fn allocate<P: Payload, const WORDS: usize>(
        store: &'t Store<M>,
        leaf: &View<'_, WORDS>,
        from: usize,
        goal: Goal<'_>,
        or_slower: bool,
    ) -> Result<Self, Abort> {
        let mut blocks = Self::none();
        for index in from..leaf.get(Body::count)? {
            let Beside { entry, value } = Beside::of::<P, WORDS>(leaf, index)?;
            let elsewhere = |block: &Block<'_>| !goal.has_beside(store.arenas(), block.address());
            if let Some(block) = entry.filter(elsewhere) {
                let slot = match or_slower {
                    true => store.allocate_from(goal.tier, block.slot())?,
                    false => store.allocate_in(goal.tier, block.slot())?,
                };
                blocks.entries.push((index, slot));
            }
            if let Some(value) = value {
                let copy = match or_slower {
                    true => ValueCopy::new_or_fall(store, value, goal.tier)?,
                    false => ValueCopy::new(store, value, goal)?,
                };
                blocks.values.extend(copy.map(|copy| (index, copy)));
            }
        }
        Ok(blocks)
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Copies blocks into the slots allocated for them, under the lock of the leaf that had them,
    /// and links the copies from `leaf`: that one, or a new one with its entries from `from` on.
    pub(super) fn move_blocks(
        &self,
        blocks: Blocks<'_, M>,
        leaf: &LockedNode<'_, WORDS>,
        from: usize,
        guard: &Guard,
    ) {
        for (index, slot) in blocks.entries {
            let index = index - from;
            if let Some(old) = P::lead(Body::entry_of(leaf, index)).and_then(Lead::block) {
                self.memory().charge_access(old.address(), old.used());
            }
            Body::move_block(leaf, index, slot).reclaim(&self.store, guard);
        }
        for (index, copy) in blocks.values {
            let entry = Body::entry_of(leaf, index - from);
            let old = P::value(entry).expect("a record");
            let new = copy.make(old);
            let old = match P::lead(entry) {
                Some(Lead::Record(record)) => record.replace(leaf, new),
                _ => Body::replace_value(leaf, index - from, new),
            };
            self.reclaim_value(old, guard);
        }
    }

    /// Releases what a value owns, once no thread can read it.
    #[inline(always)]
    pub fn reclaim_value(&self, value: RetiredValue<'_>, guard: &Guard) {
        if P::RETIRES {
            value.reclaim(&self.store, guard);
        }
    }
}
