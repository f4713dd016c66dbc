//! Masstree over byte strings as the suite sees it.

use std::sync::Arc;

use timberline_placement::{NodeKey, Placement};
use timberline_tier::{Arenas, Native};
use timberline_tree::{Error, Masstree};

use crate::bytes::byte_map;
use crate::masstree_of_words::leaf_of;

byte_map!([const WORDS: usize] Masstree<[u8], u64, Native, WORDS>, {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        Masstree::in_memory(Native(arenas), placement)
    }
    fn leaf_of(key: &[u8]) -> NodeKey {
        leaf_of(key)
    }
});
