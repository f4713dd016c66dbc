//! What the mover saw in its last round and made of it. It is kept once somebody has asked for it,
//! so that without onlookers it costs nothing.

use std::sync::atomic::Ordering::Relaxed;

use super::Timberline;
use super::exchange::Census;
use super::heat::HEAT_BITS;
use super::{Asker, Suggestion};
use crate::View;
use crate::view::powers_of_two;
use crate::workers::lock;

const BINS: usize = HEAT_BITS as usize;

/// See the [module's text](self).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Look {
    /// Fast leaves by the power of two of their heat.
    pub fast: [u64; BINS],
    /// Slow leaves that asked to come, likewise.
    pub asking: [u64; BINS],
    /// The coldest hundredth of the fast leaves is at most this hot.
    pub coldest: u16,
    /// A slow leaf below this heat does not ask.
    pub floor: u16,
    /// The share of fast memory that is not kept free, 0 to 1.
    pub filled: f64,
    /// Pages of copies of hot records.
    pub pages: usize,
}

impl Look {
    /// Counts by power of two.
    pub fn of(census: &Census, asking: &[Suggestion]) -> Look {
        let mut look = Look::default();
        for (heat, leaves) in census.leaves() {
            look.fast[bin(heat)] += u64::from(leaves);
        }
        for suggestion in asking {
            if let Asker::Leaf(_) = suggestion.what {
                look.asking[bin(suggestion.heat)] += 1;
            }
        }
        look
    }
}

fn bin(heat: u16) -> usize {
    ((heat | 1).ilog2() as usize).min(BINS - 1)
}

impl Timberline {
    pub(super) fn look(&self) -> View {
        self.is_looked_at.store(true, Relaxed);
        let look = lock(&self.look).clone();
        let mut view = View {
            unit: "eighths of a sampled access",
            bins: powers_of_two(BINS),
            counts: vec![
                ("fast leaves", look.fast.to_vec()),
                ("slow leaves that ask to come", look.asking.to_vec()),
            ],
            figures: vec![
                ("accesses for a sample", self.interval().into()),
                ("pages of copies of hot records", look.pages as f64),
            ],
            ..View::default()
        };
        // Before the first round there is none.
        if look.filled > 0.0 {
            view.thresholds = vec![
                ("coldest 1 %", look.coldest.into()),
                ("may ask", look.floor.into()),
            ];
            view.watermarks = vec![("reserve", look.filled)];
        }
        view
    }
}
