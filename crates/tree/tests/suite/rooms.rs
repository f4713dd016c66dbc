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

/// Fast memory only.
pub fn one(bytes: usize) -> Arenas {
    let mut config = ArenasConfig::one_tier(bytes);
    config.chunk_bytes = CHUNK;
    config.huge_pages = false;
    Arenas::new(&config).unwrap()
}
