//! What arenas are made of, and why they could not be made or are full.

use std::fmt;
use std::io;

use crate::TierId;

/// How to make an [`Arenas`](super::Arenas).
#[derive(Clone, Debug)]
pub struct ArenasConfig {
    /// The tiers, fastest first; at least one.
    pub tiers: Vec<TierConfig>,
    /// The most bytes committed at once: a power of two from a page to 1 GiB. 2 MiB unless tests
    /// want less. Slots that are larger than this still get the pages they need.
    pub chunk_bytes: usize,
    /// Whether to ask the kernel for 2 MiB pages, for chunks of `chunk_bytes` if these are at least
    /// that large.
    pub huge_pages: bool,
}

/// One tier's share of an [`ArenasConfig`].
#[derive(Clone, Debug)]
pub struct TierConfig {
    /// The most bytes to commit.
    pub limit: usize,
    /// The NUMA nodes to take memory from; empty: wherever the kernel likes.
    pub nodes: Vec<u32>,
}

impl ArenasConfig {
    /// Fast and slow memory of this many bytes, bound to no NUMA node.
    pub fn two_tiers(fast: usize, slow: usize) -> Self {
        let tier = |limit| TierConfig {
            limit,
            nodes: Vec::new(),
        };
        ArenasConfig {
            tiers: vec![tier(fast), tier(slow)],
            chunk_bytes: 2 << 20,
            huge_pages: true,
        }
    }

    /// Fast memory only.
    pub fn one_tier(bytes: usize) -> Self {
        let mut config = Self::two_tiers(bytes, 0);
        config.tiers.truncate(1);
        config
    }
}

/// A tier is full: its budget is used up, or the machine has no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Which tier.
    pub tier: TierId,
    /// Its limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tier {} is full: its limit is {} bytes",
            self.tier.0, self.limit
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// Why arenas could not be made.
#[derive(Debug)]
pub enum ArenasError {
    /// The address range could not be reserved.
    Reserve(usize, io::Error),
    /// A tier could not be bound to its NUMA nodes.
    Bind(TierId, Vec<u32>, io::Error),
    /// A table beside the arenas does not fit into fast memory: its bytes, and the fast limit.
    Table(usize, usize),
}

impl fmt::Display for ArenasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArenasError::Reserve(bytes, error) => {
                write!(f, "can't reserve {bytes} bytes of addresses: {error}")
            }
            ArenasError::Bind(tier, nodes, error) => {
                write!(
                    f,
                    "can't bind tier {} to NUMA nodes {nodes:?}: {error}",
                    tier.0
                )
            }
            ArenasError::Table(bytes, limit) => write!(
                f,
                "the heat table of {bytes} bytes does not fit into the fast budget of {limit} \
                 bytes: raise the budget or lower the slow limit"
            ),
        }
    }
}

impl std::error::Error for ArenasError {}
