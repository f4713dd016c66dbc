//! Walks over leaves, for placements: in the order of their names, and past those that nobody asks
//! for without a look at them.
//!
//! A walk prefetches the leaves after the one it visits, as their addresses are known from their
//! parent: one cache miss after another would be most of what a sweep costs.

use std::ops::ControlFlow;

use timberline_placement::{KeyBytes, LeafRef, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::find::{Location, NodeName, Parent};
use super::node::{HEADER, Link, View, address};
use super::payload::Payload;
use super::tree::Tree;

/// Leaves that a walk prefetches ahead of the one it visits: fewer than any profile lets be in
/// flight.
const AHEAD: usize = 8;

/// The lower fence and link of each child, and the upper fence of the last.
pub(super) type Children<'g, const WORDS: usize> = (Vec<(u64, Link<'g, WORDS>)>, u64);

/// A layer, and the entry it hangs below.
pub(super) struct Layer {
    pub key: u64,
    pub path: Vec<u8>,
    /// Where its root lies.
    pub root: usize,
}

/// What is left of a layer.
struct Unvisited {
    path: Vec<u8>,
    /// The leaf that covers this key, and those after it.
    key: u64,
    /// Of the leaf itself only the layers below entries after the key: it was visited.
    visited: bool,
}

impl Unvisited {
    fn of(path: &[u8], key: u64, visited: bool) -> Unvisited {
        let path = path.to_vec();
        Unvisited { path, key, visited }
    }
}

