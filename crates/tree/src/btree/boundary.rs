//! The single boundary: no fast node below a slow one.

use timberline_sync::Restart;
use timberline_tier::{Memory, TierId};

use super::find::NodeName;
use super::node::{Body, View};
use super::payload::Payload;
use super::tree::{LockedNode, Tree, address};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Tells the placement if a node came to lie below the boundary with children above it.
    pub fn check_boundary(&self, path: &[u8], node: &LockedNode<'_, WORDS>) {
        let tier = self.memory().arenas().tier_of(address(node.of()));
        if !tier.is_fast() && self.has_child_faster_than(TierId::SLOW, node) {
            let place = NodeName {
                path,
                key: node.lower(),
                height: node.height(),
            };
            self.store.placement.boundary_broken(place.name());
        }
    }

    /// Whether a child of this locked node is in a faster tier than this, or the root of a layer
    /// below. Addresses tell; no child is read.
    pub fn has_child_faster_than(&self, tier: TierId, node: &LockedNode<'_, WORDS>) -> bool {
        !tier.is_fast()
            && (0..node.count()).any(|index| {
                let child = match node.height() {
                    0 => P::layer(Body::entry_of(node, index)).map(address),
                    _ => Some(node.child_address(index)),
                };
                child.is_some_and(|child| self.tier_at(child) < tier)
            })
    }

    /// Where a child lies, or the root of the layer below an entry.
    pub(super) fn child_at(
        &self,
        node: &View<'_, WORDS>,
        index: usize,
    ) -> Result<Option<usize>, Restart> {
        Ok(match node.height() {
            0 => P::layer(node.entry(index)?).map(address),
            _ => Some(node.child(index)?.address()),
        })
    }

    /// The same of a node that is not locked.
    pub fn seems_to_have_child_faster_than(
        &self,
        tier: TierId,
        node: View<'_, WORDS>,
    ) -> Result<bool, Restart> {
        let (height, count) = (node.height(), node.get(Body::count)?);
        for index in 0..if P::LINKS || height > 0 { count } else { 0 } {
            if self
                .child_at(&node, index)?
                .is_some_and(|child| self.tier_at(child) < tier)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
