//! What memory costs on this machine, before anything is emulated: ratios are taken of this.
//!
//! Costs grow with the footprint (TLB, page tables, the real cache), and a visit to emulated memory
//! also takes the emulator's own time, fast or slow. A profile's ratio holds for what a visit takes
//! in all, so tier 0 is measured through the emulator, at the footprint of what runs on it.

use std::fmt;

use super::chase::{self, Chase, Paused, Spread};
use super::stream;
use super::{CacheSize, Emulated, Profile, set_thread_cache};
use crate::{Arenas, ArenasConfig, ArenasError, OutOfMemory, TierId};

/// The costs of tier 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Base {
    /// From asking for a line of memory to having it, in nanoseconds.
    pub latency_ns: f64,
    /// For each further line loaded at the same time, in nanoseconds.
    pub line_ns: f64,
    /// A line where all cores read as fast as they can, all of them together, in nanoseconds: the
    /// inverse of the machine's bandwidth. 0 for no limit.
    pub shared_line_ns: f64,
}

/// A present-day server's, for tests and where nothing must depend on this machine.
impl Default for Base {
    fn default() -> Self {
        Base {
            latency_ns: 100.0,
            line_ns: 6.0,
            shared_line_ns: 3.0,
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

/// Many short rounds rather than few long ones: each is a pair of figures under equal disturbance.
const ROUNDS: usize = 25;
const TURNS: usize = 7;

/// The base is corrected until the ratio is this close to the profile's, at most so often. Two
/// corrections find it wherever they begin; a busy machine takes some more.
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

/// What each further line of a visit to tier 0 takes, in nanoseconds.
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
    /// Emulated memory with room for a chase in each of two tiers.
    fn memory(&self, bytes: usize, base: Base) -> Result<Emulated, MeasureError> {
        let mut config = ArenasConfig::two_tiers(bytes.max(2 * bytes.min(LINES_BYTES)), bytes);
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
    /// The costs of tier 0 that the profile's are multiples of. Its latency is within a few
    /// percent of the time of a step in tier 0: it makes up for what spinning adds or leaves out.
    pub base: Base,
    /// The time of a step in tier 0, through the emulator, in nanoseconds.
    pub fast: Spread,
    /// The time of a step in tier 1.
    pub slow: Spread,
    /// The latter over the former, round by round.
    pub ratio: Spread,
    /// Tier 1's latency over tier 0's, as the profile has it.
    pub ratio_of_profile: f64,
}

impl Calibration {
    /// Measures tier 0 by chasing pointers, one line a step and sixteen lines a step; then finds
    /// the latency on which the profile's charge makes a step in tier 1 take its multiple of one
    /// in tier 0; and then measures what that achieves. Costs that are `given` are taken as they
    /// are, and only the last is done. Medians of several rounds, on the same pages. Takes a tenth
    /// of a second for a footprint of 1 MiB, and some seconds for one of 1 GiB. Leaves this thread
    /// with an empty modelled cache of the usual size.
    ///
    /// # Errors
    /// There is not twice as much memory.
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
        // What is reported is measured afresh: the race that ended the corrections was chosen.
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
