//! The single boundary: no node below one in a slower tier.

use timberline_sync::Restart;
use timberline_tier::{Memory, TierId};

use super::find::NodeName;
use super::node::{Body, View};
use super::payload::Payload;
use super::tree::{LockedNode, Tree, address};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Tells the placement if a node came to lie in a slower tier than a child.
    pub fn check_boundary(&self, path: &[u8], node: &LockedNode<'_, WORDS>) {
        let tier = self.memory().arenas().tier_of(address(node.of()));
        if tier.is_fast() {
            return;
        }
        if let Some(fastest) = self.fastest_child(node).filter(|&child| child < tier) {
            let place = NodeName {
                path,
                key: node.lower(),
                height: node.height(),
            };
            self.store.placement.boundary_broken(place.name(), fastest);
        }
    }

    /// Whether a child of this locked node is in a faster tier than this, or the root of a layer
    /// below.
    pub fn has_child_faster_than(&self, tier: TierId, node: &LockedNode<'_, WORDS>) -> bool {
        !tier.is_fast() && self.child_tiers(node).any(|child| child < tier)
    }

    /// The fastest tier of a child of this locked node, or of the root of a layer below.
    fn fastest_child(&self, node: &LockedNode<'_, WORDS>) -> Option<TierId> {
        self.child_tiers(node).min()
    }

    /// The tiers of a locked node's children and of the layers' roots below it. Addresses tell; no
    /// child is touched.
    fn child_tiers(&self, node: &LockedNode<'_, WORDS>) -> impl Iterator<Item = TierId> {
        (0..node.count()).filter_map(move |index| {
            let child = match node.height() {
                0 => P::layer(Body::entry_of(node, index)).map(address),
                _ => Some(node.child_address(index)),
            };
            child.map(|child| self.tier_at(child))
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
