//! Statistics of a tree: nodes by level and tier.

use timberline_sync::Restart;
use timberline_tier::Memory;

use super::find::NodeName;
use super::tree::Tree;
use crate::stats::Stats;
use crate::value::Represent;

/// A node that was counted.
struct Counted {
    level: u8,
    is_fast: bool,
    is_above_boundary: bool,
    beside: usize,
    /// The upper fence.
    behind: Option<Vec<u8>>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Visits all nodes: blocks may lie beside any.
    pub(super) fn count_nodes(&self) -> Stats {
        let mut stats = Stats {
            node_bytes: Self::BYTES,
            ..self.store.stats()
        };
        let (mut height, mut key) = (0, Vec::new());
        loop {
            let counted = self.retry(|| self.count_node(&key, height));
            let Some(node) = counted else { break };
            stats.count(node.level.into(), height == 0, node.is_fast);
            stats.bytes_in_nodes += Self::BYTES + node.beside;
            stats.above_boundary += usize::from(node.is_above_boundary);
            match node.behind {
                Some(behind) => key = behind,
                None => {
                    height += 1;
                    key.clear();
                }
            }
        }
        if H::IN_BLOCKS {
            let leaves = (stats.leaves.fast + stats.leaves.slow).max(1);
            stats.node_bytes = stats.bytes_in_nodes / leaves;
        }
        stats
    }

    fn count_node(&self, key: &[u8], height: u8) -> Result<Option<Counted>, Restart> {
        let guard = self.store.pin();
        let Some(place) = self.find(NodeName { key, height }, &guard)? else {
            return Ok(None);
        };
        let tier = self.tier_at(place.node.address());
        Ok(Some(Counted {
            level: place.level,
            is_fast: tier.is_fast(),
            is_above_boundary: tier < place.parent.tier(self.memory()),
            beside: self.bytes_beside(&place.node)?,
            behind: place.node.upper(self.memory())?,
        }))
    }
}
