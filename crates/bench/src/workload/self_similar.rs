//! The self-similar distribution, "80/20": a fraction 1 − h of the draws goes to the first h of the
//! records, and recursively within each part.
//!
//! From Gray, Sundaresan, Englert, Baclawski and Weinberger, "Quickly Generating Billion-Record
//! Synthetic Databases", SIGMOD 1994, §3.3. Taneja uses it with h from 0.2 down to 0.001.

use super::rng::Rng;

/// Self-similar ranks in `0..n`, 0 the most frequent.
#[derive(Clone, Debug)]
pub struct SelfSimilar {
    n: u64,
    exponent: f64,
}

impl SelfSimilar {
    /// Ranks below `n`, which is at least 1, with `h` in `(0, 0.5]`; 0.5 is uniform.
    pub fn new(n: u64, h: f64) -> SelfSimilar {
        debug_assert!(n > 0 && h > 0.0 && h <= 0.5);
        SelfSimilar {
            n,
            exponent: h.ln() / (-h).ln_1p(),
        }
    }

    #[inline]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let rank = self.n as f64 * rng.unit().powf(self.exponent);
        (rank as u64).min(self.n - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    #[test]
    fn the_first_h_of_the_records_get_all_but_h_of_the_draws_at_every_scale() {
        for h in [0.5f64, 0.2, 0.1, 0.01, 0.001] {
            let n = 1_000_000;
            let (law, mut rng) = (SelfSimilar::new(n, h), Rng::new(2, 0));
            let (within_h, within_h2) = ((n as f64 * h) as u64, (n as f64 * h * h) as u64);
            let mut counts = [0; 3];
            for _ in 0..200_000 {
                let rank = law.rank(&mut rng);
                counts[usize::from(rank >= within_h2) + usize::from(rank >= within_h)] += 1;
            }
            let hot = 1.0 - h;
            chi_square::assert_fits(&counts, &[hot * hot, hot - hot * hot, h]);
        }
    }

    #[test]
    fn ranks_stay_below_n() {
        for (n, h) in [(1, 0.5), (2, 0.001), (u64::MAX, 0.5), (10, 0.2)] {
            let (law, mut rng) = (SelfSimilar::new(n, h), Rng::new(2, 0));
            assert!((0..2000).all(|_| law.rank(&mut rng) < n));
        }
    }
}
