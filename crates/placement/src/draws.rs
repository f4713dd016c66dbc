//! Pseudo-random numbers for policies: SplitMix64 (Steele, Lea and Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014). One seed, one sequence.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of draws.
#[derive(Debug)]
pub struct Draws(
    /// The seed, then the state.
    pub u64,
);

impl Draws {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// In `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// Below `end`, which is at least 1; a bias below `end` / 2⁶⁴ is no matter.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Puts them in any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}

/// A sequence that threads may share.
#[derive(Debug)]
pub struct SharedDraws(AtomicU64);

impl SharedDraws {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(mix(seed)))
    }

    /// In `[0, 1)`.
    pub fn unit(&self) -> f64 {
        let before = self.0.fetch_add(GOLDEN, Relaxed);
        unit(mix(before.wrapping_add(GOLDEN)))
    }
}

/// Spreads a number's bits, as the numbers of a sequence are spread.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// These bits as a number in `[0, 1)`.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
