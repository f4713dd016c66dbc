//! The blocks beside a node, of long keys and of values: they go to another tier together with it.
//!
//! Room for them is taken before any lock; they are copied under the node's lock. Those that are in
//! the right tier already stay where they are.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::node::{LockedNode, LongKeys, Page, Place, View};
use super::tree::Tree;
use crate::abort::Abort;
use crate::goal::Goal;
use crate::store::Store;
use crate::value::{Represent, ValueBlock, ValueCopy};

/// Room for copies, by their places. Freed if it is not used.
pub(super) struct Beside<'t, M: Memory>(Vec<(Place, ValueCopy<'t, M>)>);

impl<'t, M: Memory> Beside<'t, M> {
    /// Nothing goes along.
    pub fn none() -> Self {
        Beside(Vec::new())
    }

    /// Slots exactly there for all blocks of a node that are elsewhere; `None` if there is no room.
    pub fn of_all<const WORDS: usize, H: Represent>(
        store: &'t Store<M>,
        node: &View<'_, WORDS>,
        goal: Goal<'_>,
    ) -> Result<Option<Self>, Restart> {
        let mut copies = Vec::new();
        for (place, block) in node.blocks(H::IN_BLOCKS)? {
            let Ok(copy) = ValueCopy::new(store, block, goal) else {
                return Ok(None);
            };
            copies.extend(copy.map(|copy| (place, copy)));
        }
        Ok(Some(Beside(copies)))
    }

    /// Slots in this tier, or the next slower one with room, for the blocks that a new right half
    /// gets from a node: its upper fence, and those of the entries from one on.
    pub fn of_right<const WORDS: usize, H: Represent>(
        store: &'t Store<M>,
        node: &View<'_, WORDS>,
        first: usize,
        tier: TierId,
    ) -> Result<Self, Abort> {
        let mut copies = Vec::new();
        for (place, block) in node.blocks(H::IN_BLOCKS)? {
            let goes = match place {
                Place::Value(index) | Place::Key(index) => index >= first,
                Place::Lower => false,
                Place::Upper => true,
            };
            if goes {
                let copy = ValueCopy::new_or_fall(store, block, tier)?;
                copies.extend(copy.map(|copy| (place, copy)));
            }
        }
        Ok(Beside(copies))
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Copies blocks into the slots allocated for them, under the lock of the node that had them,
    /// and links the copies from `node`: that one, or a new one with its entries from `first` on.
    pub(super) fn move_beside(
        &self,
        beside: Beside<'_, M>,
        node: &LockedNode<'_, WORDS>,
        first: usize,
        keys: &mut LongKeys<'_>,
        guard: &Guard,
    ) {
        for (place, copy) in beside.0 {
            let place = match place {
                Place::Value(index) => Place::Value(index - first),
                Place::Key(index) => Place::Key(index - first),
                fence => fence,
            };
            // A key may fit the new node.
            let Some(block) = Page::block(node, place) else {
                continue;
            };
            let value = Page::move_block(node, place, block, copy.make(block), keys);
            if let Some(value) = value {
                self.reclaim_value(value, guard);
            }
        }
    }

    /// Bytes of all slots beside a node.
    pub(super) fn bytes_beside(&self, node: &View<'_, WORDS>) -> Result<usize, Restart> {
        let blocks = node.blocks(H::IN_BLOCKS)?.into_iter();
        let slots = blocks.filter_map(|(_, block)| ValueBlock::of(block));
        Ok(slots.map(ValueBlock::slot).sum())
    }

    /// Whether all blocks of a node are where they are to be.
    pub(super) fn all_beside_at(
        &self,
        node: &View<'_, WORDS>,
        goal: Goal<'_>,
    ) -> Result<bool, Restart> {
        let blocks = node.blocks(H::IN_BLOCKS)?.into_iter();
        let mut blocks = blocks.filter_map(|(_, block)| ValueBlock::of(block));
        let arenas = self.memory().arenas();
        Ok(blocks.all(|block| goal.has_beside(arenas, block.address())))
    }
}
