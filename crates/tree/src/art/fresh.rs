//! Memory for nodes that are not linked yet.

use timberline_placement::NewNode;
use timberline_tier::{Memory, OutOfMemory, Slot, TierId};

use super::node::{Kind, Parent, Reach, StoredLink, Terminal};
use super::tree::Tree;

/// The placement's view of a new leaf whose parent is in this tier.
pub(super) fn leaf_below(tier: TierId, level: u8) -> NewNode {
    NewNode {
        height: 0,
        level,
        parent: tier,
        split_from: tier,
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// The placement's view of an inner node that replaces an old node, or comes between that and
    /// its parent.
    fn in_place_of(&self, old: StoredLink, parent: &Parent<'_, R>, level: u8) -> NewNode {
        NewNode {
            height: 1,
            level,
            parent: self.tier_of_parent(parent),
            split_from: self.tier_of(old),
        }
    }

    /// Memory for a terminal node that replaces another.
    pub(super) fn slot_for_terminal(
        &self,
        bytes: usize,
        old: Terminal<'_>,
        parent: &Parent<'_, R>,
        level: u8,
    ) -> Result<Slot<'_>, OutOfMemory> {
        let new = NewNode {
            height: 0,
            ..self.in_place_of(*old.link(self.base), parent, level)
        };
        self.store.allocate(new, bytes)
    }

    /// Memory for an inner node that replaces an old node, or comes between that and its parent.
    pub(super) fn slot_for_inner(
        &self,
        kind: Kind,
        old: StoredLink,
        parent: &Parent<'_, R>,
        level: u8,
    ) -> Result<Slot<'_>, OutOfMemory> {
        let new = self.in_place_of(old, parent, level);
        self.store.allocate(new, kind.bytes::<R>())
    }
}
