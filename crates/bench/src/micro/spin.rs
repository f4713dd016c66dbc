//! Work of a known length.

use std::hint::black_box;
use std::time::Instant;

/// Keeps the core busy for some nanoseconds, without a clock: reading one takes as long.
pub struct Spinner {
    turns_per_s: f64,
}

/// Turns of one measurement of the speed: some milliseconds.
const TURNS: u32 = 4_000_000;

impl Spinner {
    /// Measures how fast this core turns. The fastest of several times counts: the others were
    /// interrupted.
    pub fn calibrate() -> Spinner {
        let times = (0..9).map(|_| {
            let start = Instant::now();
            spin(TURNS);
            start.elapsed().as_secs_f64()
        });
        Spinner {
            turns_per_s: f64::from(TURNS) / times.fold(f64::INFINITY, f64::min),
        }
    }

    /// Turns that take so long.
    pub fn turns(&self, seconds: f64) -> u32 {
        (seconds * self.turns_per_s).round() as u32
    }
}

/// Turns so often. Each turn waits for the one before, and none for memory: where each went through
/// the stack, turns took a third longer at some places of the program than at others, as some
/// processors guess what a load will get from a store before it.
#[inline(always)]
pub fn spin(turns: u32) {
    // Xorshift (Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003): no
    // compiler takes steps together.
    let mut number = black_box(1u64);
    for _ in 0..turns {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
    }
    black_box(number);
}
