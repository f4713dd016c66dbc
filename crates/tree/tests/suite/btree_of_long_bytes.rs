//! The B+tree over byte strings as the suite for these sees it, and with values that are strings.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tier::{Arenas, Memory, Native};
use timberline_tree::{BTree, Error, Stats};

use crate::btree_of_bytes::{Text, texts};
use crate::bytes::byte_map;
use crate::suite::map::Bounds;
use crate::values::{ValueMap, value_map};

byte_map!([const WORDS: usize] BTree<[u8], u64, Native, WORDS>, {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        BTree::in_memory(Native(arenas), placement)
    }
});

value_map!(
    [const WORDS: usize] BTree<Text, Vec<u8>, Native, WORDS>,
    |key| &Text(key),
    |bounds| texts(bounds),
    {
        const NODE_BYTES: usize = Self::NODE_BYTES;

        fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
            BTree::in_memory(Native(arenas), placement)
        }
    }
);
