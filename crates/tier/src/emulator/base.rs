//! What memory costs on this machine, before anything is emulated: ratios are taken of this.

use std::fmt;

use super::chase::{self, Chase};
use crate::{Arenas, ArenasConfig, ArenasError, Native, OutOfMemory, TierId};

/// The costs of tier 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Base {
    /// From asking for a line of memory to having it, in nanoseconds.
    pub latency_ns: f64,
    /// For each further line loaded at the same time, in nanoseconds.
    pub line_ns: f64,
}

/// A present-day server's, for tests and where nothing must depend on this machine.
impl Default for Base {
    fn default() -> Self {
        Base {
            latency_ns: 100.0,
            line_ns: 6.0,
        }
    }
}

/// Why the memory of this machine could not be measured.
#[derive(Debug)]
pub enum MeasureError {
    /// There are no addresses for it.
    Arenas(ArenasError),
    /// There is no memory for it.
    Full(OutOfMemory),
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("can't measure this machine's memory: ")?;
        match self {
            MeasureError::Arenas(error) => error.fmt(f),
            MeasureError::Full(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MeasureError {}

impl From<OutOfMemory> for MeasureError {
    fn from(error: OutOfMemory) -> Self {
        MeasureError::Full(error)
    }
}

/// Bytes that are chased through: several times any last-level cache a thread has to itself.
const BYTES: usize = 256 << 20;

/// Lines of a visit from which the cost of further lines is measured: those of a 1 KiB node.
const LINES: usize = 16;

const ROUNDS: usize = 9;
const STEPS: u64 = 30_000;

impl Base {
    /// Measures this machine's memory by chasing pointers through 256 MiB of it, one line a step
    /// and sixteen lines a step; medians of several rounds. Takes about a second.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn measure() -> Result<Base, MeasureError> {
        let mut config = ArenasConfig::one_tier(BYTES);
        config.tiers[0].limit += 2 * config.chunk_bytes;
        let memory = Native(Arenas::new(&config).map_err(MeasureError::Arenas)?);
        let mut one = Chase::new(&memory, TierId::FAST, BYTES, 1, 1)?;
        let latency_ns = chase::race(std::slice::from_mut(&mut one), ROUNDS, STEPS)[0].median;
        drop(one);
        let mut many = Chase::new(&memory, TierId::FAST, BYTES, LINES, 1)?;
        let visit_ns = chase::race(std::slice::from_mut(&mut many), ROUNDS, STEPS)[0].median;
        let line_ns = (visit_ns - latency_ns).max(0.0) / (LINES - 1) as f64;
        Ok(Base {
            latency_ns,
            line_ns,
        })
    }
}
