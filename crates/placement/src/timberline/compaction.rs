//! Room between nodes of other sizes, won back.
//!
//! Where nodes have many sizes, those that stay while others leave end up scattered: a chunk of slots with one node in it
//! holds back its memory from every other size. When promotions find no room, the nodes of such chunks move together, within fast
//! memory: the fast leaves are visited in order, some each round, and what lies in those chunks on the way to them goes elsewhere.

use std::ops::ControlFlow;

use timberline_sync::epoch;
use timberline_tier::{Sparse, TierId};

use crate::{KeyBytes, Placed};

/// Leaves visited in a round.
const STRIDE: usize = 16_384;
/// Nothing is done for less than this part of fast memory.
const WORTH: usize = 32;
/// Rounds between two compactions.
const REST: u32 = 16;

/// See the [module's text](self).
#[derive(Default)]
pub struct Compaction {
    /// What is being emptied; nowhere: nothing is.
    sparse: Sparse,
    /// Leaves below this fence were visited.
    next: KeyBytes,
    /// Rounds until the next one may begin.
    rest: u32,
}

impl Compaction {
    /// Whether one is going on.
    pub fn is_active(&self) -> bool {
        !self.sparse.is_empty()
    }

    /// A round: goes on with what was begun, or begins where nodes are `stranded` and it is worth it. Returns how many nodes moved.
    pub fn step(&mut self, tree: &dyn Placed, stranded: bool) -> usize {
        self.rest = self.rest.saturating_sub(1);
        if !self.is_active() && stranded && self.rest == 0 {
            let sparse = tree.sparse();
            if sparse.bytes() >= tree.fill(TierId::FAST).limit / WORTH {
                (self.sparse, self.next) = (sparse, KeyBytes::default());
            }
            self.rest = REST;
        }
        match self.is_active() {
            true => self.go_on(tree),
            false => 0,
        }
    }

    fn go_on(&mut self, tree: &dyn Placed) -> usize {
        let (mut leaves, mut behind) = (Vec::new(), None);
        tree.each_fast_leaf(&self.next, &mut |leaf| {
            let fence = leaf.fence.to_bytes();
            if leaves.len() == STRIDE {
                behind = Some(fence);
                return ControlFlow::Break(());
            }
            leaves.push(fence);
            ControlFlow::Continue(())
        });
        let renew = |leaf: &KeyBytes| tree.renew_path(leaf, &self.sparse);
        let moved = leaves.iter().map(renew).sum();
        epoch::collect();
        match behind {
            Some(fence) => self.next = fence,
            None => self.sparse = Sparse::NOWHERE,
        }
        moved
    }
}
