//! Room in a full tree: neighbours that are half empty become one leaf before an insert is refused.
//!
//! Removals merge a node only when it falls below a quarter, or nodes would split and merge in
//! turns. Where records leave at random, leaves stay half full, and no slot is free. So a thread
//! that finds no memory for a node looks for leaves that fit into one with their right neighbours,
//! close by first and then where the last search ended, below a bounded number of parents. The next
//! attempt has the memory that they leave, once no thread can reach them any more
//! ([`Store::reclaimed`]).
//!
//! [`Store::reclaimed`]: crate::store::Store::reclaimed

use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::find::{NodeName, Parent};
use super::node::{Body, Link};
use super::payload::Payload;
use super::tree::Tree;

/// Parents below which leaves are looked at, at most.
const PARENTS: usize = 16;
/// Leaves that are enough: one insert takes a node or two.
const ENOUGH: usize = 4;

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Merges some leaves of the slowest tier, in the layer where there was no memory for a node.
    #[cold]
    pub(super) fn compact(&self, full: NodeName<'_>, guard: &Guard) {
        let (mut key, mut merged) = (full.key, 0);
        for parent in 0..PARENTS {
            let at = NodeName {
                key,
                height: 0,
                ..full
            };
            let Some(behind) = self.retry(|| self.upper_of_parent(at, guard)) else {
                return;
            };
            while merged < ENOUGH && self.retry(|| self.merge_a_pair(at, guard)) {
                merged += 1;
            }
            if merged > 0 {
                // The parent lost entries.
                self.shrink(at.at_height(1), guard);
            }
            if merged == ENOUGH {
                break;
            }
            key = match parent {
                0 => self.compacted_to.load(Relaxed),
                _ => behind.wrapping_add(1),
            };
        }
        self.compacted_to.store(key, Relaxed);
    }

    /// The greatest key below a leaf's parent; `None` if it has none in its layer.
    fn upper_of_parent(&self, at: NodeName<'_>, guard: &Guard) -> Result<Option<u64>, Restart> {
        let found = self.find(at, guard)?;
        match found
            .filter(|place| place.at == at)
            .map(|place| place.parent)
        {
            Some(Parent::Node(above)) => above.get(Body::upper).map(Some),
            _ => Ok(None),
        }
    }

    /// Merges the first two neighbours below a leaf's parent that fit into one.
    fn merge_a_pair(&self, at: NodeName<'_>, guard: &Guard) -> Result<bool, Restart> {
        let found = self.find(at, guard)?;
        let Some(Parent::Node(above)) = found.map(|place| place.parent) else {
            return Ok(false);
        };
        let slowest = self.memory().arenas().slowest();
        for left in 0..above.get(Body::count)?.saturating_sub(1) {
            let is_there = |child| {
                let child: Link<'_, WORDS> = above.child(child)?;
                Ok(self.memory().arenas().tier_of(child.address()) == slowest)
            };
            let are_there = is_there(left)? && is_there(left + 1)?;
            if are_there
                && self
                    .merge(above, left, at, Self::CAPACITY, guard)?
                    .is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
