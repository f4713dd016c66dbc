//! The cost of memory on this machine before emulation, which a profile's ratios multiply.
//!
//! Costs grow with the footprint (TLB, page tables, the real cache). An access to emulated memory
//! also takes the emulator's own time, fast or slow. A profile's ratio is of the whole time of an
//! access, so tier 0 is measured through the emulator, at the footprint of the map that will run.

use std::fmt;

use super::chase::{self, Chase, Paused, Spread};
use super::stream;
use super::{CacheSize, Emulated, Profile, set_thread_cache};
use crate::{Arenas, ArenasConfig, ArenasError, OutOfMemory, TierId};

/// The costs of tier 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Base {
    /// Latency of a dependent load, in nanoseconds.
    pub latency_ns: f64,
    /// Time of each further line loaded at the same time, in nanoseconds.
    pub line_ns: f64,
    /// Time of a line when all cores read at full speed, for all of them together, in nanoseconds:
    /// the inverse of the machine's bandwidth. 0 for no limit.
    pub shared_line_ns: f64,
}

/// The costs of a current server, for tests and where results must not depend on this machine.
impl Default for Base {
    fn default() -> Self {
        Base {
            latency_ns: 100.0,
            line_ns: 6.0,
            shared_line_ns: 3.0,
        }
    }
}

/// Why this machine's memory could not be measured.
#[derive(Debug)]
pub enum MeasureError {
    /// The address range could not be reserved.
    Arenas(ArenasError),
    /// There is not enough memory.
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

/// The footprint of [`Base::measure`]: several times the last-level cache that one thread can use.
const BYTES: usize = 256 << 20;

/// The largest footprint for measuring the cost of further lines, which hardly grows beyond it.
const LINES_BYTES: usize = 64 << 20;

/// Lines of an access that measures the cost of further lines: those of a 1 KiB node.
const LINES: usize = 16;

/// Many short rounds instead of few long ones: each gives a pair of figures under equal
/// disturbance.
const ROUNDS: usize = 25;
const TURNS: usize = 7;

/// The base is corrected until the ratio is this close to the profile's, and this many times at
/// most. Two corrections usually suffice; a busy machine needs some more.
const CLOSE: f64 = 0.01;
const MOST_CORRECTIONS: usize = 8;

impl Base {
    /// Measures tier 0 at a footprint of 256 MiB, as [`Calibration::measure`] does.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn measure() -> Result<Base, MeasureError> {
        let profile = Profile::free();
        let memory = profile.memory(BYTES, Base::default())?;
        let mut chases = [Chase::new(&memory, TierId::FAST, BYTES, 1, 1)?];
        let latency_ns = chase::race(&mut chases, ROUNDS, TURNS).of(0).median;
        drop(chases);
        Ok(Base {
            latency_ns,
            line_ns: line_ns(&memory, BYTES)?,
            shared_line_ns: stream::shared_line_ns(),
        })
    }
}

/// The time of each further line of an access to tier 0, in nanoseconds.
fn line_ns(memory: &Emulated, bytes: usize) -> Result<f64, MeasureError> {
    let chase = |lines| Chase::new(memory, TierId::FAST, bytes.min(LINES_BYTES), lines, 1);
    let raced = chase::race(&mut [chase(1)?, chase(LINES)?], ROUNDS, TURNS);
    let further = raced.paired(0, 1, |one, all| (all - one) / (LINES - 1) as f64);
    Ok(further.median.max(0.0))
}

/// Gives this thread a modelled cache that a chase through this many bytes misses at each step.
fn set_cache_beyond(bytes: usize) {
    let size = (bytes / 8 + 1).next_power_of_two() / 2;
    let usual = CacheSize::default();
    let size = CacheSize::new(size.min(usual.bytes()));
    set_thread_cache(size.unwrap_or(usual));
}

impl Profile {
    /// Emulated memory that holds a chase in each of two tiers.
    fn memory(&self, bytes: usize, base: Base) -> Result<Emulated, MeasureError> {
        let mut config = ArenasConfig::two_tiers(bytes.max(2 * bytes.min(LINES_BYTES)), bytes);
        for tier in &mut config.tiers {
            tier.limit += 2 * config.chunk_bytes;
        }
        let arenas = Arenas::new(&config).map_err(MeasureError::Arenas)?;
        Ok(Emulated::new(arenas, self.clone(), base))
    }
}

/// The costs of tier 0 at a footprint, and the ratio achieved with them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibration {
    /// Bytes of the chase in each of two tiers.
    pub bytes: usize,
    /// The costs of tier 0, which the profile multiplies. The latency is within a few percent of
    /// the time of a step in tier 0: it compensates for errors of spinning.
    pub base: Base,
    /// The time of a step in tier 0, through the emulator, in nanoseconds.
    pub fast: Spread,
    /// The time of a step in tier 1.
    pub slow: Spread,
    /// The ratio of these times, computed round by round.
    pub ratio: Spread,
    /// The ratio of the latencies in the profile.
    pub ratio_of_profile: f64,
}

