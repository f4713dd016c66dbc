//! Statistics of a tree: nodes by level and tier.
//!
//! Nodes are counted depth first. Where one that is being looked through was retired meanwhile,
//! what hangs in its place is looked through from there on, so a tree whose nodes only move is
//! counted as it is.

use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId, slot_size};

use super::node::{AT_END, InnerLink, LAST, Link, Position, Reach};
use super::tree::{PAGE_OF_COPIES, Tree};
use crate::value::ValueBlock;
use crate::{LevelFill, Stats};

/// An inner node that is being looked through.
struct Open<'g> {
    link: InnerLink<'g>,
    /// Where it hangs in its parent.
    at: Position,
    /// Where to go on.
    next: Position,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Visits all nodes, leaves included, as their sizes differ. The epoch is held back meanwhile.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            levels: vec![LevelFill::default()],
            ..self.store.stats()
        };
        let guard = self.store.pin();
        let mut path = Vec::new();
        let top = self.top(&guard);
        if !top.is_none() {
            self.tally(top, AT_END, TierId::FAST, &mut path, &mut stats);
        }
        while let Some(open) = path.last() {
            let Ok(node) = open.link.read(self.base) else {
                self.reopen(&mut path, &guard);
                continue;
            };
            match node.next(open.next) {
                Err(Restart) => {}
                Ok(None) => drop(path.pop()),
                Ok(Some((at, link))) => {
                    let below = self.tier_of(**open.link);
                    if let Some(open) = path.last_mut() {
                        open.next = at + 1;
                    }
                    self.tally(link, at, below, &mut path, &mut stats);
                }
            }
        }
        stats.node_bytes = stats.bytes_in_nodes / (stats.leaves.fast + stats.leaves.slow).max(1);
        stats.add_copies(self.copies.pages().0, PAGE_OF_COPIES);
        self.reaches((stats.levels.len() - 1).min(255) as u8);
        stats
    }

    fn top<'g>(&'g self, guard: &'g Guard) -> Link<'g> {
        self.retry(|| self.root.read::<R>(guard)).1
    }

    /// Counts a node, and opens it if there may be others below.
    fn tally<'g>(
        &self,
        link: Link<'g>,
        at: Position,
        below: TierId,
        path: &mut Vec<Open<'g>>,
        stats: &mut Stats,
    ) {
        let (level, is_fast) = (path.len(), self.is_fast(*link));
        if stats.levels.len() == level {
            stats.levels.push(LevelFill::default());
        }
        stats.levels[level].add(is_fast);
        stats.above_boundary += usize::from(self.tier_of(*link) < below);
        if let Some(terminal) = link.terminal(self.base) {
            stats.leaves.add(is_fast);
            let beside = self.block_of(terminal).map_or(0, ValueBlock::slot);
            stats.bytes_in_nodes += slot_size(terminal.bytes()) + beside;
        } else if let Some(link) = link.inner() {
            stats.bytes_in_nodes += slot_size(link.kind().bytes::<R>());
            let next = AT_END;
            path.push(Open { link, at, next });
        }
    }

    /// Finds the nodes of a path again, from the top on. What is no inner node any more is closed,
    /// with all below.
    fn reopen<'g>(&'g self, path: &mut Vec<Open<'g>>, guard: &'g Guard) {
        let mut link = self.top(guard);
        for level in 0..path.len() {
            let Some(inner) = link.inner() else {
                return path.truncate(level);
            };
            path[level].link = inner;
            if let Some(below) = path.get(level + 1) {
                let child = inner.read(self.base).and_then(|node| node.child(below.at));
                // Retired again: the thread that opened it will see.
                link = child.unwrap_or(*below.link);
            }
        }
    }
}

const _: () = assert!(LAST < Position::MAX, "there is a position after the last");
