//! The single boundary: no node below one in a slower tier.

use timberline_sync::Restart;
use timberline_tier::{Memory, TierId};

use super::find::NodeName;
use super::node::{LockedNode, Page, View};
use super::tree::Tree;
use crate::value::Represent;

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Tells the placement if a node came to lie in a slower tier than a child.
    pub(super) fn check_boundary(&self, node: &LockedNode<'_, WORDS>) {
        let tier = self.tier_at(Self::address_of(node));
        if tier.is_fast() || node.height() == 0 {
            return;
        }
        let children = (0..node.count()).map(|index| self.tier_at(node.child_address(index)));
        if let Some(fastest) = children.min().filter(|&child| child < tier) {
            let lower = Page::lower_of(node, self.memory());
            let (key, height) = (&lower[..], node.height());
            let name = NodeName { key, height }.name();
            self.store.placement.boundary_broken(name, fastest);
        }
    }

    /// Whether a child of this locked node is in a faster tier than this.
    pub(super) fn has_child_faster_than(&self, tier: TierId, node: &LockedNode<'_, WORDS>) -> bool {
        let mut children = 0..node.count();
        !tier.is_fast()
            && node.height() > 0
            && children.any(|index| self.tier_at(node.child_address(index)) < tier)
    }

    /// The same of a node that is not locked.
    pub(super) fn seems_to_have_child_faster_than(
        &self,
        tier: TierId,
        node: View<'_, WORDS>,
    ) -> Result<bool, Restart> {
        if node.height() == 0 {
            return Ok(false);
        }
        let mut children = node.child_addresses()?.into_iter();
        Ok(children.any(|child| self.tier_at(child) < tier))
    }
}
