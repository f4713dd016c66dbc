//! The histogram of pages by heat: 16 bins, each twice as hot as the one before.

/// How many bins there are.
pub const BINS: usize = 16;

/// Pages by the logarithm of their counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram([usize; BINS]);

/// The bin of a count: 0 for none, then 1 for 1 and 2, 2 for 3 to 6, and so on.
pub fn bin(count: u32) -> usize {
    ((count as u64 + 1).ilog2() as usize).min(BINS - 1)
}

/// The least count of a bin.
pub fn least(bin: usize) -> u32 {
    (1 << bin) - 1
}

impl Histogram {
    /// Counts pages of this hotness.
    pub fn add(&mut self, count: u32, pages: usize) {
        self.0[bin(count)] += pages;
    }

    /// The pages of each bin.
    pub fn pages(&self) -> Vec<u64> {
        self.0.iter().map(|&pages| pages as u64).collect()
    }

    /// The lowest bin, at least 1, from which on all pages fit into `room` together: pages without
    /// accesses are not hot. Also returns the number of these pages.
    pub fn threshold(&self, room: usize) -> (usize, usize) {
        let (mut threshold, mut pages) = (BINS, 0);
        while threshold > 1 && pages + self.0[threshold - 1] <= room {
            threshold -= 1;
            pages += self.0[threshold];
        }
        (threshold.min(BINS - 1), pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_double() {
        let counts = [0, 1, 2, 3, 6, 7, 14, 15, u32::MAX];
        assert_eq!(counts.map(bin), [0, 1, 1, 2, 2, 3, 3, 4, 15]);
        assert!((0..BINS).all(|it| bin(least(it)) == it));
    }

    #[test]
    fn the_threshold_is_as_low_as_fits() {
        let mut histogram = Histogram::default();
        for (count, pages) in [(0, 1000), (1, 50), (3, 30), (100, 10)] {
            histogram.add(count, pages);
        }
        assert_eq!(histogram.threshold(40), (2, 40));
        assert_eq!(histogram.threshold(39), (3, 10));
        assert_eq!(histogram.threshold(89), (2, 40));
        assert_eq!(
            histogram.threshold(5000),
            (1, 90),
            "not what is never accessed"
        );
        assert_eq!(histogram.threshold(5), (7, 0), "bin 6 does not fit");
    }
}
