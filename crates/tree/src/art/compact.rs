//! Relocating the nodes below another one within their tier, for compaction.

use timberline_placement::{Move, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::migrate::{Found, branching};
use super::node::{AT_END, Inner, Link, Parent, Reach, Terminal};
use super::tree::Tree;
use crate::goal::Goal;

/// A child that is to be relocated, or entered.
struct Child {
    name: NodeKey,
    leaves: bool,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Moves the children of a node, or the root, to another place in the goal's tier. Returns how
    /// many moved, and adds those to `inner` that are inner nodes in this tier or a faster one.
    pub fn renew_below(
        &self,
        node: Option<&NodeKey>,
        slowest: TierId,
        goal: Goal<'_>,
        inner: &mut Vec<NodeKey>,
    ) -> usize {
        let (guard, mut moved) = (self.store.pin(), 0);
        for child in self.retry(|| self.children_to_renew(node, slowest, goal, &guard)) {
            if child.leaves {
                let outcome = self.relocate(&child.name, goal, &guard);
                moved += usize::from(matches!(outcome, Move::Moved(_)));
            }
            if child.name.height > 0 {
                inner.push(child.name);
            }
        }
        moved
    }

    /// The children of a node, or the root, that are inner nodes of this tier or a faster one, or
    /// are to leave their place.
    fn children_to_renew(
        &self,
        node: Option<&NodeKey>,
        slowest: TierId,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Vec<Child>, Restart> {
        let mut children = Vec::new();
        let mut add = |parent: Parent<'_, R>, link: Link<'_>, path: &[u8]| {
            let leaves = goal.avoids(link.address(self.base));
            if let Some(terminal) = link.terminal(self.base) {
                if leaves || self.has_block_to_renew(terminal, goal) {
                    let name = NodeKey::leaf((&*terminal.key()).into());
                    let leaves = true;
                    children.push(Child { name, leaves });
                }
            } else if let Some(inner) = link.inner() {
                let inner = self.enter(inner, &parent)?;
                let name = self.name_below(inner, path)?;
                children.push(Child { name, leaves });
            }
            Ok(())
        };
        let is_met = |link| self.tier_of(link) <= slowest;
        let Some(node) = node else {
            let (parent, link) = self.root.read(self.store.pinned(guard))?;
            if !link.is_none() && is_met(*link) {
                add(parent, link, &[])?;
            }
            return Ok(children);
        };
        let Some(Found::Inner(_, inner)) = self.follow(node, guard, |_| true)? else {
            return Ok(children);
        };
        let bytes = inner.kind().bytes::<R>();
        self.memory().charge_access(inner.address(), bytes);
        let mut path = node.key.to_vec();
        for (at, link) in inner.children(is_met)? {
            path.truncate(node.key.len());
            if at != AT_END {
                path.push((at - 1) as u8);
            }
            add(Parent::Node(inner, at), link, &path)?;
        }
        Ok(children)
    }

    /// Whether the value of a leaf of the goal's tier lies where it is not to be.
    fn has_block_to_renew(&self, terminal: Terminal<'_>, goal: Goal<'_>) -> bool {
        self.store.arenas().tier_of(terminal.address()) == goal.tier
            && self
                .block_of(terminal)
                .is_some_and(|block| goal.avoids(block.address()))
    }

    /// The name of an inner node that these bytes lead to.
    fn name_below(&self, inner: Inner<'_, R>, path: &[u8]) -> Result<NodeKey, Restart> {
        let (prefix, is_whole) = inner.get(|body| body.prefix())?;
        match is_whole {
            true => Ok(branching(&[path, &prefix].concat())),
            false => self.name_of(inner, path.len()),
        }
    }
}
