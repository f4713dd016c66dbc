//! The B+tree of strings as the suite sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{BTree, Error, Stats};

use crate::suite::map::Bounds;
use crate::values::{ValueMap, value_map};

value_map!([const WORDS: usize] BTree<u64, Vec<u8>, Native, WORDS>, |key| &key, |bounds| bounds, {
    const NODE_BYTES: usize = Self::NODE_BYTES;

    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        BTree::in_memory(Native(arenas), placement)
    }
});
