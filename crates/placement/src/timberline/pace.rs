//! The sampling interval, the length of the worker's rounds, and when to cool.
//!
//! Samples are dense while heat is little known: the interval grows in proportion to the samples
//! for each fast leaf, up to one access in 64. When the fraction of accesses to slow leaves jumps,
//! the hot set has moved: most heat is out of date, samples are dense again, and rounds are short.
//! So a stable hot set costs next to nothing, and a new one is found within a fraction of a second.

use std::time::Duration;

use crate::MAX_SAMPLE_INTERVAL;

/// The worker's round while placement is in motion.
pub const BRISK: Duration = Duration::from_millis(20);
/// The longest round at rest.
const CALM: Duration = Duration::from_millis(200);
/// Fewer samples than this are not judged.
const FEW: u64 = 64;
/// After a jump, samples before it count one part in this many; heat is halved accordingly.
const KEPT: u64 = 16;

#[derive(Debug)]
pub struct Pace {
    densest: u32,
    sparsest: u32,
    /// Samples for each fast leaf that let one more access pass between two samples.
    thinning: u64,
    interval: u32,
    round: Duration,
    /// Samples that the heat rests on.
    known: u64,
    /// The fraction of samples of slow leaves, smoothed.
    usual: f64,
    /// Samples not judged yet.
    samples: u64,
    slow: u64,
    exchanged: usize,
}

impl Pace {
    /// Without samples yet. The interval stays between these two, which are limited to 1 to
    /// [`MAX_SAMPLE_INTERVAL`], and grows by one for every `thinning` samples for each fast leaf.
    pub fn new(densest: u32, sparsest: u32, thinning: u64) -> Self {
        let densest = densest.clamp(1, MAX_SAMPLE_INTERVAL);
        Pace {
            densest,
            sparsest: sparsest.clamp(densest, MAX_SAMPLE_INTERVAL),
            thinning,
            interval: densest,
            round: BRISK,
            known: 0,
            usual: 1.0,
            samples: 0,
            slow: 0,
            exchanged: 0,
        }
    }

    /// Takes in a round's samples, how many of them were slow, and how many of `fast` leaves just
    /// changed places. Returns how often to halve all heat because the hot set has moved.
    pub fn observe(&mut self, samples: u64, slow: u64, exchanged: usize, fast: usize) -> u32 {
        self.samples += samples;
        self.slow += slow;
        self.exchanged += exchanged;
        if self.samples < FEW {
            self.round = (self.round * 2).min(CALM);
            return 0;
        }
        let share = self.slow as f64 / self.samples as f64;
        let jumped = share > self.usual * 1.25 + 0.05;
        let moving = self.exchanged * 200 > fast;
        self.known += self.samples;
        self.usual += (share - self.usual) * if jumped { 1.0 } else { 0.2 };
        (self.samples, self.slow, self.exchanged) = (0, 0, 0);
        if jumped {
            self.known /= KEPT;
        }
        let thinned = self.known / (self.thinning * fast.max(1) as u64);
        let within = thinned.clamp(self.densest.into(), self.sparsest.into());
        self.interval = within as u32;
        self.round = if jumped || moving {
            BRISK
        } else {
            (self.round * 2).min(CALM)
        };
        if jumped { KEPT.ilog2() } else { 0 }
    }

    /// Accesses between two samples.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// Whether leaves change places, or the hot set has just moved.
    pub fn is_in_motion(&self) -> bool {
        self.round == BRISK
    }

    /// The time until the worker's next round.
    pub fn round(&self) -> Duration {
        self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_rest() -> Pace {
        let mut pace = Pace::new(4, 64, 2);
        for _ in 0..200 {
            assert_eq!(pace.observe(1000, 100, 0, 1000), 0);
        }
        pace
    }

    #[test]
    fn samples_thin_out_as_more_is_known() {
        let mut pace = Pace::new(4, 64, 2);
        let mut intervals = Vec::new();
        for _ in 0..160 {
            pace.observe(1000, 500, 0, 1000);
            intervals.push(pace.interval());
        }
        assert_eq!((intervals[0], intervals[19], intervals[159]), (4, 10, 64));
        assert!(intervals.is_sorted());
        assert_eq!(pace.round(), CALM);
    }

    #[test]
    fn a_jump_of_slow_accesses_wakes_it_at_once() {
        let mut pace = at_rest();
        assert_eq!(pace.observe(1000, 160, 0, 1000), 0, "noise is not a jump");
        assert_eq!(
            pace.observe(1000, 900, 0, 1000),
            4,
            "two to the fourth is forgotten"
        );
        assert_eq!((pace.interval(), pace.round()), (6, BRISK));
        assert_eq!(pace.observe(1000, 900, 0, 1000), 0, "one jump is one jump");
    }

    #[test]
    fn it_looks_often_while_leaves_change_places() {
        let mut pace = at_rest();
        pace.observe(1000, 100, 50, 1000);
        assert_eq!(pace.round(), BRISK);
    }

    #[test]
    fn a_few_samples_prove_nothing() {
        let mut pace = at_rest();
        assert_eq!(pace.observe(10, 10, 0, 1000), 0);
        assert_eq!(pace.interval(), 64);
    }
}
