//! The hotspot: most requests go to one contiguous region of the records, and the region can move.
//!
//! SIDLE §6.1: 90 % of the requests on 5 % of contiguous keys. The other 10 % go to the records
//! outside the region, uniformly.
//!
//! The region's place depends on the seed and on an epoch, a counter that the runner advances.
//! Invariants: a region has exactly its number of ids, and wraps around after the last one;
//! successive regions never overlap if both fit. An epoch moves the region by the golden ratio of
//! the whole, which visits every part of the key space before it comes back near an old region.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::rng::{self, Rng};

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of moves of the hot region so far. Clones share one counter: streams read it before
/// each request.
#[derive(Clone, Debug, Default)]
pub struct HotEpoch(Arc<AtomicU64>);

impl HotEpoch {
    /// The current epoch; the first is 0.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Moves the region to its place in `epoch`, e.g. back to 0 for the next placement's turn.
    pub fn set(&self, epoch: u64) {
        self.0.store(epoch, Relaxed);
    }

    pub fn advance(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The place of the hot region in each epoch.
#[derive(Clone, Debug)]
pub struct HotRegion {
    records: u64,
    len: u64,
    base: u64,
    step: u64,
}

impl HotRegion {
    /// A region of the fraction `size`, in `(0, 1]`, of `records` ids, rounded, at least one id.
    pub fn new(records: u64, size: f64, seed: u64) -> HotRegion {
        let len = ((records as f64 * size).round() as u64).clamp(1, records);
        let apart = records - len;
        HotRegion {
            records,
            len,
            base: Rng::new(seed, rng::HOT_REGION).below(records),
            step: rng::scale(GOLDEN, records).clamp(len.min(apart), len.max(apart)),
        }
    }

    pub fn ids(&self) -> u64 {
        self.len
    }

    /// The first hot id in `epoch`. The region extends upward, and wraps to id 0 after the last id.
    pub fn start(&self, epoch: u64) -> u64 {
        let moved = u128::from(epoch) * u128::from(self.step);
        ((u128::from(self.base) + moved) % u128::from(self.records)) as u64
    }

    /// Whether `id` is hot in `epoch`.
    pub fn contains(&self, epoch: u64, id: u64) -> bool {
        (id + self.records - self.start(epoch)) % self.records < self.len
    }
}

#[derive(Clone, Debug)]
pub(super) struct Hotspot {
    region: HotRegion,
    /// A 64-bit draw below this goes to the hot region.
    hot_below: u64,
    epoch: HotEpoch,
    seen: u64,
    start: u64,
}

impl Hotspot {
    /// A fraction `share`, in `[0, 1]`, of the requests goes to `region`.
    pub fn new(region: HotRegion, share: f64, epoch: HotEpoch) -> Hotspot {
        let everywhere = region.len == region.records;
        let seen = epoch.get();
        Hotspot {
            start: region.start(seen),
            // The conversion saturates: with a share of 1, one draw in 2⁶⁴ goes elsewhere.
            hot_below: if everywhere {
                u64::MAX
            } else {
                (share * 2f64.powi(64)) as u64
            },
            region,
            epoch,
            seen,
        }
    }

    #[inline]
    pub fn id(&mut self, rng: &mut Rng) -> u64 {
        let epoch = self.epoch.get();
        if epoch != self.seen {
            self.seen = epoch;
            self.start = self.region.start(epoch);
        }
        let HotRegion { records, len, .. } = self.region;
        let offset = if rng.bits() < self.hot_below {
            rng.below(len)
        } else {
            len + rng.below(records - len)
        };
        let id = self.start + offset;
        if id >= records { id - records } else { id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::chi_square;

    #[test]
    fn a_region_has_exactly_its_ids_and_never_overlaps_the_one_before() {
        let sizes = [
            (20, 0.05, 1),
            (1000, 0.05, 50),
            (999, 0.05, 50),
            (1000, 0.5, 500),
            (7, 0.01, 1),
            (1, 1.0, 1),
        ];
        for (records, size, len) in sizes {
            for seed in 0..5 {
                let region = HotRegion::new(records, size, seed);
                assert_eq!(region.ids(), len);
                let hot = |epoch| {
                    let ids = (0..records).filter(|&id| region.contains(epoch, id));
                    ids.collect::<Vec<u64>>()
                };
                for epoch in 0..50 {
                    assert_eq!(hot(epoch).len() as u64, len);
                    let shared = hot(epoch).iter().any(|&id| region.contains(epoch + 1, id));
                    assert!(
                        !shared || len * 2 > records,
                        "{records} records, epoch {epoch}"
                    );
                }
            }
        }
    }

    #[test]
    fn regions_that_must_overlap_do_so_as_little_as_they_can() {
        let region = HotRegion::new(100, 0.7, 3);
        for epoch in 0..50 {
            let both = |&id: &u64| region.contains(epoch, id) && region.contains(epoch + 1, id);
            assert_eq!((0..100).filter(both).count(), 40);
        }
    }

    #[test]
    fn twelve_regions_of_five_percent_visit_nothing_twice() {
        let region = HotRegion::new(100_000, 0.05, 8);
        let visited = |id| (0..12).filter(|&epoch| region.contains(epoch, id)).count();
        assert!((0..100_000).all(|id| visited(id) <= 1));
    }

    #[test]
    fn the_share_and_the_borders_are_exact() {
        const DRAWS: u64 = 200_000;
        for (records, seed) in [(1000, 1), (1000, 2), (1000, 6), (40, 3)] {
            let region = HotRegion::new(records, 0.05, seed);
            let epoch = HotEpoch::default();
            let mut hotspot = Hotspot::new(region.clone(), 0.9, epoch.clone());
            for moved in 0..3 {
                let mut rng = Rng::new(seed, moved);
                let mut counts = vec![0; records as usize];
                for _ in 0..DRAWS {
                    counts[hotspot.id(&mut rng) as usize] += 1;
                }
                let (hot, len) = (region.ids() as f64, records as f64);
                let promised: Vec<f64> = (0..records)
                    .map(|id| {
                        if region.contains(moved, id) {
                            0.9 / hot
                        } else {
                            0.1 / (len - hot)
                        }
                    })
                    .collect();
                chi_square::assert_fits(&counts, &promised);
                epoch.advance();
            }
        }
    }

    /// Some seed must make the region wrap around, or the test above proves less than it says.
    #[test]
    fn a_region_wraps_past_the_last_id() {
        let region = HotRegion {
            records: 10,
            len: 3,
            base: 9,
            step: 3,
        };
        let hot: Vec<u64> = (0..10).filter(|&id| region.contains(0, id)).collect();
        assert_eq!(hot, [0, 1, 9]);
        let mut hotspot = Hotspot::new(region, 1.0, HotEpoch::default());
        let mut rng = Rng::new(1, 0);
        let drawn: std::collections::BTreeSet<u64> =
            (0..200).map(|_| hotspot.id(&mut rng)).collect();
        assert!(drawn.into_iter().eq(hot));
    }

    #[test]
    fn extreme_shares_and_sizes() {
        let mut rng = Rng::new(1, 0);
        let region = HotRegion::new(10, 0.2, 1);
        let mut never = Hotspot::new(region.clone(), 0.0, HotEpoch::default());
        assert!((0..500).all(|_| !region.contains(0, never.id(&mut rng))));
        let mut everything = Hotspot::new(HotRegion::new(10, 1.0, 1), 0.5, HotEpoch::default());
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[everything.id(&mut rng) as usize] += 1);
        chi_square::assert_fits(&counts, &[0.1; 10]);
    }

    #[test]
    fn setting_an_epoch_goes_back() {
        let region = HotRegion::new(1000, 0.01, 1);
        let epoch = HotEpoch::default();
        let mut hotspot = Hotspot::new(region.clone(), 1.0, epoch.clone());
        let mut rng = Rng::new(1, 0);
        for to in [5, 0] {
            epoch.set(to);
            assert!(region.contains(to, hotspot.id(&mut rng)));
        }
    }
}
