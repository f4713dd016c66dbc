//! Configuration of arenas, and their errors.

use std::fmt;
use std::io;

use crate::TierId;
use crate::topology::NodeList;

/// The [limit](TierConfig::limit) of a tier that may use all memory of the machine.
pub const NO_LIMIT: usize = usize::MAX;

/// How to make an [`Arenas`](super::Arenas).
#[derive(Clone, Debug)]
pub struct ArenasConfig {
    /// The tiers, fastest first; at least one.
    pub tiers: Vec<TierConfig>,
    /// The most bytes committed at once: a power of two from a page to 1 GiB. 2 MiB by default.
    /// A larger slot still gets the pages that it needs.
    pub chunk_bytes: usize,
    /// Whether chunks of `chunk_bytes` use 2 MiB pages, if they are that large.
    pub huge_pages: bool,
    /// The most bytes of addresses of all tiers together: the reach of the tree's links. Tiers
    /// whose limits exceed it share it.
    pub reach: usize,
}

/// One tier's share of an [`ArenasConfig`].
#[derive(Clone, Debug)]
pub struct TierConfig {
    /// The most bytes to commit, or [`NO_LIMIT`]. Memory is committed when needed.
    pub limit: usize,
    /// The most bytes that the limit can be raised to. Addresses are reserved for these, if there
    /// are enough. A value below the limit has no effect.
    pub most: usize,
    /// The NUMA nodes to bind the memory to; empty: not bound.
    pub nodes: Vec<u32>,
}

impl TierConfig {
    /// A tier of this limit, which can't be raised, on these NUMA nodes.
    pub fn new(limit: usize, nodes: Vec<u32>) -> Self {
        TierConfig {
            limit,
            most: limit,
            nodes,
        }
    }
}

impl ArenasConfig {
    /// Fast and slow memory of at most this many bytes, bound to no NUMA node.
    pub fn two_tiers(fast: usize, slow: usize) -> Self {
        let tier = |limit| TierConfig::new(limit, Vec::new());
        ArenasConfig {
            tiers: vec![tier(fast), tier(slow)],
            chunk_bytes: 2 << 20,
            huge_pages: true,
            reach: usize::MAX,
        }
    }

    /// Fast memory only.
    pub fn one_tier(bytes: usize) -> Self {
        let mut config = Self::two_tiers(bytes, 0);
        config.tiers.truncate(1);
        config
    }

    /// One tier without a limit.
    pub fn growing() -> Self {
        Self::one_tier(NO_LIMIT)
    }

    /// Whether a tier takes all addresses that it can get.
    pub(super) fn is_unlimited(&self) -> bool {
        self.tiers
            .iter()
            .any(|tier| tier.limit.max(tier.most) == NO_LIMIT)
    }
}

/// A tier is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Which tier.
    pub tier: TierId,
    /// The resource that it ran out of.
    pub of: Limit,
    /// The bytes that it has of that resource.
    pub limit: usize,
}

/// The resource that a full tier ran out of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Its budget.
    Budget,
    /// The addresses reserved for it, or within reach of the tree's links.
    Addresses,
    /// The machine's memory.
    Machine,
}

impl OutOfMemory {
    /// The error in a line, with the tier called `memory`.
    pub fn line(&self, memory: &str) -> String {
        let bytes = self.limit;
        match self.of {
            Limit::Budget => format!("{memory} is full: its limit is {bytes} bytes"),
            Limit::Addresses => format!("{memory} is full: it has {bytes} bytes of addresses"),
            Limit::Machine => {
                format!("{memory} is full: it has {bytes} bytes, and the machine no more for it")
            }
        }
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(&format!("tier {}", self.tier.0)))
    }
}

impl std::error::Error for OutOfMemory {}

/// Why arenas, or tables beside them, could not be made.
#[derive(Debug)]
pub enum ArenasError {
    /// The address range could not be reserved.
    Reserve(usize, io::Error),
    /// A tier could not be bound to its NUMA nodes.
    Bind(TierId, Vec<u32>, io::Error),
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
                    "can't bind tier {} to NUMA nodes {}: {error}",
                    tier.0,
                    nodes.iter().copied().collect::<NodeList>()
                )
            }
        }
    }
}

impl std::error::Error for ArenasError {}
