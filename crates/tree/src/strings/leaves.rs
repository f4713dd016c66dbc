//! Walks over leaves, for placements: in the order of their names, skipping leaves of other tiers
//! without reading them.

use std::ops::ControlFlow;

use timberline_placement::{KeyBytes, LeafRef};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::find::{Location, NodeName, Parent};
use super::node::{HEADER, Link, Page, View};
use super::tree::Tree;
use crate::value::Represent;

/// Leaves that a walk prefetches ahead of the current one: fewer than any profile allows in flight.
const AHEAD: usize = 8;

/// The lower fence and link of each child.
type Children<'g, const WORDS: usize> = Vec<(Vec<u8>, Link<'g, WORDS>)>;

/// Which leaves a walk visits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    In(TierId),
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Visits the chosen leaves whose fence is `from` or greater. It visits all nodes above leaves.
    pub(super) fn leaves_from(
        &self,
        from: &[u8],
        which: Which,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        let mut key = from.to_vec();
        loop {
            // One pin a parent, so that a long walk does not hold back the epoch.
            let guard = self.store.pin();
            let (leaves, upper) = self.retry(|| self.leaves_below_parent(&key, &guard));
            let wanted = |leaf: &Link<'_, WORDS>| match which {
                Which::All => true,
                Which::In(tier) => self.tier_at(leaf.address()) == tier,
            };
            // The first leaf covers `key`, so its fence may be less.
            let chosen =
                |(fence, leaf): &&(Vec<u8>, Link<'_, WORDS>)| fence[..] >= key[..] && wanted(leaf);
            let chosen: Vec<_> = leaves.iter().filter(chosen).collect();
            let prefetch = |leaf: Option<&&(Vec<u8>, Link<'_, WORDS>)>| {
                if let Some((_, link)) = leaf {
                    self.memory().prefetch(link.address(), HEADER);
                }
            };
            (0..AHEAD).for_each(|index| prefetch(chosen.get(index)));
            for (index, (fence, link)) in chosen.iter().enumerate() {
                prefetch(chosen.get(index + AHEAD));
                // One that moved is shown where it is now.
                let leaf = match link.read() {
                    Ok(leaf) => leaf,
                    Err(Restart) => {
                        let found = self.retry(|| self.find(NodeName::leaf(fence), &guard));
                        let found = found.expect("every tree has leaves").node;
                        if !wanted(&found.link()) {
                            continue;
                        }
                        found
                    }
                };
                self.memory().charge_access(leaf.address(), HEADER);
                // The fence is a hint to the visitor, so a leaf that changed meanwhile needs no
                // second visit.
                let mut flow = ControlFlow::Continue(());
                let _ = leaf.get(|page: &Page<WORDS>| {
                    flow = visit(self.leaf_ref(leaf.address(), page, fence));
                });
                if flow.is_break() {
                    return;
                }
            }
            match upper {
                Some(upper) => key = upper,
                None => return,
            }
        }
    }

    /// The leaf that covers a key and those after it below the same parent, and the upper fence of
    /// the last.
    #[allow(clippy::type_complexity, reason = "leaves and a fence")]
    fn leaves_below_parent<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard<'g>,
    ) -> Result<(Children<'g, WORDS>, Option<Vec<u8>>), Restart> {
        let found = self.find(NodeName::leaf(key), guard)?;
        let Location {
            parent,
            node,
            index,
            ..
        } = found.expect("every tree has leaves");
        match parent {
            Parent::Root(_) => {
                let (lower, upper) = (node.lower(self.memory())?, node.upper(self.memory())?);
                Ok((vec![(lower, node.link())], upper))
            }
            Parent::Node(above) => {
                let upper = above.upper(self.memory())?;
                Ok((self.list(above, index)?, upper))
            }
        }
    }

    /// The children of an inner node, from an index on, with their lower fences.
    pub(super) fn list<'g>(
        &self,
        node: View<'g, WORDS>,
        from: usize,
    ) -> Result<Children<'g, WORDS>, Restart> {
        self.memory().charge_access(node.address(), Self::BYTES);
        let count = node.get(Page::count)?;
        let child = |index| Ok((node.key(index, self.memory())?, node.child(index)?));
        (from..count).map(child).collect()
    }

    /// The lower fence of the leaf at an address, if that is in a block: a walk finds it.
    #[cold]
    pub(super) fn long_fence_at(&self, address: usize, _: &Guard) -> Option<Vec<u8>> {
        let mut found = None;
        self.leaves_from(&[], Which::All, &mut |leaf| {
            if leaf.address != address {
                return ControlFlow::Continue(());
            }
            found = Some(leaf.fence.to_bytes());
            ControlFlow::Break(())
        });
        found.map(|fence: KeyBytes| fence.to_vec())
    }
}
