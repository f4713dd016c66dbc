//! Walks over leaves, for placements: in the order of their names, skipping leaves of other tiers
//! without reading them.
//!
//! A walk prefetches the leaves after the current one, whose addresses its parent has. Otherwise a
//! sweep would spend most of its time on one cache miss after another.

use std::ops::ControlFlow;

use timberline_placement::{KeyBytes, LeafRef, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId};

use super::find::{Location, NodeName, Parent};
use super::node::{HEADER, Link, View, address};
use super::payload::Payload;
use super::tree::Tree;

/// Leaves that a walk prefetches ahead of the current one: fewer than any profile allows in flight.
const AHEAD: usize = 8;

/// The lower fence and link of each child, and the upper fence of the last.
pub(super) type Children<'g, const WORDS: usize> = (Vec<(u64, Link<'g, WORDS>)>, u64);

/// A layer, and the entry that links to it.
pub(super) struct Layer {
    pub key: u64,
    pub path: Vec<u8>,
    /// The tier of its root.
    pub root: usize,
}

/// The part of a layer that is still to be walked.
struct Unvisited {
    path: Vec<u8>,
    /// The leaf that covers this key, and the leaves after it.
    key: u64,
    /// The leaf was visited: only the layers below its entries after the key are left.
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
    /// Leaves of this tier without a layer below that is as fast. (A leaf with such a layer is an
    /// inner node to a placement: it can't leave before the layer.) Layers whose root is slower are
    /// not entered.
    EndsIn(TierId),
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Bytes of a leaf that a walk reads: the header, or all keys where layers may be below it.
    const VISITED: usize = if P::LINKS {
        HEADER + 8 * Self::CAPACITY
    } else {
        HEADER
    };

    /// Visits the chosen leaves whose fence is `from` or greater. It visits all nodes above leaves.
    pub(super) fn leaves_from(
        &self,
        from: &[u8],
        which: Which,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        // A stack: the first part is on top.
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
                // The first leaf covers `from`, so its fence may be less.
                if first && leaf.fence.word < Some(start.key) {
                    return ControlFlow::Continue(());
                }
                visit(leaf)
            };
            // One pin a parent, so that a long walk does not hold back the epoch.
            let guard = self.store.pin();
            let flow = self.batch(rest, which, &mut visit, &mut todo, &guard);
            if flow.is_break() {
                return;
            }
            first = false;
        }
    }

    /// Visits leaves below one parent, up to the first leaf with layers. Pushes the rest on `todo`.
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
                // It moved or was merged: the leaf that replaced it is visited, maybe for the
                // second time.
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
            // The fence is a hint to the visitor, so a leaf that changed meanwhile needs no second
            // visit.
            let mut flow = ControlFlow::Continue(());
            if !visited && is_end {
                let _ = leaf.get(|body| {
                    let mut leaf = self.leaf_ref(address, body);
                    leaf.fence.prefix = place.path;
                    flow = visit(leaf);
                });
            }
            if flow.is_break() {
                return flow;
            }
            if layers.is_empty() {
                continue;
            }
            // The layers below the leaf come next, then the leaves after it.
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
    /// the last. `None` if the layer no longer exists.
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

    /// The children of an inner node, from an index on.
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

    /// The layers below a leaf that was read; this path leads to it.
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
