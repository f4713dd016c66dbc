//! The radix tree of strings as the suite sees it.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::art::Reach;
use timberline_tree::{Art, Error, Stats};

use crate::suite::map::Bounds;
use crate::values::{ValueMap, value_map};

fn bound(bound: &Bound<u64>) -> Bound<&u64> {
    bound.as_ref()
}

value_map!(
    [L: Reach] Art<u64, Vec<u8>, Native, L>,
    |key| &key,
    |bounds| (bound(&bounds.0), bound(&bounds.1)),
    {
        const NODE_BYTES: usize = 24;
        const APART: usize = 8;
        const MANY: u64 = 6_400;
        const EMPTY_NODES: usize = 0;

        fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
            Ok(Art::in_memory(Native(arenas), placement).expect("small arenas"))
        }
    }
);
