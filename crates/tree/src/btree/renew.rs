//! Relocating nodes within their tier, for compaction.

use timberline_placement::{Compaction, Move, NodeKey};
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{CompactionCandidates, Memory, TierId};

use super::blocks::{Blocks, all_at};
use super::find::NodeName;
use super::node::{Link, View};
use super::payload::Payload;
use super::tree::Tree;
use crate::goal::Goal;

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    /// Whether a leaf or its blocks lie where nothing is to be, or layers are below it. Most leaves
    /// of a tier are none of this, and are found by their parent's link rather than by their name.
    fn concerns(&self, goal: Goal<'_>, leaf: Link<'_, WORDS>) -> Result<bool, Restart> {
        let at = leaf.address();
        if goal.avoids(at) {
            return Ok(true);
        }
        if !P::BLOCKS {
            return Ok(false);
        }
        let leaf = leaf.read()?;
        let count = leaf.get(|body| {
            self.charge_node(body);
            body.count()
        })?;
        if P::LINKS {
            for index in 0..count {
                if self.child_at(&leaf, index)?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(self.tier_at(at) == goal.tier
            && !all_at::<P, WORDS>(&leaf, goal, self.memory().arenas())?)
    }

    /// Relocates the blocks of a leaf that stays where it is: a slot for another leaf may be just
    /// what is lacking.
    pub(super) fn renew_blocks(
        &self,
        leaf: View<'_, WORDS>,
        goal: Goal<'_>,
        guard: &Guard,
    ) -> Result<Move, Restart> {
        if all_at::<P, WORDS>(&leaf, goal, self.memory().arenas())? {
            return Ok(Move::AlreadyThere);
        }
        let Some(blocks) = Blocks::allocate_in::<P, WORDS>(&self.store, &leaf, goal)? else {
            return Ok(Move::Full);
        };
        let leaf = leaf.upgrade()?;
        self.move_blocks(blocks, &leaf, 0, guard);
        Ok(Move::Moved(1))
    }
}

impl<M: Memory, const WORDS: usize, P: Payload> Compaction for Tree<M, WORDS, P> {
    fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        match P::BLOCKS {
            true => self.memory().arenas().compaction_candidates(tier),
            // Nodes of one size can use each other's slots.
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
        let is_met = |child| self.tier_at(child) <= slowest;
        let wanted = |at, child: Option<Link<'_, WORDS>>| match child {
            Some(leaf) if leaf.height() == 0 && is_met(at) => self.concerns(goal, leaf),
            _ => Ok(is_met(at)),
        };
        let children = self.retry(|| match node {
            Some(node) => self.children_at(NodeName::named(node), wanted, &guard),
            None => {
                let root = self.root_at(&guard)?;
                Ok(Vec::from_iter(Some(root).filter(|&(_, at)| is_met(at))))
            }
        });
        for (child, at) in children {
            // The blocks beside a leaf may lie there.
            let has_blocks = P::BLOCKS && child.height == 0 && self.tier_at(at) == goal.tier;
            if has_blocks || goal.avoids(at) {
                let outcome = self.relocate(NodeName::named(&child), goal, &guard);
                moved += usize::from(matches!(outcome, Move::Moved(_)));
            }
            if P::LINKS || child.height > 0 {
                inner.push(child);
            }
        }
        moved
    }
}
