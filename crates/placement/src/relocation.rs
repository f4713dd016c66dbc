//! Relocation: empties chunks by a walk over the nodes of a tier.
//!
//! The walk follows links, so it finds inner nodes without leaves in the tier, too. It enters nodes
//! of this tier and faster ones only: where no node is in a faster tier than its parent, these lead
//! to every node of the tier. It goes on from names, so it may rest between any two nodes. A node
//! that is split or merged meanwhile may be left out.

use timberline_tier::{CompactionCandidates, TierId};

use crate::{Compaction, NodeKey};

/// A walk over the inner nodes of a tier, which relocates what is below each.
pub struct Relocation {
    /// The slowest tier that is entered.
    slowest: TierId,
    is_new: bool,
    /// Inner nodes that are still to be entered: those beside the path to the last one.
    waiting: Vec<NodeKey>,
}

impl Relocation {
    /// A new walk, which enters tiers down to this.
    pub fn down_to(slowest: TierId) -> Self {
        Relocation {
            slowest,
            is_new: true,
            waiting: Vec::new(),
        }
    }

    /// Relocates what lies in these chunks below up to `most` further nodes. Returns how many nodes
    /// moved.
    pub fn step<T>(&mut self, tree: &T, chunks: &CompactionCandidates, most: usize) -> usize
    where
        T: Compaction + ?Sized,
    {
        let mut moved = 0;
        let mut relocate = |node: Option<&NodeKey>, waiting: &mut Vec<NodeKey>| {
            moved += tree.relocate_below(node, self.slowest, chunks, waiting);
        };
        if std::mem::take(&mut self.is_new) {
            relocate(None, &mut self.waiting);
        }
        for _ in 0..most {
            let Some(node) = self.waiting.pop() else {
                break;
            };
            relocate(Some(&node), &mut self.waiting);
        }
        moved
    }

    /// Whether all nodes were visited.
    pub fn has_ended(&self) -> bool {
        !self.is_new && self.waiting.is_empty()
    }
}
