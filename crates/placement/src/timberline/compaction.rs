//! Compaction of a tier.
//!
//! Where nodes have many sizes, those that stay while others leave end up scattered: a chunk with
//! one node in it withholds its memory from nodes of other sizes. When promotions find the tier
//! full, the nodes of such chunks are relocated within it: a [walk](Relocation) visits the tier's
//! nodes, some in each round.

use std::time::Duration;

use timberline_tier::{CompactionCandidates, TierId};

use super::backoff::Backoff;
use crate::relocation::Relocation;
use crate::{Fill, Placed};

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
/// A walk has paid if the tier holds more by one part in so many when the next one is due.
const PAID: usize = 64;
/// The longest pause between two walks: it is doubled after each that has not paid. A walk over a
/// large tier takes seconds, and where leaves of many sizes come and go there is always something
/// to compact.
const MAX_BACKOFF_OF_WALKS: Duration = Duration::from_secs(256);

pub struct Compaction {
    tier: TierId,
    /// Chunks that are being emptied.
    candidates: CompactionCandidates,
    /// The walk that empties them.
    walk: Relocation,
    /// Of searches for candidates.
    backoff: Backoff,
    /// Of walks.
    walks: Backoff,
    /// Bytes of the tier's nodes when the last walk began.
    used: usize,
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
            walks: Backoff::new(pause, MAX_BACKOFF_OF_WALKS),
            used: 0,
            worth: WORTH,
        }
    }

    /// Whether a walk is under way.
    pub fn is_active(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// The hot set has moved: a walk may pay again.
    pub fn hot_set_moved(&mut self) {
        self.walks.succeeded();
        self.walks.due = Duration::ZERO;
    }

    fn is_due(&mut self, now: Duration) -> bool {
        self.backoff.is_over(now) && self.walks.is_over(now)
    }

    /// Begins a walk that empties these chunks of the tier, which holds `fill`.
    fn begin(&mut self, candidates: CompactionCandidates, fill: Fill, now: Duration) {
        (self.candidates, self.walk) = (candidates, Relocation::down_to(self.tier));
        self.worth = WORTH;
        self.backoff.succeeded();
        match fill.used >= self.used + fill.limit / PAID {
            true => self.walks.succeeded(),
            false => self.walks.failed(),
        }
        self.used = fill.used;
        self.walks.begin(now);
    }

    /// A round: continues a walk, or begins one if memory is `stranded` and it is worth it.
    /// Returns whether a walk ended, so that chunks came free.
    pub fn step(&mut self, tree: &dyn Placed, stranded: bool, now: Duration) -> bool {
        if !self.is_active() && stranded && self.is_due(now) {
            let candidates = tree.compaction_candidates(self.tier);
            let fill = tree.fill(self.tier);
            let is_worth_it = candidates.bytes() >= fill.limit / self.worth;
            if is_worth_it && !candidates.is_empty() {
                self.begin(candidates, fill, now);
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

    /// With 20 million records in a Masstree, walks of four seconds followed each other for good.
    #[test]
    fn walks_that_do_not_pay_become_rare() {
        let mut compaction = Compaction::of(TierId::FAST, PAUSE);
        let fill = |used| Fill { used, limit: 6400 };
        let mut pauses = [5000, 5099, 5198, 5000, 5100].map(|used| {
            compaction.begin(CompactionCandidates::NONE, fill(used), Duration::ZERO);
            compaction.walks.due.as_millis()
        });
        assert_eq!(pauses, [500, 1000, 2000, 4000, 500]);
        pauses = [(); 5].map(|()| {
            (0..3).for_each(|_| compaction.begin(CompactionCandidates::NONE, fill(5000), PAUSE));
            compaction.walks.due.as_millis()
        });
        assert_eq!(pauses[4], 256_500, "the longest");
        assert!(!compaction.is_due(PAUSE * 2));
        compaction.hot_set_moved();
        assert!(compaction.is_due(PAUSE * 2));
    }
}
