//! What a tree consists of: nodes by level, kind and tier.

use timberline_sync::epoch::{self, Guard};
use timberline_tier::{Memory, slot_size};

use super::node::{AT_END, Link, Reach};
use super::tree::{Root, Tree};
use crate::{LevelFill, Stats};

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Visits all nodes, leaves included, as their sizes differ. The epoch is held back meanwhile.
    pub fn stats(&self) -> Stats {
        let (fast_bytes, slow_bytes) = self.store.committed();
        let (promoted, demoted) = self.store.moves();
        let mut stats = Stats {
            records: self.store.records(),
            levels: vec![LevelFill::default()],
            fast_bytes,
            slow_bytes,
            promoted,
            demoted,
            ..Stats::default()
        };
        let guard = epoch::pin();
        let top = self.retry(|| self.root.read()?.get(Root::link));
        let mut waiting = Vec::from_iter((!top.is_none()).then_some((top, 0, true)));
        while let Some((link, level, below_fast)) = waiting.pop() {
            let is_fast = self.is_fast(link);
            if stats.levels.len() == level {
                stats.levels.push(LevelFill::default());
            }
            stats.levels[level].add(is_fast);
            stats.above_boundary += usize::from(is_fast && !below_fast);
            if link.is_leaf() {
                stats.leaves.add(is_fast);
                stats.bytes_in_nodes += slot_size(self.leaf_at(link, &guard).bytes());
            } else {
                stats.bytes_in_nodes += slot_size(link.kind().bytes::<R>());
                let children = self.children(link, &guard);
                waiting.extend(children.map(|child| (child, level + 1, is_fast)));
            }
        }
        stats.node_bytes = stats.bytes_in_nodes / (stats.leaves.fast + stats.leaves.slow).max(1);
        self.reaches((stats.levels.len() - 1).min(255) as u8);
        stats
    }

    /// The children of a node; none of one that was retired: it is counted, but what hangs below its successor is not.
    fn children(&self, link: Link, guard: &Guard) -> impl Iterator<Item = Link> + use<M, R> {
        let mut children = Vec::new();
        self.retry(|| {
            children.clear();
            let Ok(node) = link.node::<R>(self.base, guard).read() else {
                return Ok(());
            };
            node.get(|body| {
                body.each(AT_END, |_, child| {
                    children.push(child);
                    true
                });
            })
        });
        children.into_iter()
    }
}
