//! Zipf's law: the record of rank r (from 0) has probability ∝ 1 / (r + 1)^θ.
//!
//! By rejection-inversion (Hörmann and Derflinger, "Rejection-Inversion to Generate Variates from
//! Monotone Discrete Distributions", ACM TOMACS 6(3), 1996). It is exact for every θ ≥ 0, with θ =
//! 1 as the only special case, needs constant time and space for setup, and rejects fewer than two
//! draws in a hundred. YCSB's method, from Gray et al. (SIGMOD 1994), is exact only for the first
//! two ranks, excludes θ ≥ 1, and sums over all ranks during setup.
//!
//! H is an integral of x^-θ, shifted so that H(1) = 0. A point u is drawn uniformly below the
//! curve's integral; x = H⁻¹(u), rounded, is the rank. It is accepted if u lies in the part of the
//! rank's bar below the curve.

use super::rng::Rng;

/// If |1 − θ| is at least this, a plain logarithm has enough digits (ln x to 10⁻¹³) and is faster
/// than `ln_1p`, which has them for any θ.
const PLAIN: f64 = 1e-3;

/// Zipf-distributed ranks in `0..n`, 0 the most frequent.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: i64,
    theta: f64,
    /// 1 − θ, and 1 / (1 − θ) unless that is 0 / 0.
    slope: f64,
    inverse_slope: f64,
    /// The range of u.
    first: f64,
    last: f64,
    /// A draw that was rounded up by no more than this is accepted at once.
    sure: f64,
}

impl Zipf {
    /// Ranks below `n`, from 1 to 2⁵³, with exponent `theta`, in `[0, 2)`; 0 is uniform.
    pub fn new(n: u64, theta: f64) -> Zipf {
        debug_assert!(n > 0 && (0.0..2.0).contains(&theta));
        let slope = 1.0 - theta;
        let mut zipf = Zipf {
            n: n as i64,
            theta,
            slope,
            inverse_slope: if slope == 0.0 { 0.0 } else { 1.0 / slope },
            first: 0.0,
            last: 0.0,
            sure: 0.0,
        };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(n as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    #[inline]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + rng.unit() * (self.first - self.last);
            let x = self.inverse(u);
            // Rounding errors can carry x past either end, by less than one rank.
            let rank = ((x + 0.5) as i64).clamp(1, self.n);
            let nearest = rank as f64;
            if nearest - x <= self.sure || u >= self.integral(nearest + 0.5) - self.weight(nearest)
            {
                return rank as u64 - 1;
            }
        }
    }

    /// x^-θ
    fn weight(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// H(x) = (x^(1−θ) − 1) / (1−θ), which tends to ln x as θ tends to 1.
    fn integral(&self, x: f64) -> f64 {
        if self.slope == 0.0 {
            x.ln()
        } else {
            (self.slope * x.ln()).exp_m1() * self.inverse_slope
        }
    }

    /// H⁻¹(u) = (1 + u (1−θ))^(1 / (1−θ)), which tends to eᵘ as θ tends to 1.
    #[inline]
    fn inverse(&self, u: f64) -> f64 {
        if self.slope.abs() >= PLAIN {
            // Above θ = 1, H is bounded: an error in u must not carry it over the bound.
            ((1.0 + u * self.slope).max(0.0).ln() * self.inverse_slope).exp()
        } else if self.slope == 0.0 {
            u.exp()
        } else {
            ((u * self.slope).ln_1p() * self.inverse_slope).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    const DRAWS: u64 = 300_000;

    /// The analytic probabilities of ranks `0..n`.
    fn law(n: u64, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// Counts draws by rank for low ranks, and in bins of doubling width for the tail.
    fn binned(n: u64, theta: f64) -> (Vec<u64>, Vec<f64>) {
        let bin = |rank: u64| {
            if rank < 16 {
                rank
            } else {
                12 + u64::from(rank.ilog2())
            }
        };
        let bins = bin(n - 1) as usize + 1;
        let (mut counts, mut probabilities) = (vec![0; bins], vec![0.0; bins]);
        for (rank, probability) in law(n, theta).into_iter().enumerate() {
            probabilities[bin(rank as u64) as usize] += probability;
        }
        let (zipf, mut rng) = (Zipf::new(n, theta), Rng::new(11, 0));
        for _ in 0..DRAWS {
            counts[bin(zipf.rank(&mut rng)) as usize] += 1;
        }
        (counts, probabilities)
    }

    #[test]
    fn follows_the_law_for_every_kind_of_exponent() {
        let thetas = [
            0.0,
            0.5,
            0.75,
            0.8,
            0.9,
            0.99,
            0.9999,
            1.0 - 1e-12,
            1.0,
            1.0 + 1e-9,
            1.2,
            1.25,
            1.6,
        ];
        for theta in thetas {
            for n in [20, 1000, 50_000] {
                let (counts, probabilities) = binned(n, theta);
                println!("theta {theta}, n {n}");
                if probabilities.iter().all(|p| p * DRAWS as f64 >= 5.0) {
                    chi_square::assert_fits(&counts, &probabilities);
                } else {
                    // The steepest distributions leave the tail bins almost empty: compare the low
                    // ranks.
                    let (head, tail) = (&counts[..8], counts[8..].iter().sum());
                    let mut promised = probabilities[..8].to_vec();
                    promised.push(1.0 - promised.iter().sum::<f64>());
                    chi_square::assert_fits(&[head, &[tail]].concat(), &promised);
                }
            }
        }
    }

    #[test]
    fn exponent_zero_is_uniform() {
        let (zipf, mut rng) = (Zipf::new(100, 0.0), Rng::new(5, 0));
        let mut counts = [0; 100];
        for _ in 0..DRAWS {
            counts[zipf.rank(&mut rng) as usize] += 1;
        }
        chi_square::assert_fits(&counts, &[0.01; 100]);
    }

    #[test]
    fn ranks_stay_below_n_and_reach_both_ends() {
        for theta in [0.0, 0.99, 1.0, 1.99] {
            for n in [1, 2, 3] {
                let (zipf, mut rng) = (Zipf::new(n, theta), Rng::new(9, 0));
                let mut seen = vec![false; n as usize];
                for _ in 0..2000 {
                    seen[zipf.rank(&mut rng) as usize] = true;
                }
                assert!(seen.into_iter().all(|seen| seen), "theta {theta}, n {n}");
            }
            let (zipf, mut rng) = (Zipf::new(1 << 40, theta), Rng::new(9, 0));
            assert!((0..2000).all(|_| zipf.rank(&mut rng) < 1 << 40));
        }
    }

    /// Twenty million records with YCSB's exponent: the probability of the hottest record and of
    /// the hottest percent, against the exact sums.
    #[test]
    fn is_right_at_the_size_we_measure() {
        const N: u64 = 20_000_000;
        let total: f64 = (1..=N).map(|k| (k as f64).powf(-0.99)).sum();
        let percent: f64 = (1..=N / 100).map(|k| (k as f64).powf(-0.99)).sum::<f64>() / total;
        let (zipf, mut rng) = (Zipf::new(N, 0.99), Rng::new(3, 0));
        let (mut first, mut head) = (0u64, 0u64);
        for _ in 0..DRAWS {
            let rank = zipf.rank(&mut rng);
            first += u64::from(rank == 0);
            head += u64::from(rank < N / 100);
        }
        chi_square::assert_fits(
            &[first, head - first, DRAWS - head],
            &[1.0 / total, percent - 1.0 / total, 1.0 - percent],
        );
    }
}
