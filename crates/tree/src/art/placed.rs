//! The tree as a placement's workers see it.

use std::ops::ControlFlow;

use timberline_placement::{
    Compaction, Fill, KeyBytes, LeafRef, Move, NodeKey, RecordCache, Relocate, Walk,
};
use timberline_tier::{CompactionCandidates, Memory, TierId};

use super::node::{DENSE_HEAD, DenseLeaf, Guess, Leaf, Link, Pack, Reach, Terminal, leaf_bytes};
use super::tree::Tree;
use super::walk::{AHEAD_OF_NEED, Filled, Walker};
use super::way::Start;
use crate::goal::Goal;
use crate::range::Way;

/// Leaves shown under one pin: the epoch is not held back by a long sweep.
const AT_A_TIME: usize = 256;

/// Which leaves are shown.
#[derive(Clone, Copy)]
enum Shown {
    All,
    /// Those of this tier below nodes of this and faster ones.
    In(TierId),
    /// Those of this tier, until so many leaves are passed.
    Of(TierId, usize),
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Shows leaves in the order of their keys. Returns where others begin that it did not come to,
    /// unless `visit` breaks.
    fn sweep(
        &self,
        from: &[u8],
        which: Shown,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) -> Option<KeyBytes> {
        let (mut last, mut first) = (from.to_vec(), true);
        let (tier, mut left) = match which {
            Shown::All => (None, usize::MAX),
            Shown::In(tier) => (Some(tier), usize::MAX),
            Shown::Of(tier, most) => (Some(tier), most),
        };
        loop {
            let guard = self.store.pin();
            let start = match first {
                true => Start::at(&last),
                false => Start::after(&last),
            };
            let mut walker = Walker::new(self, Way::Forward, start, &guard);
            walker = match which {
                Shown::All => walker,
                Shown::In(tier) => walker.down_to(tier),
                Shown::Of(tier, _) => walker.records_of(tier),
            };
            let mut ring = [Link::NONE; AT_A_TIME + AHEAD_OF_NEED];
            let (mut walked, mut filled) = (0, Filled::WithDense);
            while filled == Filled::WithDense {
                (walked, filled) = walker.fill(&mut ring, walked, AT_A_TIME, AT_A_TIME);
            }
            let is_before = walked > 0 && walker.was_sought() && walker.leaves_out(ring[0]);
            let passed = usize::from(is_before);
            let over = walker.passed_over();
            drop(walker);
            let mut shown = None;
            for &link in &ring[passed..walked] {
                let Some(found) = link.terminal(self.base) else {
                    continue;
                };
                // One that moved is shown where it is now; one that was removed, not at all.
                let terminal = match found.is_obsolete() {
                    true => self.terminal_of(&found.key(), &guard),
                    false => Some(found),
                };
                let is_wanted = |terminal: &Terminal<'_>| {
                    let at = |tier| self.store.arenas().tier_of(terminal.address()) == tier;
                    tier.is_none_or(at)
                };
                if let Some(terminal) = terminal.filter(is_wanted) {
                    self.memory()
                        .charge_access(terminal.address(), terminal.bytes().min(DENSE_HEAD));
                    if visit(self.leaf_ref(terminal)).is_break() {
                        return None;
                    }
                }
                shown = Some(found.greatest());
            }
            if filled == Filled::Ended {
                return None;
            }
            let passed_over = over.last.terminal(self.base).map(|it| it.greatest());
            // A walk that was lost goes on where it was, with those that are there now.
            left = left.saturating_sub(walked + over.count);
            let ends = shown.into_iter().chain(passed_over);
            if let Some(end) = ends.map(|it| it.to_vec()).max() {
                (last, first) = (end, false);
            }
            if left == 0 {
                // The least key behind the last.
                last.push(0);
                return Some(last[..].into());
            }
        }
    }
}

impl<M: Memory, R: Reach> Walk for Tree<M, R> {
    fn levels(&self) -> u8 {
        self.levels()
    }

