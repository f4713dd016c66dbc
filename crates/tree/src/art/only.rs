//! Which links a walk follows, by the tiers of their targets, which addresses tell.

use timberline_tier::{Memory, TierId};

use super::node::{Link, Reach};
use super::tree::Tree;

/// Which links a walk follows.
#[derive(Clone, Copy)]
pub(super) enum Only {
    All,
    /// Those to nodes of this tier and faster ones.
    DownTo(TierId),
    /// Of those to records only those in this tier.
    RecordsOf(TierId),
}

/// Links to records that a walk did not follow.
#[derive(Clone, Copy)]
pub(super) struct PassedOver<'g> {
    pub count: usize,
    pub last: Link<'g>,
}

impl PassedOver<'_> {
    pub const NONE: Self = PassedOver {
        count: 0,
        last: Link::NONE,
    };
    /// A walk that has passed over so many shows what it has.
    pub const MOST: usize = 4096;
}

impl Only {
    /// Whether a walk can't begin below this link.
    pub fn ends_at<M: Memory, R: Reach>(self, tree: &Tree<M, R>, link: Link<'_>) -> bool {
        match self {
            Only::DownTo(slowest) => tree.tier_of(*link) > slowest,
            Only::All | Only::RecordsOf(_) => false,
        }
    }

    /// Moves the links to follow to the front. Returns how many they are.
    #[inline(always)]
    pub fn keep<'g, M: Memory, R: Reach>(
        self,
        tree: &Tree<M, R>,
        links: &mut [Link<'g>],
        over: &mut PassedOver<'g>,
    ) -> usize {
        if let Only::All = self {
            return links.len();
        }
        let mut count = 0;
        for at in 0..links.len() {
            let (link, tier) = (links[at], tree.tier_of(*links[at]));
            let is_followed = match self {
                Only::All => true,
                Only::DownTo(slowest) => tier <= slowest,
                Only::RecordsOf(wanted) => tier == wanted || !link.is_terminal(),
            };
            if is_followed {
                links[count] = link;
                count += 1;
            } else if link.is_terminal() {
                (over.count, over.last) = (over.count + 1, link);
            }
        }
        count
    }
}
