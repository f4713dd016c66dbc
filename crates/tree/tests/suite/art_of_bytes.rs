//! The radix tree over byte strings as the suite sees it.

use std::sync::Arc;

use timberline_placement::Placement;
use timberline_tier::{Arenas, Native};
use timberline_tree::{Art, Error};

use crate::bytes::byte_map;

byte_map!([] Art<[u8], u64>, {
    fn make(arenas: Arenas, placement: Arc<dyn Placement>) -> Result<Self, Error> {
        Ok(Art::in_memory(Native(arenas), placement).expect("small arenas"))
    }
});
