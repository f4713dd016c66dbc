//! Statistics of a tree: nodes by level and tier.

use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Restart;
use timberline_tier::Memory;

use super::blocks::bytes_beside;
use super::find::{Location, NodeName, Parent};
use super::node::{Body, Name};
use super::payload::Payload;
use super::tree::Tree;
use crate::stats::{LevelFill, Stats};

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Visits all inner nodes, and leaves only if they may have layers below: a leaf's address
    /// tells its tier.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            node_bytes: Self::BYTES,
            ..self.store.stats()
        };
        // The bytes beside nodes are added at once, those of nodes when they are counted.
        let mut todo = vec![(Vec::new(), 0)];
        while let Some((path, level)) = todo.pop() {
            self.count_layer(&path, level, &mut stats, &mut todo);
        }
        let nodes = stats.levels.iter().map(|level| level.fast + level.slow);
        stats.bytes_in_nodes += nodes.sum::<usize>() * Self::BYTES;
        if P::VALUES {
            let leaves = (stats.leaves.fast + stats.leaves.slow).max(1);
            stats.node_bytes = stats.bytes_in_nodes / leaves;
        }
        stats.add_copies(self.copies.pages().0, Self::BYTES);
        if P::LINKS {
            let levels = stats.levels.len().min(u8::MAX.into());
            self.deepest.store(levels as u8, Relaxed);
        }
        stats
    }

    /// Counts one layer, whose root is at `level`, and pushes the layers below it on the list.
    fn count_layer(
        &self,
        path: &[u8],
        level: usize,
        stats: &mut Stats,
        todo: &mut Vec<(Vec<u8>, usize)>,
    ) {
        let fast = |node| self.is_fast(node);
        let guard = self.store.pin();
        let root = self.retry(|| {
            let leaf = NodeName {
                path,
                key: 0,
                height: 0,
            };
            let Some(leaf) = self.find(leaf, &guard)?.filter(|it| it.at.path == path) else {
                return Ok(None);
            };
            // However long the path is on which the layer hangs: within it, a level is a height.
            for height in 0.. {
                let Some(place) = self.find(leaf.at.at_height(height), &guard)? else {
                    break;
                };
                if !matches!(place.parent, Parent::Node(_)) {
                    return Ok(Some((place, height)));
                }
            }
            Err(Restart)
        });
        let Some((root, top)) = root else { return };
        stats.count(level, top == 0, fast(root.address()));
        let below = root.parent.tier(self.memory());
        stats.above_boundary += usize::from(self.tier_at(root.address()) < below);
        if !path.is_empty() && self.has_names {
            stats.bytes_in_nodes += Name::slot_for(path.len());
        }
        drop(guard);
        for height in (1..=top).rev() {
            let mut key = 0;
            loop {
                let guard = self.store.pin();
                let at = NodeName { path, key, height };
                let parent = self
                    .retry(|| self.find(at, &guard))
                    .map(|place| place.address());
                let listed = self.retry(|| self.children(at, &guard));
                let (Some(parent), Some((children, upper))) = (parent, listed) else {
                    break;
                };
                for (_, child) in children {
                    let level = level + usize::from(top - height) + 1;
                    stats.count(level, height == 1, fast(child.address()));
                    let is_faster = self.tier_at(child.address()) < self.tier_at(parent);
                    stats.above_boundary += usize::from(is_faster);
                }
                match upper.checked_add(1) {
                    Some(next) => key = next,
                    None => break,
                }
            }
        }
        if P::BLOCKS {
            self.count_below(path, level + usize::from(top) + 1, stats, todo);
        }
    }

    /// Counts the blocks beside the leaves of a layer, and pushes the layers below them on the
    /// list.
    fn count_below(
        &self,
        path: &[u8],
        level: usize,
        stats: &mut Stats,
        todo: &mut Vec<(Vec<u8>, usize)>,
    ) {
        let mut key = 0;
        loop {
            let guard = self.store.pin();
            let at = NodeName {
                path,
                key,
                height: 0,
            };
            let layers = self.layers_below(at, &guard);
            todo.extend(layers.into_iter().map(|layer| (layer.path, level)));
            let counted = self.retry(|| {
                let found = self.find(at, &guard)?;
                let Some(Location { node, .. }) = found.filter(|it| it.at.path == path) else {
                    return Ok(None);
                };
                let upper = node.get(Body::upper)?;
                Ok(Some((bytes_beside::<P, WORDS>(&node)?, upper)))
            });
            let Some((bytes, upper)) = counted else {
                return;
            };
            stats.bytes_in_nodes += bytes;
            match upper.checked_add(1) {
                Some(next) => key = next,
                None => return,
            }
        }
    }
}

impl Stats {
    /// Counts a node.
    pub(crate) fn count(&mut self, level: usize, is_leaf: bool, fast: bool) {
        let level = level.min(usize::from(u8::MAX) - 1);
        if self.levels.len() <= level {
            self.levels.resize(level + 1, LevelFill::default());
        }
        self.levels[level].add(fast);
        if is_leaf {
            self.leaves.add(fast);
        }
    }
}

impl LevelFill {
    pub(crate) fn add(&mut self, fast: bool) {
        *(if fast { &mut self.fast } else { &mut self.slow }) += 1;
    }
}
