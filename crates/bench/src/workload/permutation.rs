//! A pseudo-random order of `0..len`, computed position by position: no array, no allocation.
//!
//! Invariant: [`Permutation::at`] is a bijection of `0..len`. Positions are mixed as k-bit words, k
//! the smallest with 2ᵏ ≥ len, by invertible steps: adding, multiplying by an odd number, and
//! folding the high half onto the low, all modulo 2ᵏ. A result outside `0..len` is mixed again
//! until it falls inside ("cycle walking": Black and Rogaway, "Ciphers with Arbitrary Finite
//! Domains", 2002). As len > 2ᵏ⁻¹, that takes fewer than two rounds on average.
//!
//! A hash modulo len would be a nanosecond cheaper but wrong: more than a third of the records
//! would never be requested, and others would be as hot as several ranks together.

use super::rng::Rng;

/// A permutation of `0..len`, determined by a seed.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    mask: u64,
    fold: u32,
    rounds: [Round; 3],
}

#[derive(Clone, Copy, Debug)]
struct Round {
    add: u64,
    multiply: u64,
}

impl Permutation {
    /// A permutation of `0..len`, drawn from `rng`.
    pub fn new(len: u64, mut rng: Rng) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Permutation {
            len,
            mask: u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0),
            fold: bits.div_ceil(2).max(1),
            rounds: std::array::from_fn(|_| Round {
                add: rng.bits(),
                multiply: rng.bits() | 1,
            }),
        }
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number at `position`, which must be below [`Permutation::len`].
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.len);
        let mut word = position;
        loop {
            for round in self.rounds {
                word = word.wrapping_add(round.add).wrapping_mul(round.multiply) & self.mask;
                word ^= word >> self.fold;
            }
            if word < self.len {
                return word;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    #[test]
    fn is_a_bijection_for_every_small_length_and_around_powers_of_two() {
        let lengths = (1..=130).chain([255, 256, 257, 1000, 4095, 4096, 4097, 65_537]);
        for len in lengths {
            for seed in 0..3 {
                let order = Permutation::new(len, Rng::new(seed, 0));
                let mut seen = vec![false; len as usize];
                for position in 0..len {
                    let twice = std::mem::replace(&mut seen[order.at(position) as usize], true);
                    assert!(!twice, "length {len}, seed {seed}, position {position}");
                }
            }
        }
    }

    #[test]
    fn covers_the_longest_length() {
        let order = Permutation::new(u64::MAX, Rng::new(1, 0));
        assert_ne!(order.at(0), order.at(u64::MAX - 1));
        assert_eq!(Permutation::new(1, Rng::new(1, 0)).at(0), 0);
        assert!(Permutation::new(0, Rng::new(1, 0)).is_empty());
    }

    #[test]
    fn early_positions_are_scattered_evenly_and_neighbours_are_strangers() {
        const LEN: u64 = 1_000_000;
        for seed in 0..5 {
            let order = Permutation::new(LEN, Rng::new(seed, 0));
            let mut bins = [0u64; 50];
            let mut distance = 0;
            for position in 0..LEN / 50 {
                bins[(order.at(position) / (LEN / 50)) as usize] += 1;
                distance += order.at(position).abs_diff(order.at(position + 1));
            }
            chi_square::assert_fits(&bins, &[1.0 / 50.0; 50]);
            let mean = distance as f64 / (LEN / 50) as f64 / LEN as f64;
            assert!(
                (mean - 1.0 / 3.0).abs() < 0.02,
                "mean distance {mean}, seed {seed}"
            );
        }
    }

    #[test]
    fn seeds_give_different_orders() {
        let of = |seed| Permutation::new(1000, Rng::new(seed, 0));
        let same = (0..1000).filter(|&i| of(1).at(i) == of(2).at(i)).count();
        assert!(same < 10, "{same} of 1000 at the same place");
    }
}
