//! `oracle`: the limit that other placements are held against. It is told how often each leaf will be
//! accessed, places the nodes once, and never moves them again.
//!
//! All leaves are equally large and a visit to any of them touches about as many lines, so most fast lines saved
//! per byte means: the most accessed leaves. Inner nodes are accessed more often than any leaf
//! below them, so they come first, and the single boundary costs nothing.

use timberline_tier::TierId;

use crate::{KeyBytes, Move, NewNode, NodeKey, Placed, Placement};

/// The limit that other placements are held against: nodes are placed once, by [`arrange`], with the true
/// frequencies known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Placement for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    /// While loading, inner nodes are fast and leaves slow; the halves of a split stay together.
    fn place(&self, node: NewNode) -> TierId {
        match node.height {
            0 => node.twin.max(node.parent),
            _ => node.parent,
        }
    }
}

/// Places the leaves of a quiet tree: those with the most accesses are fast, as many as fit while `reserve`
/// nodes' worth of fast memory stays free. `accesses` are pairs of a leaf's lower fence and how
/// often it is accessed. Returns how many leaves are fast.
pub fn arrange(tree: &dyn Placed, accesses: Vec<(KeyBytes, u64)>, reserve: usize) -> usize {
    let mut ranked = accesses;
    ranked.sort_unstable_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    // Demote all first: what stays in the way of a hotter leaf is not known before.
    let before = tree.fill(TierId::FAST).used;
    let mut demoted = 0;
    for (fence, _) in &ranked {
        if let Move::Moved(nodes) = tree.demote(&NodeKey::leaf(fence.clone())) {
            demoted += nodes;
        }
    }
    // Their memory comes back once no thread is pinned any more that was meanwhile.
    let left = before.saturating_sub(demoted * tree.node_bytes());
    for _ in 0..10_000 {
        if tree.fill(TierId::FAST).used <= left {
            break;
        }
        timberline_sync::epoch::collect();
        std::thread::yield_now();
    }
    let mut placed = 0;
    for (fence, _) in ranked {
        let fill = tree.fill(TierId::FAST);
        if fill.used + (reserve + 1) * tree.node_bytes() > fill.limit {
            break;
        }
        match tree.promote_path(fence) {
            Move::Moved(_) | Move::There => placed += 1,
            Move::Stale | Move::Blocked => {}
            Move::Full => break,
        }
    }
    placed
}
