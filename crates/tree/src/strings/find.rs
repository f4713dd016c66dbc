//! Finding a node by its name, with its parent, to change where it hangs.

use timberline_placement::NodeKey;
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, TierId, hint};

use super::node::{Aim, LockedParent, Root, View};
use super::tree::Tree;
use crate::value::Represent;

/// A [`NodeKey`] whose key is borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NodeName<'k> {
    /// A key that the node covers.
    pub key: &'k [u8],
    /// Steps above the leaves.
    pub height: u8,
}

impl<'k> NodeName<'k> {
    /// The leaf that covers a key.
    pub fn leaf(key: &'k [u8]) -> Self {
        NodeName { key, height: 0 }
    }

    /// The node that a placement calls so.
    pub fn named(name: &'k NodeKey) -> Self {
        let (key, height) = (&name.key[..], name.height);
        NodeName { key, height }
    }

    /// The node this many steps above the leaves, on the same path.
    pub fn at_height(self, height: u8) -> Self {
        NodeName { height, ..self }
    }

    /// The name for placements.
    pub fn name(self) -> NodeKey {
        NodeKey {
            key: self.key.into(),
            height: self.height,
        }
    }
}

/// Where a node hangs.
pub(super) enum Parent<'g, const WORDS: usize> {
    Root(Snapshot<'g, Root<WORDS>>),
    Node(View<'g, WORDS>),
}

impl<'g, const WORDS: usize> Parent<'g, WORDS> {
    pub fn upgrade(self) -> Result<LockedParent<'g, WORDS>, Restart> {
        Ok(match self {
            Parent::Root(root) => LockedParent::Root(root.upgrade()?),
            Parent::Node(node) => LockedParent::Node(node.upgrade()?),
        })
    }

    /// Where the parent lies; the root's parent counts as fast.
    pub fn tier<M: Memory>(&self, memory: &M) -> TierId {
        match self {
            Parent::Root(_) => TierId::FAST,
            Parent::Node(node) => memory.arenas().tier_of(node.address()),
        }
    }
}

/// A node found by key, with its parent; valid as long as both snapshots are.
pub(super) struct Location<'g, const WORDS: usize> {
    /// Steps below the root.
    pub level: u8,
    pub parent: Parent<'g, WORDS>,
    pub node: View<'g, WORDS>,
    /// The node's index in its parent.
    pub index: usize,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// The node at a height on the path to a key, and its parent. `Ok(None)`: the tree is lower.
    pub(super) fn find<'g>(
        &'g self,
        at: NodeName<'_>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Location<'g, WORDS>>, Restart> {
        self.find_passing(at, |_| {}, guard)
    }

    /// The same, showing each node on the way to `pass`.
    pub(super) fn find_passing<'g>(
        &'g self,
        at: NodeName<'_>,
        mut pass: impl FnMut(&View<'g, WORDS>),
        guard: &'g Guard<'g>,
    ) -> Result<Option<Location<'g, WORDS>>, Restart> {
        let root = self.root.read()?;
        let mut node = Root::link(&root, self.store.pinned(guard))?.read()?;
        let mut parent = Parent::Root(root);
        root.validate()?;
        let (mut level, mut index) = (0u8, 0);
        if node.height() < at.height {
            return Ok(None);
        }
        while node.height() > at.height {
            pass(&node);
            let link;
            (link, index) = self.find_child(&node, Aim::At(at.key))?;
            hint::prefetch_lines(link.address(), Self::BYTES / hint::LINE);
            let child = link.read()?;
            node.validate()?;
            parent = Parent::Node(node);
            node = child;
            level = level.saturating_add(1);
        }
        pass(&node);
        Ok(Some(Location {
            level,
            parent,
            node,
            index,
        }))
    }
}
