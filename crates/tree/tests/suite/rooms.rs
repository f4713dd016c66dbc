//! Arenas with chunks so small that they come and go within a test.

use timberline_tier::{Arenas, ArenasConfig};

/// The smallest chunk.
pub const CHUNK: usize = 4 << 10;

/// Room for everything that a test does not want to be full.
pub const AMPLE: usize = 8 << 20;

/// Fast and slow memory of this many bytes.
pub fn two(fast: usize, slow: usize) -> Arenas {
    let mut config = ArenasConfig::two_tiers(fast, slow);
    config.chunk_bytes = CHUNK;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}

/// As [`two`], with so much more fast memory as a table of two bytes for each node-sized slot
/// takes.
pub fn two_and_table(fast: usize, slow: usize, node_bytes: usize) -> Arenas {
    let mut table = 0;
    loop {
        let arenas = two(fast + table, slow);
        let needed = (arenas.range().len() / node_bytes * 2).next_multiple_of(CHUNK);
        if needed <= table {
            return arenas;
        }
        table = needed;
    }
}

/// Fast memory only.
pub fn one(bytes: usize) -> Arenas {
    let mut config = ArenasConfig::one_tier(bytes);
    config.chunk_bytes = CHUNK;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}
