//! The heat histogram of the leaves, and the thresholds computed from it (SIDLE §4.2.3).

use std::sync::atomic::{AtomicU64, Ordering};

/// Bins of the histogram: one for each bit of a leaf's heat.
pub const BINS: usize = u16::BITS as usize;

/// Leaves by heat, on a logarithmic scale: bin i counts heats in `[2^i, 2^(i + 1))`, the first one
/// untouched leaves, too.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Histogram([u64; BINS]);

impl Histogram {
    pub fn add(&mut self, heat: u16) {
        self.0[(heat | 1).ilog2() as usize] += 1;
    }

    pub fn bins(&self) -> [u64; BINS] {
        self.0
    }

    /// Follows a halving of every leaf's heat.
    pub fn cool(&mut self) {
        let coolest = self.0[0];
        self.0.rotate_left(1);
        self.0[BINS - 1] = 0;
        self.0[0] += coolest;
    }

    /// The thresholds at which `p_hot` percent of leaves are hot and `p_cold` percent are cold, as
    /// far as bins allow: never more than that.
    pub fn thresholds(&self, p_hot: u8, p_cold: u8) -> Thresholds {
        let total: u64 = self.0.iter().sum();
        if total == 0 {
            return Thresholds::NONE;
        }
        let exceeds = |leaves: u64, percent: u8| leaves * 100 > total * u64::from(percent);

        let mut hotter = 0;
        let crossing = (0..BINS).rev().find(|&bin| {
            hotter += self.0[bin];
            exceeds(hotter, p_hot)
        });
        let t_hot = match crossing {
            None => 0,
            // The last bin has no upper bound that a heat could exceed.
            Some(bin) if bin == BINS - 1 && p_hot > 0 => 1 << bin,
            Some(bin) => 2 << bin,
        };

        let mut cooler = 0;
        let crossing = (0..BINS).find(|&bin| {
            cooler += self.0[bin];
            exceeds(cooler, p_cold)
        });
        let t_cold = match p_cold {
            0 => 0,
            _ => 1 << crossing.unwrap_or(BINS),
        };
        Thresholds {
            t_hot,
            t_cold: t_hot.min(t_cold),
        }
    }
}

/// Where heat begins to be hot and ends to be cold. No heat is both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    pub t_hot: u32,
    pub t_cold: u32,
}

impl Thresholds {
    /// Nothing is hot, nothing is cold.
    pub const NONE: Self = Self {
        t_hot: 1 << BINS,
        t_cold: 0,
    };

    pub fn is_hot(self, heat: u16) -> bool {
        u32::from(heat) > self.t_hot
    }

    pub fn is_cold(self, heat: u16) -> bool {
        u32::from(heat) < self.t_cold
    }
}

/// The thresholds as all workers see them: both in one word.
pub struct SharedThresholds(AtomicU64);

impl Default for SharedThresholds {
    fn default() -> Self {
        let shared = Self(AtomicU64::new(0));
        shared.store(Thresholds::NONE);
        shared
    }
}

impl SharedThresholds {
    pub fn load(&self) -> Thresholds {
        let word = self.0.load(Ordering::Relaxed);
        Thresholds {
            t_hot: (word >> 32) as u32,
            t_cold: word as u32,
        }
    }

    pub fn store(&self, Thresholds { t_hot, t_cold }: Thresholds) {
        let word = u64::from(t_hot) << 32 | u64::from(t_cold);
        self.0.store(word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 leaves: 60 untouched, 20 in `[2, 4)`, 10 in `[8, 16)`, 6 in `[64, 128)`, 4 in `[512,
    /// 1024)`.
    fn hundred() -> Histogram {
        let mut histogram = Histogram::default();
        for (leaves, heat) in [(60, 0), (20, 3), (10, 8), (6, 100), (4, 1023)] {
            (0..leaves).for_each(|_| histogram.add(heat));
        }
        histogram
    }

    fn both(p_hot: u8, p_cold: u8) -> (u32, u32) {
        let Thresholds { t_hot, t_cold } = hundred().thresholds(p_hot, p_cold);
        (t_hot, t_cold)
    }

    #[test]
    fn bins_are_powers_of_two() {
        let mut histogram = Histogram::default();
        for heat in [0, 1, 2, 3, 4, 7, 8, 255, 256, 32767, 32768, 65535] {
            histogram.add(heat);
        }
        let mut expected = [0; BINS];
        for (bin, leaves) in [
            (0, 2),
            (1, 2),
            (2, 2),
            (3, 1),
            (7, 1),
            (8, 1),
            (14, 1),
            (15, 2),
        ] {
            expected[bin] = leaves;
        }
        assert_eq!(histogram.bins(), expected);
    }

    #[test]
    fn thresholds_as_computed_by_hand() {
        // From the right, 4 % lie in [512, 1024) and 10 % from [64, 128) on.
        // From the left, 60 % are below 2, 80 % below 4 and 8, 90 % below 16 to 64.
        assert_eq!(both(3, 80), (1024, 8), "4 % exceed 3 %");
        assert_eq!(both(4, 80), (128, 8), "4 % do not exceed 4 %; 10 % do");
        assert_eq!(both(9, 80), (128, 8));
        assert_eq!(both(10, 79), (16, 2), "80 % are too many");
        assert_eq!(both(10, 60), (16, 2));
        assert_eq!(both(5, 59), (128, 1), "only untouched leaves");
        assert_eq!(both(5, 90), (128, 64));
    }

    #[test]
    fn shares_at_their_ends() {
        assert_eq!(both(0, 100), (1024, 1024), "none hot, all cold");
        assert_eq!(both(100, 0), (0, 0), "all touched ones hot, none cold");
        assert_eq!(both(100, 100), (0, 0), "hot comes first");
        assert_eq!(Histogram::default().thresholds(50, 50), Thresholds::NONE);
    }

    #[test]
    fn saturated_leaves_can_be_hot() {
        let mut histogram = Histogram::default();
        (0..10).for_each(|_| histogram.add(u16::MAX));
        let some = histogram.thresholds(5, 50);
        assert!(some.is_hot(u16::MAX));
        let none = histogram.thresholds(0, 100);
        assert!(!none.is_hot(u16::MAX) && none.is_cold(u16::MAX));
    }

    #[test]
    fn no_heat_is_hot_and_cold() {
        for p_hot in 0..=100 {
            for p_cold in 0..=100 {
                let thresholds = hundred().thresholds(p_hot, p_cold);
                assert!(thresholds.t_cold <= thresholds.t_hot);
            }
        }
    }

    #[test]
    fn cooling_is_a_shift() {
        let mut cooled = hundred();
        cooled.cool();
        let mut expected = Histogram::default();
        for (leaves, heat) in [(60, 0), (20, 1), (10, 4), (6, 50), (4, 511)] {
            (0..leaves).for_each(|_| expected.add(heat));
        }
        assert_eq!(cooled, expected);
    }

    #[test]
    fn shared_thresholds_come_back_as_they_went_in() {
        let shared = SharedThresholds::default();
        assert_eq!(shared.load(), Thresholds::NONE);
        let thresholds = Thresholds {
            t_hot: 1 << 16,
            t_cold: 3,
        };
        shared.store(thresholds);
        assert_eq!(shared.load(), thresholds);
    }
}
