//! Where a node is to go: to another tier, or to another place in its own.

use timberline_tier::{Arenas, CompactionCandidates, TierId};

/// See the [module's text](self).
#[derive(Clone, Copy)]
pub struct Goal<'s> {
    pub tier: TierId,
    /// Not here, of all places in that tier. Whatever is in another tier stays there.
    away_from: Option<&'s CompactionCandidates>,
}

impl<'s> Goal<'s> {
    pub fn tier(tier: TierId) -> Goal<'static> {
        let away_from = None;
        Goal { tier, away_from }
    }

    /// Another place in fast memory.
    pub fn away_from(candidates: &'s CompactionCandidates) -> Self {
        Goal {
            tier: TierId::FAST,
            away_from: Some(candidates),
        }
    }

    /// Whether a node at this address is there. With more than two tiers, one that is faster than
    /// fast has to be, or slower than slow, is.
    pub fn has(self, arenas: &Arenas, node: usize) -> bool {
        let (at, to) = (arenas.tier_of(node), self.tier);
        match self.away_from {
            Some(candidates) => !candidates.contains(node),
            None if to.is_fast() => at <= to,
            None => at >= to,
        }
    }

    /// Whether what lies beside a node, at this address, is there.
    pub fn has_beside(self, arenas: &Arenas, block: usize) -> bool {
        match self.away_from {
            Some(candidates) => !candidates.contains(block),
            None => arenas.tier_of(block) == self.tier,
        }
    }

    /// Whether it is about the place in a tier, and not about the tier.
    pub fn is_within(self) -> bool {
        self.away_from.is_some()
    }

    /// Whether an address is where nothing is to be.
    pub fn avoids(self, address: usize) -> bool {
        self.away_from
            .is_some_and(|candidates| candidates.contains(address))
    }
}
