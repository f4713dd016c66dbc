//! Relocating nodes within their tier, for compaction.

use timberline_placement::{Compaction, Move, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{CompactionCandidates, Memory, TierId};

use super::beside::Beside;
use super::find::NodeName;
use super::node::{LongKeys, View};
use super::tree::Tree;
use crate::goal::Goal;
use crate::value::Represent;

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Relocates the blocks of a node that stays where it is: a slot for another node may be just
    /// what is lacking.
    pub(super) fn renew_beside(
        &self,
        node: View<'_, WORDS>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        if self.all_beside_at(&node, goal)? {
            return Ok(Move::AlreadyThere);
        }
        let Some(beside) = Beside::of_all::<WORDS, H>(&self.store, &node, goal)? else {
            return Ok(Move::Full);
        };
        let (node, mut keys) = (node.upgrade()?, LongKeys::none());
        self.move_beside(beside, &node, 0, &mut keys, guard);
        keys.reclaim(&self.store, guard);
        Ok(Move::Moved(1))
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Compaction for Tree<M, WORDS, H> {
    fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        // Without values in blocks, there are slots of other sizes for long keys only.
        match H::IN_BLOCKS {
            true => self.memory().arenas().compaction_candidates(tier),
            false => CompactionCandidates::NONE,
        }
    }

    fn relocate_below(
        &self,
        node: Option<&NodeKey>,
        slowest: TierId,
        away_from: &CompactionCandidates,
        inner: &mut Vec<NodeKey>,
    ) -> usize {
        let (goal, mut moved) = (Goal::away_from(away_from), 0);
        let guard = self.store.pin();
        let wanted = |child| self.tier_at(child) <= slowest;
        let children = self.retry(|| match node {
            Some(node) => self.children_at(NodeName::named(node), wanted, &guard),
            None => {
                let root = self.root_at(&guard)?;
                Ok(Vec::from_iter(Some(root).filter(|&(_, at)| wanted(at))))
            }
        });
        for (child, at) in children {
            // The blocks beside a leaf may lie there.
            if goal.avoids(at) || child.height == 0 && self.tier_at(at) == goal.tier {
                let outcome = self.relocate(NodeName::named(&child), goal, &guard);
                moved += usize::from(matches!(outcome, Move::Moved(_)));
            }
            if child.height > 0 {
                inner.push(child);
            }
        }
        moved
    }
}
