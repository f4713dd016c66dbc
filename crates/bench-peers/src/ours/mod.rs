//! Our own maps: one short file each, and a row in [`crate::contenders`].

mod art;
mod btree;
mod masstree;

use std::sync::Arc;

use timberline_placement::{AllFast, Placement};
use timberline_tier::{Arenas, ArenasConfig, Memory, Plain, TierId};

use crate::index::Setting;

/// Memory of one kind, with room for what is to come; and the placement that knows no other. No heat is kept.
pub fn plain_memory(setting: &Setting) -> Result<(Plain, Arc<dyn Placement>), String> {
    // A limit, not what is used: addresses are reserved, memory is committed as it is needed.
    let a_record = 128 + setting.longest_key as u64;
    let limit = (256 << 20) + setting.records * a_record;
    let config = ArenasConfig {
        huge_pages: setting.huge_pages,
        ..ArenasConfig::one_tier(limit as usize)
    };
    let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
    Ok((Plain(arenas), Arc::new(AllFast)))
}

/// Bytes that a map's arenas have committed.
pub fn committed(memory: &impl Memory) -> u64 {
    memory.arenas().budget(TierId::FAST).used() as u64
}
