//! NURand: TPC-C's non-uniform random numbers (2.1.6).

use crate::workload::Rng;

/// A number in `from..=to` of NURand(A, from, to) with the constant C. A number is likely if it is
/// often the bitwise or of two random numbers: the more of its low bits are set, the likelier it
/// is.
#[derive(Clone, Copy, Debug)]
pub struct NuRand {
    a: u64,
    c: u64,
}

impl NuRand {
    /// Customer numbers.
    pub const CUSTOMER: NuRand = NuRand { a: 1023, c: 259 };
    pub const ITEM: NuRand = NuRand { a: 8191, c: 7911 };
    /// Last names of the loaded customers.
    pub const NAME_LOADED: NuRand = NuRand { a: 255, c: 157 };
    /// Last names in requests: their constant and that of the loaded customers differ by 65 to 119,
    /// but not by 96 or 112 (2.1.6.1).
    pub const NAME: NuRand = NuRand { a: 255, c: 223 };

    /// Draws a number.
    #[inline]
    pub fn draw(self, rng: &mut Rng, from: u64, to: u64) -> u64 {
        let range = to - from + 1;
        let preferred = rng.below(self.a + 1) | (from + rng.below(range));
        (preferred + self.c) % range + from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    /// Compares counts in `bins` with the probabilities from all pairs of the two random numbers.
    fn fits(nurand: NuRand, from: u64, to: u64, bins: usize) {
        let range = to - from + 1;
        let bin = |value: u64| ((value - from) * bins as u64 / range) as usize;
        let mut pairs = vec![0u64; bins];
        for one in 0..=nurand.a {
            for two in from..=to {
                pairs[bin(((one | two) + nurand.c) % range + from)] += 1;
            }
        }
        let all = ((nurand.a + 1) * range) as f64;
        let probabilities: Vec<f64> = pairs.iter().map(|&pairs| pairs as f64 / all).collect();
        let mut counts = vec![0; bins];
        let mut rng = Rng::new(7, 0);
        for _ in 0..200_000 {
            counts[bin(nurand.draw(&mut rng, from, to))] += 1;
        }
        chi_square::assert_fits(&counts, &probabilities);
    }

    #[test]
    fn numbers_are_as_likely_as_the_pairs_that_give_them() {
        fits(NuRand::CUSTOMER, 1, 3000, 100);
        fits(NuRand::NAME, 0, 999, 100);
        fits(NuRand::NAME_LOADED, 0, 999, 50);
        // All pairs are too many for a test: fewer items, with the same preference.
        fits(NuRand::ITEM, 1, 1000, 50);
    }
}