    fn level_of(&self, node: &NodeKey) -> u8 {
        let guard = self.store.pin();
        let above = self.retry(|| self.nodes_above(node, &guard));
        u8::try_from(above).unwrap_or(u8::MAX)
    }

    fn node_bytes(&self) -> usize {
        match self.store.leaves() {
            0 => leaf_bytes(8),
            leaves => self.store.used().div_ceil(leaves).max(1),
        }
    }

    fn bytes_of(&self, node: &NodeKey) -> usize {
        let guard = self.store.pin();
        self.retry(|| self.size_of(node, &guard))
            .unwrap_or_default()
    }

    fn fill(&self, tier: TierId) -> Fill {
        self.store.fill(tier)
    }

    fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        self.sweep(from, Shown::All, visit);
    }

    fn each_leaf_in(
        &self,
        tier: TierId,
        from: &[u8],
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        self.sweep(from, Shown::In(tier), visit);
    }

    fn each_leaf_of(
        &self,
        tier: TierId,
        from: &[u8],
        most: usize,
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) -> Option<KeyBytes> {
        self.sweep(from, Shown::Of(tier, most), visit)
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| self.draw_fast_inner(draw, &guard))
    }

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let guard = self.store.pin();
        self.retry(|| self.node_above(node, &guard))
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
        let guess = Guess::at(self.store.arenas(), address)?;
        // What is read may be anything, until what covers this key turns out to lie there.
        let guard = self.store.pin();
        let lies_there = |key: &[u8]| {
            let terminal = self.terminal_of(key, &guard)?;
            (terminal.address() == address).then(|| KeyBytes::from(&*terminal.key()))
        };
        let mut key = Vec::new();
        let leaf = Leaf::probe(&guess, &mut key);
        let name = leaf.then(|| lies_there(&key)).flatten();
        name.or_else(|| lies_there(&DenseLeaf::probe(&guess)?))
            .or_else(|| lies_there(&Pack::probe(&guess)?.to_be_bytes()))
    }
}

impl<M: Memory, R: Reach> Relocate for Tree<M, R> {
    fn tiers(&self) -> u8 {
        self.store.arenas().tiers() as u8
    }

    fn promote_to(&self, node: &NodeKey, to: TierId) -> Move {
        self.promote(node, to)
    }

    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move {
        let to = to.min(TierId(self.tiers() - 1));
        self.relocate(node, Goal::tier(to), &self.store.pin())
    }

    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move {
        let (mut moved, mut last) = (0, Move::AlreadyThere);
        let to = to.min(TierId(self.tiers() - 1));
        let mut waiting = vec![(node.clone(), node.height == 0)];
        while let Some((node, is_bare)) = waiting.pop() {
            if !is_bare {
                let guard = self.store.pin();
                let below = self.retry(|| self.children_faster_than(to, &node, &guard));
                waiting.push((node, true));
                waiting.extend(below.into_iter().map(|child| {
                    let is_leaf = child.height == 0;
                    (child, is_leaf)
                }));
                continue;
            }
            last = self.demote_to(&node, to);
            match last {
                Move::Moved(nodes) => moved += nodes,
                Move::Full => return Move::Full,
                // A child was promoted in between.
                Move::Blocked => waiting.push((node, false)),
                Move::AlreadyThere | Move::Stale => {}
            }
        }
        match moved {
            0 => last,
            _ => Move::Moved(moved),
        }
    }

    fn reclaim(&self) {
        self.store.domain().collect();
    }
}

impl<M: Memory, R: Reach> Compaction for Tree<M, R> {
    fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        self.store.arenas().compaction_candidates(tier)
    }

    fn relocate_below(
        &self,
        node: Option<&NodeKey>,
        slowest: TierId,
        away_from: &CompactionCandidates,
        inner: &mut Vec<NodeKey>,
    ) -> usize {
        self.renew_below(node, slowest, Goal::away_from(away_from), inner)
    }
}

impl<M: Memory, R: Reach> RecordCache for Tree<M, R> {}
