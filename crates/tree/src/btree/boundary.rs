//! The single boundary: no fast node below a slow one.

use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::find::NodeName;
use super::node::{Body, Link};
use super::payload::Payload;
use super::tree::{LockedNode, Tree, address};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Tells the placement if a node came to lie below the boundary with children above it.
    pub fn check_boundary(&self, path: &[u8], node: &LockedNode<'_, WORDS>) {
        let tier = self.memory().arenas().tier_of(address(node.of()));
        let slow = !tier.is_fast();
        if slow && self.has_fast_child(node) {
            let place = NodeName {
                path,
                key: node.lower(),
                height: node.height(),
            };
            self.store.placement.boundary_broken(place.name());
        }
    }

    /// Whether a child of this locked node is fast, or the root of a layer below. Addresses tell;
    /// no child is touched.
    pub fn has_fast_child(&self, node: &LockedNode<'_, WORDS>) -> bool {
        (0..node.count()).any(|index| {
            let (key, payload) = (node.key(index), node.payload(index));
            let child = match node.height() {
                0 => P::layer(key, payload),
                _ => Some(Link::from_word(payload)),
            };
            child.is_some_and(|child| self.is_fast(child))
        })
    }

    /// The same of a node that is not locked.
    pub fn seems_to_have_fast_child(
        &self,
        node: Snapshot<'_, Body<WORDS>>,
    ) -> Result<bool, Restart> {
        let (height, count) = node.get(|body| (body.height(), body.count()))?;
        for index in 0..if P::LINKS || height > 0 { count } else { 0 } {
            let (key, payload) = node.get(|body| (body.key(index), body.payload(index)))?;
            let child = match height {
                0 => P::layer(key, payload),
                _ => Some(Link::from_word(payload)),
            };
            if child.is_some_and(|child| self.is_fast(child)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
