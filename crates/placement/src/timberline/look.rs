//! The estimates of the mover's last round, for views. They are kept from the first request for a
//! view on, so without a view they cost nothing.

use std::sync::atomic::Ordering::Relaxed;

use super::Timberline;
use super::exchange::HeatHistogram;
use super::heat::HEAT_BITS;
use super::{Candidate, Promotable};
use crate::View;
use crate::view::powers_of_two;
use crate::workers::lock;

const BINS: usize = HEAT_BITS as usize;

/// See the [module's text](self).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Look {
    /// Fast leaves by the power of two of their heat.
    pub fast: [u64; BINS],
    /// Candidates by the power of two of their heat.
    pub candidates: [u64; BINS],
    /// The coldest hundredth of the fast leaves is at most this hot.
    pub coldest: u16,
    /// A slow leaf below this heat is no candidate.
    pub floor: u16,
    /// The fraction of fast memory that is not kept free, 0 to 1.
    pub filled: f64,
    /// Pages of the record cache.
    pub pages: usize,
}

impl Look {
    /// Counts by power of two.
    pub fn of(histogram: &HeatHistogram, candidates: &[Candidate]) -> Look {
        let mut look = Look::default();
        for (heat, leaves) in histogram.leaves() {
            look.fast[bin(heat)] += u64::from(leaves);
        }
        for candidate in candidates {
            if let Promotable::Leaf(_) = candidate.what {
                look.candidates[bin(candidate.heat)] += 1;
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
            unit: "heat (8 for each sampled access)",
            bins: powers_of_two(BINS),
            counts: vec![
                ("fast leaves", look.fast.to_vec()),
                ("candidates: slow leaves", look.candidates.to_vec()),
            ],
            figures: vec![
                ("accesses per sample", self.interval().into()),
                ("pages of the record cache", look.pages as f64),
            ],
            ..View::default()
        };
        // Before the first round there is none.
        if look.filled > 0.0 {
            view.thresholds = vec![
                ("coldest 1 %", look.coldest.into()),
                ("candidate from", look.floor.into()),
            ];
            view.watermarks = vec![("reserve", look.filled)];
        }
        view
    }
}
