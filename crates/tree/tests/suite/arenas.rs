//! Arenas with chunks so small that they come and go within a test.

use timberline_tier::{Arenas, ArenasConfig, TierConfig};

/// The smallest chunk.
pub const CHUNK: usize = 4 << 10;

/// More than a test fills.
pub const AMPLE: usize = 8 << 20;

/// Fast and slow memory of this many bytes.
pub fn two(fast: usize, slow: usize) -> Arenas {
    let mut config = ArenasConfig::two_tiers(fast, slow);
    config.chunk_bytes = CHUNK;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}

/// As [`two`], with as much more memory as a table of two bytes for each node-sized slot takes in
/// each tier.
pub fn two_and_table(fast: usize, slow: usize, node_bytes: usize) -> Arenas {
    let covered_by_a_page = CHUNK / 2 * node_bytes.min(1 << 10);
    let with_table = |bytes: usize| bytes + bytes.div_ceil(covered_by_a_page) * CHUNK;
    two(with_table(fast), with_table(slow))
}

/// Three tiers of this many bytes, fastest first.
pub fn three(bytes: [usize; 3]) -> Arenas {
    let tiers = bytes.map(|bytes| TierConfig::new(bytes, Vec::new()));
    let config = ArenasConfig {
        tiers: tiers.to_vec(),
        chunk_bytes: CHUNK,
        huge_pages: false,
        reach: usize::MAX,
    };
    Arenas::new(&config).unwrap()
}

/// Fast memory only.
pub fn one(bytes: usize) -> Arenas {
    let mut config = ArenasConfig::one_tier(bytes);
    config.chunk_bytes = CHUNK;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}