/// Which leaves a walk visits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Those of this tier that nothing as fast hangs below: a leaf that leads to such a layer is
    /// an inner node to a placement, as it can't leave before the layer. Layers whose root is
    /// slower are not entered.
    EndsIn(TierId),
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Bytes of a leaf that a walk reads: its header, and where layers may hang below it all keys.
    const VISITED: usize = if P::LINKS {
        HEADER + 8 * Self::CAPACITY
    } else {
        HEADER
    };

    /// Visits the leaves asked for whose fence is `from` or greater. Nodes above leaves are visited
    /// all the same.
    pub(super) fn leaves_from(
        &self,
        from: &[u8],
        which: Which,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        // What comes first is on top.
        let name = NodeKey::leaf(KeyBytes::from(from));
        let start = NodeName::named(&name);
        let mut todo: Vec<Unvisited> = (0..start.path.len())
            .step_by(8)
            .map(|at| Unvisited::of(&from[..at], KeyBytes::from(&from[at..]).word(), true))
            .collect();
        todo.push(Unvisited::of(start.path, start.key, false));
        let mut first = true;
        while let Some(rest) = todo.pop() {
            let mut visit = |leaf: LeafRef<'_>| {
                // The first leaf covers `from`; its fence may be less.
                if first && leaf.fence.word < Some(start.key) {
                    return ControlFlow::Continue(());
                }
                visit(leaf)
            };
            // One pin a parent: the epoch is not held back by a long scan.
            let guard = self.store.pin();
            let flow = self.batch(rest, which, &mut visit, &mut todo, &guard);
            if flow.is_break() {
                return;
            }
            first = false;
        }
    }

    /// Visits leaves below one parent, up to one with layers. What is left goes on top of `todo`.
    fn batch(
        &self,
        rest: Unvisited,
        which: Which,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
        todo: &mut Vec<Unvisited>,
        guard: &Guard,
    ) -> ControlFlow<()> {
        let at = NodeName {
            path: &rest.path,
            key: rest.key,
            height: 0,
        };
        let Some((leaves, upper)) = self.retry(|| self.leaves_below_parent(at, guard)) else {
            return ControlFlow::Continue(());
        };
        let wanted = |node| match which {
            Which::All => true,
            Which::EndsIn(tier) => self.tier_at(node) <= tier,
        };
        let prefetch = |leaf: Option<&(u64, Link<'_, WORDS>)>| {
            let address = leaf.map(|(_, link)| link.address());
            if let Some(address) = address.filter(|&node| wanted(node)) {
                self.memory().prefetch(address, Self::VISITED);
            }
        };
        (0..AHEAD).for_each(|index| prefetch(leaves.get(index)));
        for (index, &(key, link)) in leaves.iter().enumerate() {
            let visited = rest.visited && index == 0;
            prefetch(leaves.get(index + AHEAD));
            if !wanted(link.address()) {
                continue;
            }
            let place = NodeName { key, ..at };
            let leaf = match link.read() {
                Ok(leaf) => leaf,
                // It moved, or merged: what is in its place now is seen, maybe again.
                Err(Restart) => match self.retry(|| self.find(place, guard)) {
                    Some(now) if now.at.path.len() == at.path.len() => now.node,
                    _ => continue,
                },
            };
            let address = address(leaf.of());
            self.memory().charge_access(address, HEADER);
            let layers = match self.layers_of(leaf, place.path) {
                Ok(layers) => layers,
                Err(Restart) => self.layers_below(place, guard),
            };
            let below = |layer: &Layer| wanted(layer.root);
            let is_end = match which {
                Which::All => true,
                Which::EndsIn(tier) => self.tier_at(address) == tier && !layers.iter().any(below),
            };
            // The fence is a hint to the visitor; a leaf that changed meanwhile was seen
            // anyway.
            let mut flow = ControlFlow::Continue(());
            if !visited && is_end {
                let _ = leaf.get(|body| flow = visit(self.leaf_ref(address, body)));
            }
            if flow.is_break() {
                return flow;
            }
            if layers.is_empty() {
                continue;
            }
            // What hangs below comes next, then the leaves behind this one.
            let behind = match leaves.get(index + 1) {
                Some(&(next, _)) => Some(next),
                None => upper.checked_add(1),
            };
            todo.extend(behind.map(|key| Unvisited::of(at.path, key, false)));
            let unseen = |layer: &&Layer| !visited || layer.key > rest.key;
            let layers = layers.iter().rev().filter(unseen);
            let wanted = layers.filter(|layer| wanted(layer.root));
            todo.extend(wanted.map(|layer| Unvisited::of(&layer.path, 0, false)));
            return ControlFlow::Continue(());
        }
        todo.extend(
            upper
                .checked_add(1)
                .map(|next| Unvisited::of(at.path, next, false)),
        );
        ControlFlow::Continue(())
    }

    /// The leaf that covers a key and those after it below the same parent, and the upper fence of
    /// the last. `None` where the layer is gone.
    fn leaves_below_parent<'g>(
        &'g self,
        at: NodeName<'g>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Children<'g, WORDS>>, Restart> {
        let Some(Location {
            at: found,
            parent,
            node,
            ..
        }) = self.find(at, guard)?
        else {
            return Ok(None);
        };
        if found.path.len() != at.path.len() {
            return Ok(None);
        }
        let Parent::Node(parent) = parent else {
            let (lower, upper) = node.get(|body| (body.lower(), body.upper()))?;
            return Ok(Some((vec![(lower, node.link())], upper)));
        };
        let from = parent.get(|body| body.child_for(self.search, at.key))?;
        self.list(parent, from).map(Some)
    }

    /// The children of an inner node, from one on.
    fn list<'g>(&self, node: View<'g, WORDS>, from: usize) -> Result<Children<'g, WORDS>, Restart> {
        let upper = node.get(|body| {
            self.charge_node(body);
            body.upper()
        })?;
        Ok((node.children(from)?, upper))
    }

    /// The children of an inner node.
    pub(super) fn children<'g>(
        &'g self,
        at: NodeName<'g>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Children<'g, WORDS>>, Restart> {
        match self.find(at, guard)? {
            Some(place) => self.list(place.node, 0).map(Some),
            None => Ok(None),
        }
    }

    /// The layers below a leaf.
    pub(super) fn layers_below(&self, at: NodeName<'_>, guard: &Guard) -> Vec<Layer> {
        if !P::LINKS {
            return Vec::new();
        }
        self.retry(|| match self.find(at, guard)? {
            Some(place) if place.at.path == at.path => self.layers_of(place.node, at.path),
            _ => Ok(Vec::new()),
        })
    }

    /// The layers below a leaf that was read, which this path leads to.
    fn layers_of(&self, leaf: View<'_, WORDS>, path: &[u8]) -> Result<Vec<Layer>, Restart> {
        let mut layers = Vec::new();
        if !P::LINKS {
            return Ok(layers);
        }
        let count = leaf.get(|body| {
            self.charge_node(body);
            body.count()
        })?;
        for index in 0..count {
            let entry = leaf.entry(index)?;
            if let Some(root) = P::layer(entry) {
                let (key, root, mut path) = (entry.key, address(root), path.to_vec());
                P::push_path(entry, &mut path);
                layers.push(Layer { key, path, root });
            }
        }
        Ok(layers)
    }
}
