//! What memory costs on this machine, before anything is emulated: ratios are taken of this.
//!
//! Costs grow with the footprint (TLB, page tables, the real cache), and a visit to emulated memory
//! also takes the emulator's own time, fast or slow. A profile's ratio holds for what a visit takes
//! in all, so tier 0 is measured through the emulator, at the footprint of what runs on it.

use std::fmt;

use super::chase::{self, Chase, Spread};
use super::{Emulated, Profile};
use crate::{Arenas, ArenasConfig, ArenasError, OutOfMemory, TierId};

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

/// The footprint of [`Base::measure`]: several times any last-level cache a thread has to itself.
const BYTES: usize = 256 << 20;

/// The footprint from which the cost of further lines is measured at most; it hardly grows.
const LINES_BYTES: usize = 64 << 20;

/// Lines of a visit from which the cost of further lines is measured: those of a 1 KiB node.
const LINES: usize = 16;

const ROUNDS: usize = 5;
const STEPS: u64 = 20_000;

impl Base {
    /// Measures tier 0 at a footprint of 256 MiB: see [`Calibration::measure`].
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn measure() -> Result<Base, MeasureError> {
        let profile = Profile::free();
        Base::at(&profile.memory(BYTES, Base::default())?, BYTES)
    }

    /// Measures tier 0 of `memory`, in turns with tier 1, so that both share the real caches.
    fn at(memory: &Emulated, bytes: usize) -> Result<Base, MeasureError> {
        let latency_ns = race(memory, bytes, 1)?[0].median;
        let visit_ns = race(memory, bytes.min(LINES_BYTES), LINES)?[0].median;
        let near_ns = match bytes > LINES_BYTES {
            true => race(memory, LINES_BYTES, 1)?[0].median,
            false => latency_ns,
        };
        let line_ns = (visit_ns - near_ns).max(0.0) / (LINES - 1) as f64;
        Ok(Base {
            latency_ns,
            line_ns,
        })
    }
}

/// Chases through as many bytes of each of two tiers, in visits of this many lines.
fn race(memory: &Emulated, bytes: usize, lines: usize) -> Result<Vec<Spread>, MeasureError> {
    let chase = |tier| Chase::new(memory, tier, bytes, lines, 1);
    let mut chases = [chase(TierId::FAST)?, chase(TierId::SLOW)?];
    Ok(chase::race(&mut chases, ROUNDS, STEPS))
}

impl Profile {
    /// Emulated memory with room for a chase in each of two tiers.
    fn memory(&self, bytes: usize, base: Base) -> Result<Emulated, MeasureError> {
        let mut config = ArenasConfig::two_tiers(bytes, bytes);
        for tier in &mut config.tiers {
            tier.limit += 2 * config.chunk_bytes;
        }
        let arenas = Arenas::new(&config).map_err(MeasureError::Arenas)?;
        Ok(Emulated::new(arenas, self.clone(), base))
    }
}

/// The costs of tier 0 at a footprint, and the ratio that is achieved with them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Bytes that were chased through in each of two tiers.
    pub bytes: usize,
    /// The costs of tier 0.
    pub base: Base,
    /// The time of a step in tier 0, through the emulator, in nanoseconds.
    pub fast: Spread,
    /// The time of a step in tier 1.
    pub slow: Spread,
    /// Tier 1's latency over tier 0's, as the profile has it.
    pub ratio_of_profile: f64,
}

impl Calibration {
    /// Measures tier 0 by chasing pointers, one line a step and sixteen lines a step, unless its
    /// costs are `given`; and then what a step takes in either tier of the profile. Medians of
    /// several rounds. Takes a tenth of a second for a footprint of 1 MiB, and some seconds for one
    /// of 1 GiB.
    ///
    /// # Errors
    /// There is not twice as much memory.
    pub fn measure(
        profile: &Profile,
        bytes: usize,
        given: Option<Base>,
    ) -> Result<Calibration, MeasureError> {
        let mut memory = profile.memory(bytes, given.unwrap_or_default())?;
        let base = match given {
            Some(base) => base,
            None => Base::at(&memory, bytes)?,
        };
        memory.set_base(base);
        let times = race(&memory, bytes, 1)?;
        let extra_ns = memory.extra(TierId::SLOW).latency_ps as f64 / 1000.0;
        Ok(Calibration {
            bytes,
            base,
            fast: times[0],
            slow: times[1],
            ratio_of_profile: (base.latency_ns + extra_ns) / base.latency_ns,
        })
    }

    /// What a step in tier 1 takes over one in tier 0.
    pub fn ratio(&self) -> f64 {
        self.slow.median / self.fast.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_costs_are_taken_and_others_measured() {
        let profile = Profile::parse("cxl").unwrap();
        let given = Base::default();
        let taken = Calibration::measure(&profile, 1 << 20, Some(given)).unwrap();
        assert_eq!((taken.base, taken.bytes), (given, 1 << 20));
        assert!((taken.ratio_of_profile - 2.1).abs() < 1e-9);
        assert!(taken.ratio() > 0.0);
        let measured = Calibration::measure(&profile, 1 << 20, None).unwrap();
        assert!(measured.base.latency_ns > 0.0 && measured.base.line_ns >= 0.0);
        let ratio = measured.ratio_of_profile;
        assert!(
            (ratio - 2.1).abs() < 0.01,
            "of the base that was measured: {ratio}"
        );
    }
}
