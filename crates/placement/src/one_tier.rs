//! Maps in one tier: for a map that needs no second one, and to measure what either costs.

use timberline_tier::TierId;

use crate::{NewNode, Placement};

/// Every node fast: what an index costs without slow memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct AllFast;

impl Placement for AllFast {
    fn place(&self, _: NewNode) -> TierId {
        TierId::FAST
    }
}

/// Every node slow: what an index costs with nothing but slow memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct AllSlow;

impl Placement for AllSlow {
    fn place(&self, _: NewNode) -> TierId {
        TierId::SLOW
    }
}
