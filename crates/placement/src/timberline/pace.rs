//! How densely to sample, how often to look, and when to cool.
//!
//! While leaves change places, or the share of accesses that go slow jumps, samples are dense and
//! the worker looks often: a hot region that moves is found within a fraction of a second. At rest samples
//! thin out by half a round, down to one access in 64, and so does the worker's share of the CPU.

use std::time::Duration;

/// The worker's round while placement is in motion.
const BRISK: Duration = Duration::from_millis(20);
/// The longest round at rest.
const CALM: Duration = Duration::from_millis(200);
/// Too few samples to judge by.
const FEW: u64 = 64;

/// See the [module's text](self).
#[derive(Debug)]
pub struct Pace {
    densest: u32,
    sparsest: u32,
    interval: u32,
    round: Duration,
    /// The share of samples that were slow, smoothed.
    usual: f64,
    /// Samples not judged yet.
    samples: u64,
    slow: u64,
    promoted: usize,
}

impl Pace {
    /// In motion, between these sampling intervals.
    pub fn new(densest: u32, sparsest: u32) -> Self {
        Pace {
            densest,
            sparsest,
            interval: densest,
            round: BRISK,
            usual: 1.0,
            samples: 0,
            slow: 0,
            promoted: 0,
        }
    }

    /// Takes in a round's samples, how many of them were slow, and how many of `fast` leaves were
    /// just promoted.
    pub fn observe(&mut self, samples: u64, slow: u64, promoted: usize, fast: usize) {
        self.samples += samples;
        self.slow += slow;
        self.promoted += promoted;
        if self.samples < FEW {
            self.round = (self.round * 2).min(CALM);
            return;
        }
        let share = self.slow as f64 / self.samples as f64;
        let jumped = share > self.usual * 1.25 + 0.05;
        let moving = self.promoted * 200 > fast;
        if jumped {
            self.interval = self.densest;
        } else if moving {
            self.interval = (self.interval / 2).max(self.densest);
        } else {
            self.interval = (self.interval * 2).min(self.sparsest);
        }
        self.round = if jumped || moving {
            BRISK
        } else {
            (self.round * 2).min(CALM)
        };
        self.usual += (share - self.usual) * 0.2;
        (self.samples, self.slow, self.promoted) = (0, 0, 0);
    }

    /// Accesses between two samples.
    pub fn interval(&self) -> u32 {
        self.interval
    }

    /// Until the worker looks again.
    pub fn round(&self) -> Duration {
        self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_rest() -> Pace {
        let mut pace = Pace::new(4, 64);
        for _ in 0..40 {
            pace.observe(1000, 100, 0, 1000);
        }
        pace
    }

    #[test]
    fn it_calms_down_when_nothing_happens() {
        let pace = at_rest();
        assert_eq!((pace.interval(), pace.round()), (64, CALM));
    }

    #[test]
    fn a_jump_of_slow_accesses_wakes_it_at_once() {
        let mut pace = at_rest();
        pace.observe(1000, 160, 0, 1000);
        assert_eq!(pace.interval(), 64, "noise is not a jump");
        pace.observe(1000, 900, 0, 1000);
        assert_eq!((pace.interval(), pace.round()), (4, BRISK));
    }

    #[test]
    fn it_stays_awake_while_leaves_change_places() {
        let mut pace = at_rest();
        for _ in 0..5 {
            pace.observe(1000, 100, 50, 1000);
        }
        assert_eq!((pace.interval(), pace.round()), (4, BRISK));
    }

    #[test]
    fn a_few_samples_prove_nothing() {
        let mut pace = at_rest();
        pace.observe(10, 10, 0, 1000);
        assert_eq!(pace.interval(), 64);
    }
}
