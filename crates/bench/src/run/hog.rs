//! Memory that is taken so that others have no more of it than they should: the kernel knows no budget.

use std::path::Path;

use timberline_tier::topology::Topology;
use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, TierConfig, TierId};

/// Free memory that is taken, for as long as this lives.
pub struct Hog {
    _arenas: Arenas,
}

impl Hog {
    /// Leaves `free` bytes free on NUMA `nodes`, which is what a map may use of them.
    ///
    /// # Errors
    /// One line: the nodes' free memory isn't known, or can't be held.
    pub fn leave(free: usize, nodes: &[u32]) -> Result<Self, String> {
        let topology = Topology::discover(Path::new("/")).map_err(|error| error.to_string())?;
        let there = topology
            .nodes()
            .iter()
            .filter(|node| nodes.contains(&node.id));
        let there: u64 = there.map(|node| node.free_bytes).sum();
        let limit = (there as usize).saturating_sub(free) / MAX_SLOT * MAX_SLOT;
        let mut config = ArenasConfig::two_tiers(limit, 0);
        config.tiers = vec![TierConfig {
            limit,
            nodes: nodes.to_vec(),
        }];
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        // Slots are never given back: they are gone with the arenas.
        while arenas.allocate(TierId::FAST, MAX_SLOT).is_ok() {}
        let locked = arenas.lock(TierId::FAST);
        locked.map_err(|error| format!("{limit} bytes of fast memory can't be held: {error}"))?;
        Ok(Hog { _arenas: arenas })
    }
}
