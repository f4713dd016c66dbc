//! Finding a node by its name, with its parent, to change where it hangs.

use timberline_placement::{Fence, KeyBytes, NodeKey};
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Memory, TierId};

use super::node::{Body, LockedParent, Root, View, address};
use super::payload::Payload;
use super::tree::Tree;

/// A [`NodeKey`] taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeName<'p> {
    /// The words that lead to the node's layer, each of eight bytes; empty for the topmost tree.
    pub path: &'p [u8],
    pub key: u64,
    /// Steps above the leaves of its layer.
    pub height: u8,
}

impl<'p> NodeName<'p> {
    /// The leaf of the topmost tree that covers `key`.
    pub fn leaf(key: u64) -> NodeName<'static> {
        let path = &[];
        NodeName {
            path,
            key,
            height: 0,
        }
    }

    /// The node that a placement calls so.
    pub fn named(name: &'p NodeKey) -> NodeName<'p> {
        let words = name.key.len().saturating_sub(1) / 8;
        let (path, rest) = name.key.split_at(8 * words);
        NodeName {
            path,
            key: KeyBytes::from(rest).word(),
            height: name.height,
        }
    }

    /// The node's name in bytes, for placements.
    pub fn name(self) -> NodeKey {
        let fence = Fence {
            prefix: self.path,
            word: Some(self.key),
        };
        NodeKey {
            key: fence.to_bytes(),
            height: self.height,
        }
    }

    /// The node this many steps above the leaves, on the same path.
    pub fn at_height(self, height: u8) -> NodeName<'p> {
        NodeName { height, ..self }
    }
}

/// Where a node hangs.
pub enum Parent<'g, const WORDS: usize> {
    Root(Snapshot<'g, Root<WORDS>>),
    Node(View<'g, WORDS>),
    /// A leaf of another layer, and its entry for this one, that a layer's root hangs below.
    Leaf(Snapshot<'g, Body<WORDS>>, NodeName<'g>),
}

/// A node found by key, with its parent; valid as long as both snapshots are.
pub struct Location<'g, const WORDS: usize> {
    /// What was looked for; a leaf above it, if its layer is gone.
    pub at: NodeName<'g>,
    /// Steps below the topmost root.
    pub level: u8,
    pub parent: Parent<'g, WORDS>,
    pub node: View<'g, WORDS>,
}

impl<'g, const WORDS: usize> Location<'g, WORDS> {
    /// Where the node lies.
    pub fn address(&self) -> usize {
        address(self.node.of())
    }
}

impl<'g, const WORDS: usize> Parent<'g, WORDS> {
    pub fn upgrade(self) -> Result<LockedParent<'g, WORDS>, Restart> {
        Ok(match self {
            Parent::Root(root) => LockedParent::Root(root.upgrade()?),
            Parent::Node(node) => LockedParent::Node(node.upgrade()?),
            Parent::Leaf(leaf, entry) => LockedParent::Leaf(leaf.upgrade()?, entry.key),
        })
    }

    /// Where the parent lies; the root's parent counts as fast.
    pub fn tier<M: Memory>(&self, memory: &M) -> TierId {
        match self {
            Parent::Root(_) => TierId::FAST,
            Parent::Node(node) => memory.arenas().tier_of(address(node.of())),
            Parent::Leaf(leaf, _) => memory.arenas().tier_of(address(leaf.of())),
        }
    }

    pub fn validate(&self) -> Result<(), Restart> {
        match self {
            Parent::Root(root) => root.validate(),
            Parent::Node(node) => node.validate(),
            Parent::Leaf(leaf, _) => leaf.validate(),
        }
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// The node at a height on the path to a key, and its parent. `Ok(None)`: the tree is lower.
    /// Where a layer on the way is gone, the leaf that would lead to it stands for the layer's
    /// leaves.
    #[inline]
    pub fn find<'g>(
        &'g self,
        at: NodeName<'g>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Location<'g, WORDS>>, Restart> {
        self.find_passing(at, |_, _| {}, guard)
    }

    /// The same, showing each node on the way to `pass`.
    #[inline]
    pub fn find_passing<'g>(
        &'g self,
        at: NodeName<'g>,
        mut pass: impl FnMut(NodeName<'g>, &View<'g, WORDS>),
        guard: &'g Guard<'g>,
    ) -> Result<Option<Location<'g, WORDS>>, Restart> {
        let root = self.root.read()?;
        let mut node = Root::link(&root, self.store.pinned(guard))?.read()?;
        let mut parent = Parent::Root(root);
        parent.validate()?;
        let (mut level, mut known) = (0u8, 0);
        loop {
            let next = at.path[known..].first_chunk().map(|word| NodeName {
                path: &at.path[..known],
                key: u64::from_be_bytes(*word),
                height: 0,
            });
            let here = next.unwrap_or(at);
            if node.height() < here.height {
                return Ok(None);
            }
            while node.height() > here.height {
                pass(here.at_height(node.height()), &node);
                let link = self.find_child(self.search, &node, here.key)?;
                self.prefetch_all(link.address());
                let child = link.read()?;
                node.validate()?;
                parent = Parent::Node(node);
                node = child;
                level = level.saturating_add(1);
            }
            pass(here.at_height(node.height()), &node);
            let entry = match next {
                None => None,
                Some(entry) => {
                    let charge = |body: &_, _| self.charge_node(body);
                    node.find(self.search, entry.key, charge)?.0.ok()
                }
            };
            let below = entry.and_then(|(_, entry)| {
                let rest = &at.path[known + size_of::<u64>()..];
                P::enter(entry, rest)
            });
            let Some((root, skipped)) = below else {
                let found = Location {
                    at: here,
                    level,
                    parent,
                    node,
                };
                return Ok((next.is_none() || at.height == 0).then_some(found));
            };
            let snapshot = root.read()?;
            node.validate()?;
            parent = Parent::Leaf(*node, here);
            node = View::of(snapshot)?;
            level = level.saturating_add(1);
            known += size_of::<u64>() + skipped;
        }
    }
}
