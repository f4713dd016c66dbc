//! Where a node is to go: to another tier, or to another place in its own.

use timberline_tier::{Arenas, CompactionCandidates, TierId};

/// See the [module's text](self).
#[derive(Clone, Copy)]
pub struct Goal<'s> {
    pub tier: TierId,
    from: Source<'s>,
}

/// Where a node that is to move there is now.
#[derive(Clone, Copy)]
enum Source<'s> {
    FasterTiers,
    SlowerTiers,
    /// In these chunks. Whatever is in another tier stays there.
    Chunks(&'s CompactionCandidates),
}

impl<'s> Goal<'s> {
    /// This tier, for a new node or one in a faster tier.
    pub fn tier(tier: TierId) -> Goal<'static> {
        let from = Source::FasterTiers;
        Goal { tier, from }
    }

    /// This tier, for a node in a slower one.
    pub fn promotion(tier: TierId) -> Goal<'static> {
        let from = Source::SlowerTiers;
        Goal { tier, from }
    }

    /// Another place in the tier of these chunks.
    pub fn away_from(candidates: &'s CompactionCandidates) -> Self {
        Goal {
            tier: candidates.tier(),
            from: Source::Chunks(candidates),
        }
    }

    /// Whether a node at this address is to stay where it is.
    pub fn has(self, arenas: &Arenas, node: usize) -> bool {
        let (at, to) = (arenas.tier_of(node), self.tier);
        match self.from {
            Source::Chunks(candidates) => !candidates.contains(node),
            Source::SlowerTiers => at <= to,
            Source::FasterTiers => at >= to,
        }
    }

    /// Whether what lies beside a node, at this address, is there.
    pub fn has_beside(self, arenas: &Arenas, block: usize) -> bool {
        match self.from {
            Source::Chunks(candidates) => !candidates.contains(block),
            _ => arenas.tier_of(block) == self.tier,
        }
    }

    /// Whether it is about the place in a tier, and not about the tier.
    pub fn is_within(self) -> bool {
        matches!(self.from, Source::Chunks(_))
    }

    /// Whether an address is where nothing is to be.
    pub fn avoids(self, address: usize) -> bool {
        matches!(self.from, Source::Chunks(candidates) if candidates.contains(address))
    }
}
