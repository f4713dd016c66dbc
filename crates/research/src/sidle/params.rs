//! The four parameters that the watermark steers, and its three ways to change them
//! (SIDLE §4.3, Figure 13).
//!
//! Invariant: all four change at once, for they are one atomic word.

use std::sync::atomic::{AtomicU32, Ordering};

/// `L_fast`, `L_demote` (levels, root = 0), `P_hot` and `P_cold` (percent).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    pub l_fast: u8,
    pub l_demote: u8,
    pub p_hot: u8,
    pub p_cold: u8,
}

impl Params {
    /// Stands for `L_max` while the height of the tree is unknown.
    pub const ALL_LEVELS: u8 = u8::MAX;

    pub fn first(levels: u8, p_hot: u8, p_cold: u8) -> Self {
        Self {
            l_fast: levels,
            l_demote: levels,
            p_hot: p_hot.min(100),
            p_cold: p_cold.min(100),
        }
    }

    /// No level above `L_max`.
    pub fn capped(self, l_max: u8) -> Self {
        Self {
            l_fast: self.l_fast.min(l_max),
            l_demote: self.l_demote.min(l_max),
            ..self
        }
    }

    /// One step towards less fast memory: fewer layers, fewer hot leaves, more cold ones.
    pub fn strained(self, l_min: u8) -> Self {
        let down = |level: u8| if level > l_min { level - 1 } else { level };
        Self {
            l_fast: down(self.l_fast),
            l_demote: down(self.l_demote),
            p_hot: self.p_hot.saturating_sub(1),
            p_cold: (self.p_cold + 1).min(100),
        }
    }

    /// One step towards more fast memory.
    pub fn abundant(self, l_max: u8) -> Self {
        let up = |level: u8| if level < l_max { level + 1 } else { level };
        Self {
            l_fast: up(self.l_fast),
            l_demote: up(self.l_demote),
            p_hot: (self.p_hot + 1).min(100),
            p_cold: self.p_cold.saturating_sub(1),
        }
    }

    /// Halfway back to what was before an adjustment. Halves stay with the adjusted value.
    pub fn halfway_to(self, before: Self) -> Self {
        // A strain only lowers the first three and only raises the last.
        Self {
            l_fast: self.l_fast.midpoint(before.l_fast),
            l_demote: self.l_demote.midpoint(before.l_demote),
            p_hot: self.p_hot.midpoint(before.p_hot),
            p_cold: (self.p_cold + before.p_cold).div_ceil(2),
        }
    }
}

/// The parameters as all threads see them.
pub struct SharedParams(AtomicU32);

impl SharedParams {
    pub fn new(params: Params) -> Self {
        Self(AtomicU32::new(pack(params)))
    }

    pub fn load(&self) -> Params {
        // Nothing else is published with them.
        let [l_fast, l_demote, p_hot, p_cold] = self.0.load(Ordering::Relaxed).to_le_bytes();
        Params {
            l_fast,
            l_demote,
            p_hot,
            p_cold,
        }
    }

    pub fn store(&self, params: Params) {
        self.0.store(pack(params), Ordering::Relaxed);
    }
}

fn pack(params: Params) -> u32 {
    u32::from_le_bytes([params.l_fast, params.l_demote, params.p_hot, params.p_cold])
}

/// `L_min`: half of the uppermost levels that fit into fast memory together.
///
/// Levels are taken to grow by one factor from the root to the leaves, nearly all of `nodes`.
pub fn l_min(levels: u8, nodes: usize, fast_nodes: usize) -> u8 {
    let steps = f64::from(levels.saturating_sub(1).max(1));
    let factor = (nodes.max(1) as f64).powf(1.0 / steps);
    let mut total = 0.0;
    let fitting = (0..levels).take_while(|&level| {
        total += factor.powi(level.into());
        total <= fast_nodes as f64
    });
    fitting.count() as u8 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: Params = Params {
        l_fast: 4,
        l_demote: 3,
        p_hot: 10,
        p_cold: 60,
    };

    #[test]
    fn shared_params_come_back_as_they_went_in() {
        let shared = SharedParams::new(Params::first(7, 5, 200));
        assert_eq!(shared.load(), Params::first(7, 5, 100));
        shared.store(MIDDLE);
        assert_eq!(shared.load(), MIDDLE);
    }

    #[test]
    fn strain_lowers_levels_to_l_min_and_shares_to_their_ends() {
        let step = MIDDLE.strained(2);
        let expected = Params {
            l_fast: 3,
            l_demote: 2,
            p_hot: 9,
            p_cold: 61,
        };
        assert_eq!(step, expected);
        let mut end = MIDDLE;
        for _ in 0..200 {
            end = end.strained(2);
        }
        let expected = Params {
            l_fast: 2,
            l_demote: 2,
            p_hot: 0,
            p_cold: 100,
        };
        assert_eq!(end, expected);
    }

    #[test]
    fn abundance_raises_levels_to_l_max() {
        let step = MIDDLE.abundant(4);
        let expected = Params {
            l_fast: 4,
            l_demote: 4,
            p_hot: 11,
            p_cold: 59,
        };
        assert_eq!(step, expected);
        let first = Params::first(Params::ALL_LEVELS, 100, 0);
        assert_eq!(first.abundant(4), first);
    }

    #[test]
    fn a_reset_averages_and_leaves_a_trace_of_one_step() {
        let two = MIDDLE.strained(0).strained(0);
        assert_eq!(two.halfway_to(MIDDLE), MIDDLE.strained(0));
        let one = MIDDLE.strained(0);
        assert_eq!(one.halfway_to(MIDDLE), one);
    }

    #[test]
    fn l_min_is_half_of_the_levels_that_fit() {
        // Levels of 1, 10, 100 and 1000 nodes.
        assert_eq!(l_min(4, 1000, 0), 0);
        assert_eq!(l_min(4, 1000, 11), 1);
        assert_eq!(l_min(4, 1000, 110), 1);
        assert_eq!(l_min(4, 1000, 111), 1);
        assert_eq!(l_min(4, 1000, 1112), 2);
        assert_eq!(l_min(1, 1, 1), 0);
        assert_eq!(l_min(2, 0, 0), 0);
    }
}
