//! Placements in one tier: for maps that need no second one, and as references of comparisons.

use timberline_tier::TierId;

use crate::{NewNode, Placement};

/// Every node fast: the cost of an index without slow memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct AllFast;

impl Placement for AllFast {
    fn place(&self, _: NewNode) -> TierId {
        TierId::FAST
    }

    fn reads_names(&self) -> bool {
        false
    }
}

/// Every node slow: the cost of an index in slow memory alone.
#[derive(Clone, Copy, Default, Debug)]
pub struct AllSlow;

impl Placement for AllSlow {
    fn place(&self, _: NewNode) -> TierId {
        TierId::SLOW
    }

    fn reads_names(&self) -> bool {
        false
    }
}
