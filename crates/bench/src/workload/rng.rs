//! The pseudo-random numbers of all requests: xoshiro256++, seeded through SplitMix64 (Blackman and
//! Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021).
//!
//! Invariant: the sequence depends on (seed, lane) only. Threads use lanes 0, 1, 2, …; choices that
//! all threads share (the place of the hot region, the scrambling of ranks) use lanes counted down
//! from the top. So no two uses share a sequence.

/// The lane of the hot region's first place.
pub(super) const HOT_REGION: u64 = u64::MAX;
/// The lane of the permutation that scatters ranks over the records.
pub(super) const SCRAMBLE: u64 = u64::MAX - 1;
pub(super) const LOAD_ORDER: u64 = u64::MAX - 2;

/// A small, fast, reproducible generator. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The sequence of `lane` (e.g. a thread) under `seed`.
    pub fn new(seed: u64, lane: u64) -> Rng {
        let mut mixer = SplitMix(seed);
        let mut mixer = SplitMix(mixer.next() ^ lane.wrapping_mul(0x9fb2_1c65_1e98_df25));
        Rng {
            state: std::array::from_fn(|_| mixer.next()),
        }
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in `0..n`, or 0 if `n` is 0. Probabilities differ by at most n / 2⁶⁴.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        scale(self.bits(), n)
    }

    /// A number in `[0, 1)`, a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as i64 as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// `bits` as a fraction of 2⁶⁴, times `n`: division by multiplication (Lemire, 2019).
#[inline]
pub(super) fn scale(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// The finalizer of SplitMix64: a bijection of 64 bits in which every input bit affects the result.
#[inline]
pub(super) fn hash(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs from the state 1, 2, 3, 4.
    #[test]
    fn is_xoshiro256_plus_plus() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386];
        assert_eq!(expected.map(|_| rng.bits()), expected);
    }

    #[test]
    fn a_seed_and_a_lane_decide_everything() {
        let first = |seed, lane| Rng::new(seed, lane).bits();
        assert_eq!(first(7, 3), first(7, 3));
        assert_ne!(first(7, 3), first(7, 4));
        assert_ne!(first(7, 3), first(8, 3));
        assert_ne!(first(3, 7), first(7, 3));
    }

    #[test]
    fn numbers_stay_in_their_ranges() {
        let mut rng = Rng::new(1, 0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(scale(u64::MAX, 10), 9);
        assert_eq!(rng.below(0), 0);
    }
}
