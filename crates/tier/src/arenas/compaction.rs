//! Compaction candidates: sparse chunks, which are decommitted once their last used slots have
//! moved to other chunks.

use std::ops::Range;
use std::sync::MutexGuard;

use super::chunks::Chunks;
use super::{Arenas, lock};
use crate::TierId;

/// Addresses of chunks whose used slots fit into other chunks of their class. Until a chunk is
/// empty, slots of other sizes cannot use its memory. Chosen by
/// [`Arenas::compaction_candidates`](crate::Arenas::compaction_candidates).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionCandidates {
    tier: TierId,
    /// In order.
    ranges: Vec<Range<usize>>,
}

impl CompactionCandidates {
    /// None.
    pub const NONE: CompactionCandidates = CompactionCandidates {
        tier: TierId::FAST,
        ranges: Vec::new(),
    };

    pub(super) fn new(tier: TierId, ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable_by_key(|range| range.start);
        CompactionCandidates { tier, ranges }
    }

    /// The tier of all of them.
    pub fn tier(&self) -> TierId {
        self.tier
    }

    /// Whether an address is in one of the chunks. O(log chunks).
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        let behind = self.ranges.partition_point(|it| it.start <= address);
        behind > 0 && address < self.ranges[behind - 1].end
    }

    /// Whether there is no such chunk.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes that are decommitted once the chunks are empty.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }
}

impl Arenas {
    /// Chooses the chunks that a tier above its limit must empty: those with the smallest fraction
    /// of used slots. No slot is allocated in them from now on. Chooses none if the tier is within
    /// its limit. The choice holds until the next one.
    pub fn evacuate(&self, tier: TierId) -> CompactionCandidates {
        let this = &self.tiers[tier.index()];
        self.flush(tier);
        let mut chunks = lock(&this.chunks);
        // A chunk on its way is charged, and can't be chosen yet.
        while this.budget.excess() > 0 && chunks.any_coming() {
            chunks = this.wait_for_chunk(chunks);
        }
        let chosen = chunks.choose_to_evacuate(this.budget.excess());
        self.chosen(tier, chunks, chosen)
    }

    /// Makes slots of the chosen chunks bypass the thread caches.
    fn chosen(
        &self,
        tier: TierId,
        chunks: MutexGuard<'_, Chunks>,
        chosen: Vec<(usize, usize)>,
    ) -> CompactionCandidates {
        let this = &self.tiers[tier.index()];
        this.let_bypass(&chunks);
        drop(chunks);
        let range = |(offset, bytes)| this.span.start + offset..this.span.start + offset + bytes;
        CompactionCandidates::new(tier, chosen.into_iter().map(range))
    }

    /// Chooses the chunks of a tier to compact: those whose slots in use fit into other chunks.
    /// Slots are taken from other chunks first from now on. The choice holds until the next one.
    pub fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        let this = &self.tiers[tier.index()];
        // Slots in thread caches look used.
        self.flush(tier);
        let mut chunks = lock(&this.chunks);
        let chosen = chunks.choose_candidates();
        self.chosen(tier, chunks, chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_looked_up_by_range() {
        let candidates =
            CompactionCandidates::new(TierId::FAST, [50..60, 10..20, 20..30].into_iter());
        let inside = (0..70).filter(|&address| candidates.contains(address));
        assert!(inside.eq((10..30).chain(50..60)));
        assert_eq!(candidates.bytes(), 30);
        assert!(!CompactionCandidates::NONE.contains(0) && CompactionCandidates::NONE.is_empty());
    }
}
