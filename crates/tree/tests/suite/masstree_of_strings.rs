//! Masstree of strings as the suite sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{NodeKey, Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{Error, Masstree, Stats};

use crate::masstree_of_words::{bound, leaf_of};
use crate::suite::map::Bounds;
use crate::values::{ValueMap, value_map};

value_map!(
    [const WORDS: usize] Masstree<u64, Vec<u8>, Native, WORDS>,
    |key| &key,
    |bounds| (bound(&bounds.0), bound(&bounds.1)),
    {
        const NODE_BYTES: usize = Self::NODE_BYTES;

        fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
            Masstree::in_memory(Native(arenas), placement)
        }

        fn leaf_of(key: u64) -> NodeKey {
            leaf_of(&key.to_be_bytes())
        }
    }
);
