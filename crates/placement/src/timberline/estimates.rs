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

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Estimates {
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

impl Estimates {
    /// Counts by power of two.
    pub fn of(histogram: &HeatHistogram, candidates: &[Candidate]) -> Estimates {
        let mut estimates = Estimates::default();
        for (heat, leaves) in histogram.leaves() {
            estimates.fast[bin(heat)] += u64::from(leaves);
        }
        for candidate in candidates {
            if let Promotable::Leaf(_) = candidate.what {
                estimates.candidates[bin(candidate.heat)] += 1;
            }
        }
        estimates
    }
}

fn bin(heat: u16) -> usize {
    ((heat | 1).ilog2() as usize).min(BINS - 1)
}

impl Timberline {
    pub(super) fn estimates(&self) -> View {
        self.is_viewed.store(true, Relaxed);
        let estimates = lock(&self.estimates).clone();
        let mut view = View {
            unit: "heat (8 for each sampled access)",
            bins: powers_of_two(BINS),
            counts: vec![
                ("fast leaves", estimates.fast.to_vec()),
                ("candidates: slow leaves", estimates.candidates.to_vec()),
            ],
            figures: vec![
                ("accesses per sample", self.interval().into()),
                ("pages of the record cache", estimates.pages as f64),
            ],
            ..View::default()
        };
        // Before the first round there is none.
        if estimates.filled > 0.0 {
            view.thresholds = vec![
                ("coldest 1 %", estimates.coldest.into()),
                ("candidate from", estimates.floor.into()),
            ];
            view.watermarks = vec![("reserve", estimates.filled)];
        }
        view
    }
}
