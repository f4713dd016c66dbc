//! What a tree consists of: nodes by level and tier.

use timberline_placement::Placed;
use timberline_sync::epoch;
use timberline_tier::Memory;

use super::tree::{At, Tree};

/// The nodes of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelFill {
    /// Nodes in the fast tier.
    pub fast: usize,
    /// Nodes in slower tiers.
    pub slow: usize,
}

/// What a map consists of. Counted while others may change it, so sums are approximate then.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Records.
    pub records: usize,
    /// Levels from the root (0) to the leaves.
    pub levels: Vec<LevelFill>,
    /// Nodes that hold records, at whatever level.
    pub leaves: LevelFill,
    /// Bytes of a node; for each leaf, on average, where they differ.
    pub node_bytes: usize,
    /// Bytes of all nodes together.
    pub bytes_in_nodes: usize,
    /// Bytes committed in the fast tier, tables included.
    pub fast_bytes: usize,
    /// Bytes committed in slower tiers.
    pub slow_bytes: usize,
    /// Nodes moved to faster memory so far.
    pub promoted: u64,
    /// Nodes moved to slower memory so far.
    pub demoted: u64,
    /// Nodes that are fast although their parent is not. 0 when the tree is quiet, for placements that keep the
    /// single boundary.
    pub above_boundary: usize,
}

impl<M: Memory, const WORDS: usize> Tree<M, WORDS> {
    /// Visits all inner nodes, but no leaf: a leaf's address tells its tier.
    pub fn stats(&self) -> Stats {
        let arenas = self.memory().arenas();
        let (fast_bytes, slow_bytes) = self.store.committed();
        let (promoted, demoted) = self.store.moves();
        let mut stats = Stats {
            records: self.len(),
            levels: vec![LevelFill::default(); self.levels().into()],
            node_bytes: Self::BYTES,
            fast_bytes,
            slow_bytes,
            promoted,
            demoted,
            ..Stats::default()
        };
        let top = stats.levels.len() - 1;
        let root = {
            let guard = epoch::pin();
            let root = At {
                key: 0,
                height: top as u8,
            };
            self.retry(|| self.find(root, &guard))
                .map(|place| place.link.address())
        };
        let Some(root) = root else { return stats };
        let fast = |address| arenas.tier_of(address).is_fast();
        stats.levels[0].add(fast(root));
        for height in (1..=top).rev() {
            let mut key = 0;
            loop {
                let guard = epoch::pin();
                let at = At {
                    key,
                    height: height as u8,
                };
                let parent = self
                    .retry(|| self.find(at, &guard))
                    .map(|place| place.link.address());
                let listed = self.retry(|| self.children(at, &guard));
                let (Some(parent), Some((children, upper))) = (parent, listed) else {
                    break;
                };
                for (_, child) in children {
                    let child_is_fast = fast(child.address());
                    stats.levels[top - height + 1].add(child_is_fast);
                    stats.above_boundary += usize::from(child_is_fast && !fast(parent));
                }
                match upper.checked_add(1) {
                    Some(next) => key = next,
                    None => break,
                }
            }
        }
        stats.leaves = stats.levels[top];
        let nodes = stats.levels.iter().map(|level| level.fast + level.slow);
        stats.bytes_in_nodes = nodes.sum::<usize>() * Self::BYTES;
        stats
    }
}

impl LevelFill {
    pub(crate) fn add(&mut self, fast: bool) {
        *(if fast { &mut self.fast } else { &mut self.slow }) += 1;
    }
}