impl Calibration {
    /// Measures tier 0 by chasing pointers, one line a step and sixteen lines a step. Then finds
    /// the latency with which a step in tier 1 takes the profile's multiple of a step in tier 0,
    /// and measures the ratio that it achieves. If costs are `given`, only the last is done.
    /// Results are medians of several rounds on the same pages. Takes a tenth of a second for a
    /// footprint of 1 MiB, and some seconds for 1 GiB. Leaves this thread with an empty modelled
    /// cache of the default size.
    ///
    /// # Errors
    /// There is less memory than twice the footprint.
    pub fn measure(
        profile: &Profile,
        bytes: usize,
        given: Option<Base>,
    ) -> Result<Calibration, MeasureError> {
        let mut base = given.unwrap_or_default();
        let mut memory = profile.memory(bytes, base)?;
        set_cache_beyond(bytes);
        if given.is_none() {
            base.line_ns = line_ns(&memory, bytes)?;
            base.shared_line_ns = stream::shared_line_ns();
            memory.set_base(base);
        }
        let latency = profile.slowness(TierId::SLOW).map(|slow| slow.latency);
        let latency = latency.expect("tier 1 is slow");
        let chase = |tier| Ok(Chase::new(&memory, tier, bytes, 1, 1)?.pause());
        let chases: Result<Vec<Paused>, MeasureError> = [TierId::FAST, TierId::SLOW]
            .map(chase)
            .into_iter()
            .collect();
        let mut chases = chases?;
        let mut race = |memory: &Emulated| {
            let paused = chases.drain(..);
            let mut resumed: Vec<_> = paused.map(|chase| chase.resume(memory)).collect();
            let raced = chase::race(&mut resumed, ROUNDS, TURNS);
            chases.extend(resumed.into_iter().map(Chase::pause));
            raced
        };
        let corrections = if given.is_none() { MOST_CORRECTIONS } else { 0 };
        for _ in 0..corrections {
            let raced = race(&memory);
            let achieved = raced.paired(0, 1, |fast, slow| slow / latency.total_ns(fast));
            if (achieved.median - 1.0).abs() < CLOSE {
                break;
            }
            let by = base.latency_ns;
            let corrected = raced.paired(0, 1, |fast, slow| latency.corrected(by, fast, slow));
            base.latency_ns = corrected.median.max(1.0);
            memory.set_base(base);
        }
        // The reported ratio is measured again: the round that ended the corrections was selected.
        let raced = race(&memory);
        set_thread_cache(CacheSize::default());
        let fast = raced.of(0);
        let relative_to = given.map_or(fast.median, |base| base.latency_ns);
        Ok(Calibration {
            bytes,
            base,
            fast,
            slow: raced.of(1),
            ratio: raced.paired(1, 0, |slow, fast| slow / fast),
            ratio_of_profile: latency.total_ns(relative_to) / relative_to,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::thread_counts;
    use super::*;

    #[test]
    fn given_costs_are_taken_and_others_measured() {
        let profile = Profile::parse("cxl").unwrap();
        let given = Base::default();
        let taken = Calibration::measure(&profile, 1 << 20, Some(given)).unwrap();
        assert_eq!((taken.base, taken.bytes), (given, 1 << 20));
        assert!((taken.ratio_of_profile - 2.1).abs() < 1e-9);
        assert!(taken.ratio.median > 0.0);
        let measured = Calibration::measure(&profile, 1 << 20, None).unwrap();
        assert!(measured.base.latency_ns > 0.0 && measured.base.line_ns >= 0.0);
        let ratio = measured.ratio_of_profile;
        assert!(
            (ratio - 2.1).abs() < 0.01,
            "of the base that was measured: {ratio}"
        );
        let of_free = Calibration::measure(&Profile::free(), 64 << 10, None).unwrap();
        assert_eq!(of_free.ratio_of_profile, 1.0);
    }

    /// Steps that hit the modelled cache took a footprint of 1 MiB for a memory of 14 ns.
    #[test]
    fn every_step_of_a_calibration_misses() {
        let profile = Profile::parse("cxl").unwrap();
        for bytes in [64 << 10, 1 << 20] {
            let before = thread_counts();
            Calibration::measure(&profile, bytes, Some(Base::default())).unwrap();
            let counts = thread_counts() - before;
            let missing = counts.fast + counts.slow;
            assert!(counts.cached < missing / 4, "{bytes}: {counts:?}");
        }
    }
}
