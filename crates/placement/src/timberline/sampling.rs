//! Which accesses are samples, and the heat of a sample.
//!
//! An access heats its leaf by [`SAMPLE`] ÷ interval on average, in every tier. Leaves of tiers 0
//! and 1 get it as one sample in `interval` accesses. Below the second boundary the leaves that
//! change places are accessed many times less often, and waiting for them takes many times longer
//! than a sample. So where there are more than two tiers, leaves of tier 2 and slower ones are
//! sampled up to [`DENSER`] times as densely, each time with as much less heat.
//!
//! Threads count accesses without knowing the leaf's tier. So they report accesses at the distance
//! that the slow tiers ask for, and a draw decides which reports of others are samples.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use timberline_tier::TierId;

use super::heat::SAMPLE;
use crate::{MAX_SAMPLE_INTERVAL, draws};

/// Leaves of tier 2 and slower ones are sampled this many times as densely: as fine as heat is.
const DENSER: u32 = SAMPLE as u32;
/// The first tier that is sampled more densely.
const SLOW: TierId = TierId(2);

/// The rule at one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampling {
    /// Accesses to one leaf of tier 0 or 1 for each sample of it.
    interval: u32,
    /// Accesses of a thread from one report to the next, on average.
    report: u32,
}

/// Numbers one thread's reports, or those of a stripe's threads, which may lose one.
#[derive(Default)]
pub struct Draws(AtomicU64);

impl Draws {
    /// The next draw of 0 to 2^32 - 1.
    fn next(&self) -> u64 {
        let nth = self.0.load(Relaxed) + 1;
        self.0.store(nth, Relaxed);
        draws::mix(nth) >> 32
    }
}

impl Sampling {
    /// The rule for leaves in so many tiers, with an interval from 1 on.
    pub fn new(interval: u32, tiers: usize) -> Self {
        let denser = if tiers > SLOW.index() { DENSER } else { 1 };
        Sampling {
            interval,
            report: interval.div_ceil(denser),
        }
    }

    /// The heat of the reported access to a leaf of this tier; 0: it is no sample.
    pub fn heat(&self, tier: TierId, draws: &Draws) -> u16 {
        if self.report == self.interval {
            return SAMPLE;
        }
        let draw = (u64::from(self.interval) * draws.next()) >> 32;
        match tier < SLOW {
            true if draw < u64::from(self.report) => SAMPLE,
            true => 0,
            // Rounded up or down, so that it is right on average.
            false => ((u64::from(self.report * DENSER) + draw) / u64::from(self.interval)) as u16,
        }
    }

    /// The heat of one sample in the slow tiers, about; at least 1.
    pub fn finest(&self) -> u16 {
        (self.report * DENSER / self.interval).max(1) as u16
    }

    /// Accesses to the next report: the distance on average, from half of it to one and a half. A
    /// fixed one could miss half of what a thread does by turns, such as reading a record, changing
    /// it, and reading the next.
    pub fn pass(&self, draws: &Draws) -> u32 {
        let spread = ((u64::from(self.report) + 1) * draws.next()) >> 32;
        (self.report / 2 + spread as u32).clamp(1, MAX_SAMPLE_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_heats_its_leaf_as_much_in_every_tier() {
        for tiers in 1..=4 {
            for interval in [1, 2, 3, 5, 8, 9, 13, 40, 64, MAX_SAMPLE_INTERVAL] {
                let (sampling, draws) = (Sampling::new(interval, tiers), Draws::default());
                for tier in (0..tiers).map(|tier| TierId(tier as u8)) {
                    let reports = 200 * interval;
                    let heats = (0..reports).map(|_| u64::from(sampling.heat(tier, &draws)));
                    let heat = heats.sum::<u64>() as f64 / f64::from(reports);
                    let each = heat / f64::from(sampling.report);
                    let expected = f64::from(SAMPLE) / f64::from(interval);
                    assert!(
                        (each / expected - 1.0).abs() < 0.25,
                        "{each} for {expected}: {sampling:?}, {tier:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_third_tier_is_sampled_more_densely() {
        let seen = |interval, tiers, tier| {
            let (sampling, draws) = (Sampling::new(interval, tiers), Draws::default());
            let reports = 80_000 / sampling.report;
            let is_sample = |_: &u32| sampling.heat(TierId(tier), &draws) > 0;
            (0..reports).filter(is_sample).count() as u32
        };
        assert_eq!((seen(1, 3, 0), seen(1, 3, 2)), (80_000, 80_000));
        assert_eq!((seen(64, 2, 0), seen(64, 2, 1)), (1250, 1250));
        assert_eq!(seen(64, 3, 2), 10_000);
        assert!((1000..1500).contains(&seen(64, 3, 1)));
        assert_eq!(seen(8, 3, 2), 80_000);
        let finest = [1, 2, 4, 8, 9, 64].map(|interval| Sampling::new(interval, 3).finest());
        assert_eq!(finest, [8, 4, 2, 1, 1, 1]);
        assert_eq!(Sampling::new(64, 2).finest(), SAMPLE);
    }
}
