//! A memory hog: takes fast memory away from the kernel, which has no notion of a budget.

use std::path::Path;

use timberline_tier::tiering::{self, Set};
use timberline_tier::topology::Topology;
use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, TierConfig, TierId};

/// Occupied memory, until dropped.
pub struct MemoryHog {
    /// Most of the memory, which nothing moves; none if this process may not use huge pages.
    _held: Vec<Set>,
    /// The rest, in small pages. Locked, so the kernel does not reclaim it; DAMON moves it
    /// nevertheless.
    _arenas: Arenas,
}

impl MemoryHog {
    /// Leaves `free` bytes free on NUMA `nodes`, for a map to use.
    ///
    /// # Errors
    /// One line: the nodes' free memory is unknown, or cannot be taken.
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
        config.tiers = vec![TierConfig::new(limit, nodes.to_vec())];
        let arenas = Arenas::new(&config).map_err(|error| error.to_string())?;
        // If a node has less (the kernel reserves some memory that it reports as free), bound
        // memory would get this process killed. Unbound memory comes from another node instead.
        let unbound = arenas.unbind();
        unbound.map_err(|error| format!("fast memory can't be held: {error}"))?;
        // Slots are never freed: they disappear with the arenas.
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
