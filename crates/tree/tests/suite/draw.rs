//! Random draws from one printed seed (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).

/// A stream of random numbers.
pub struct Draw(u64);

/// The seed of this run, printed so that a failure shows it.
pub fn seed() -> u64 {
    let seed = match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 20_260_501,
    };
    println!("TIMBERLINE_SEED={seed}");
    seed
}

impl Draw {
    /// The stream of `seed`; different `salt`s give independent ones.
    pub fn new(seed: u64, salt: u64) -> Draw {
        let mut draw = Draw(seed ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03));
        Draw(draw.word())
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// The elements in a random order.
    pub fn shuffled<T>(&mut self, mut all: Vec<T>) -> Vec<T> {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
        all
    }
}
