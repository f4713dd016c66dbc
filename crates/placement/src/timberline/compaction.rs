//! Compaction of a tier.
//!
//! Where nodes have many sizes, those that stay while others leave end up scattered: a chunk with
//! one node in it withholds its memory from nodes of other sizes. When promotions find the tier
//! full, the nodes of such chunks are relocated within it: a [walk](Relocation) visits the tier's
//! nodes, some in each round.

use std::time::Duration;

use timberline_tier::{CompactionCandidates, TierId};

use super::backoff::Backoff;
use crate::Placed;
use crate::relocation::Relocation;

/// Inner nodes visited in a round.
const STRIDE: usize = 4096;
/// The fraction of the tier that the first compaction must free: one part in 32.
const WORTH: usize = 32;
/// Each attempt that finds too little halves the fraction, down to this one. Otherwise up to a
/// 32nd of the tier could stay stranded for good.
const LEAST_WORTH: usize = 64;
/// The longest pause between two searches for candidates: it is doubled after each that finds too
/// little.
const MAX_BACKOFF: Duration = Duration::from_secs(16);

pub struct Compaction {
    tier: TierId,
    /// Chunks that are being emptied.
    candidates: CompactionCandidates,
    /// The walk that empties them.
    walk: Relocation,
    /// Of searches for candidates.
    backoff: Backoff,
    /// The fraction of the tier that must come free: one part in this many.
    worth: usize,
}

impl Compaction {
    /// Of a tier, with this pause between two searches for candidates at least.
    pub fn of(tier: TierId, pause: Duration) -> Self {
        Compaction {
            tier,
            candidates: CompactionCandidates::NONE,
            walk: Relocation::down_to(tier),
            backoff: Backoff::new(pause, MAX_BACKOFF),
            worth: WORTH,
        }
    }

    /// Whether a walk is under way.
    pub fn is_active(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// A round: continues a walk, or begins one if memory is `stranded` and it is worth it.
    /// Returns whether a walk ended, so that chunks came free.
    pub fn step(&mut self, tree: &dyn Placed, stranded: bool, now: Duration) -> bool {
        if !self.is_active() && stranded && self.backoff.is_over(now) {
            let candidates = tree.compaction_candidates(self.tier);
            let is_worth_it = candidates.bytes() >= tree.fill(self.tier).limit / self.worth;
            if is_worth_it && !candidates.is_empty() {
                (self.candidates, self.walk) = (candidates, Relocation::down_to(self.tier));
                self.worth = WORTH;
                self.backoff.succeeded();
            } else {
                self.worth = (2 * self.worth).min(LEAST_WORTH);
                self.backoff.failed();
            }
            self.backoff.begin(now);
        }
        if !self.is_active() {
            return false;
        }
        self.walk.step(tree, &self.candidates, STRIDE);
        tree.reclaim();
        if self.walk.has_ended() {
            self.candidates = CompactionCandidates::NONE;
        }
        self.walk.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Walk;
    use crate::fake::FakeTree;

    const PAUSE: Duration = Duration::from_millis(500);

    /// Found by `fast_memory_is_of_use_to_nodes_of_any_size`: when every search asked for an eighth
    /// of 400 KiB, 24 KiB that could have been freed stayed stranded for good.
    #[test]
    fn looks_in_vain_ask_for_less() {
        let tree = FakeTree::uniform(2, 4, 5);
        let mut compaction = Compaction::of(TierId::FAST, PAUSE);
        let limit = tree.fill(TierId::FAST).limit;
        let wanted = |compaction: &Compaction| limit.div_ceil(compaction.worth);
        let first = wanted(&compaction);
        for look in 0..5 {
            compaction.step(&tree, true, Duration::from_secs(20 * look));
        }
        assert_eq!(
            (first, wanted(&compaction)),
            (limit.div_ceil(32), limit.div_ceil(64))
        );
    }

    #[test]
    fn looks_in_vain_become_rare() {
        // All of its nodes have one size: there are never any candidates.
        let tree = FakeTree::uniform(2, 4, 5);
        let mut compaction = Compaction::of(TierId::FAST, PAUSE);
        let mut looks = Vec::new();
        for tenth in 0..600 {
            let (now, due) = (Duration::from_millis(100 * tenth), compaction.backoff.due);
            assert!(!compaction.step(&tree, true, now));
            assert!(!compaction.is_active());
            if compaction.backoff.due != due {
                looks.push(now.as_secs());
            }
        }
        assert_eq!(looks, [0, 1, 3, 7, 15, 31, 47]);
        compaction.step(&tree, true, Duration::ZERO);
        assert!(
            compaction.backoff.due <= MAX_BACKOFF,
            "the clock may have been set back"
        );
        compaction.backoff.due = Duration::ZERO;
        compaction.step(&tree, false, MAX_BACKOFF);
        assert_eq!(
            compaction.backoff.due,
            Duration::ZERO,
            "nothing asks for room"
        );
    }
}
