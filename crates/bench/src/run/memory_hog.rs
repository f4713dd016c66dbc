//! Memory that is taken so that others have no more of it than they should: the kernel knows no
//! budget.

use std::path::Path;

use timberline_tier::tiering::{self, Set};
use timberline_tier::topology::Topology;
use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, TierConfig, TierId};

/// Free memory that is taken, for as long as this lives.
pub struct MemoryHog {
    /// Most of it, where nobody moves it; none where this process may not take huge pages.
    _held: Vec<Set>,
    /// What huge pages left over. Locked, so it is not reclaimed; DAMON moves it all the same.
    _arenas: Arenas,
}

impl MemoryHog {
    /// Leaves `free` bytes free on NUMA `nodes`, which is what a map may use of them.
    ///
    /// # Errors
    /// One line: the nodes' free memory isn't known, or can't be held.
    pub fn leave(free: usize, nodes: &[u32]) -> Result<Self, String> {
        let root = Path::new("/");
        let mut held = Vec::new();
        let mut wanted = free_bytes(root, nodes)?.saturating_sub(free);
        for &node in nodes {
            if let Ok((set, taken)) = tiering::hold(root, node, wanted) {
                held.push(set);
                wanted -= taken.min(wanted);
            }
        }
        let limit = free_bytes(root, nodes)?.saturating_sub(free) / MAX_SLOT * MAX_SLOT;
        let mut config = ArenasConfig::two_tiers(limit, 0);
        config.tiers = vec![TierConfig {
            limit,
            nodes: nodes.to_vec(),
        }];
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        // A node that has less after all (the kernel keeps some of what it calls free to itself)
        // would get this process killed for what is bound to it; unbound, it comes from elsewhere.
        let unbound = arenas.unbind();
        unbound.map_err(|error| format!("fast memory can't be held: {error}"))?;
        // Slots are never given back: they are gone with the arenas.
        while arenas.allocate(TierId::FAST, MAX_SLOT).is_ok() {}
        let locked = arenas.lock(TierId::FAST);
        locked.map_err(|error| format!("{limit} bytes of fast memory can't be held: {error}"))?;
        Ok(MemoryHog {
            _held: held,
            _arenas: arenas,
        })
    }
}

fn free_bytes(root: &Path, nodes: &[u32]) -> Result<usize, String> {
    let topology = Topology::discover(root).map_err(|error| error.to_string())?;
    let of = topology
        .nodes()
        .iter()
        .filter(|node| nodes.contains(&node.id));
    Ok(of.map(|node| node.free_bytes as usize).sum())
}
