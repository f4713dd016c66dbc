//! Which leaves change places: the hottest slow ones with the coldest fast ones, as long as it
//! pays.
//!
//! Pure arithmetic on heat. Input: the heat histogram of fast leaves, the pages of the record cache
//! with their heat, the promotion candidates, and the number of free slots. Output: how many leaves
//! to demote and up to which heat, how many pages to drop, and how many candidates to promote.

use super::Candidate;
use super::heat::{HOTTEST, SAMPLE};

/// The heat histogram: how many fast leaves have each heat.
pub struct HeatHistogram {
    leaves: Box<[u32]>,
    total: usize,
}

/// Pages of the record cache: each takes as much memory as a leaf, and all are about equally hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    pub count: usize,
    pub heat: u16,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Demote this many fast leaves…
    pub demote: usize,
    /// …of at most this heat.
    pub coldest: u16,
    /// Drop this many pages of the record cache.
    pub pages: usize,
    /// Promote this many candidates, from the front of the sorted list.
    pub promote: usize,
}

impl Default for HeatHistogram {
    fn default() -> Self {
        HeatHistogram {
            leaves: vec![0; HOTTEST as usize + 1].into_boxed_slice(),
            total: 0,
        }
    }
}

impl HeatHistogram {
    /// Counts the heat of fast leaves.
    #[cfg(test)]
    pub fn new(heats: impl Iterator<Item = u16>) -> Self {
        let mut histogram = HeatHistogram::default();
        heats.for_each(|heat| histogram.add(heat));
        histogram
    }

    /// Counts one more.
    pub fn add(&mut self, heat: u16) {
        self.leaves[heat.min(HOTTEST) as usize] += 1;
        self.total += 1;
    }

    /// Counts one less, if there is one of this heat.
    pub fn remove(&mut self, heat: u16) {
        let leaves = &mut self.leaves[heat.min(HOTTEST) as usize];
        if *leaves > 0 {
            *leaves -= 1;
            self.total -= 1;
        }
    }

    /// Halves the heat of all.
    pub fn cool(&mut self) {
        for heat in 2..self.leaves.len() {
            let leaves = std::mem::take(&mut self.leaves[heat]);
            self.leaves[heat / 2] += leaves;
        }
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Each heat, with how many leaves have it.
    pub fn leaves(&self) -> impl Iterator<Item = (u16, u32)> {
        (0..).zip(self.leaves.iter().copied())
    }

    /// How many are at most this hot.
    pub fn up_to(&self, heat: u16) -> usize {
        let leaves = self.leaves().take(usize::from(heat) + 1);
        leaves.map(|(_, leaves)| leaves as usize).sum()
    }

    /// The least heat that at least `nth` leaves (from 1) do not exceed.
    pub fn nth_coldest(&self, nth: usize) -> u16 {
        let mut seen = 0;
        let at_most = |&leaves: &u32| {
            seen += leaves as usize;
            seen >= nth
        };
        self.leaves
            .iter()
            .position(at_most)
            .unwrap_or(HOTTEST as usize) as u16
    }

    /// The plan for `candidates`, hottest first, with `free` slots to use, or (if negative) to make
    /// free first.
    pub fn plan(
        &self,
        pages: Pages,
        candidates: &[Candidate],
        free: isize,
        margin: Margin,
    ) -> Plan {
        let mut plan = self.plan_for_all(pages, candidates, free, margin);
        // Of equally hot ones leaves are the victims: their records may have copies.
        let leaves = self.up_to(pages.heat);
        plan.pages = plan.demote.saturating_sub(leaves).min(pages.count);
        plan.demote -= plan.pages;
        plan
    }

    /// The same, with pages counted as leaves.
    fn plan_for_all(
        &self,
        pages: Pages,
        candidates: &[Candidate],
        free: isize,
        margin: Margin,
    ) -> Plan {
        let mut coldest_first = self.leaves().flat_map(|(heat, leaves)| {
            let pages = if heat == pages.heat { pages.count } else { 0 };
            std::iter::repeat_n(heat, leaves as usize + pages)
        });
        let mut plan = Plan::default();
        for _ in free..0 {
            let Some(heat) = coldest_first.next() else {
                return plan;
            };
            plan.demote += 1;
            plan.coldest = heat;
        }
        for (index, hot) in candidates.iter().enumerate() {
            if (index as isize) >= free.max(0) {
                match coldest_first.next() {
                    Some(cold) if hot.heat >= margin.worth_it(cold) => {
                        plan.demote += 1;
                        plan.coldest = cold;
                    }
                    _ => break,
                }
            }
            plan.promote += 1;
        }
        plan
    }
}

/// How much hotter a slow leaf must be than the fast one that it replaces.
///
/// Heat is a count of samples, so its error is its square root at best. The margin keeps equally
/// hot leaves from changing places for ever. Wider ones leave warm leaves in slow memory and save
/// hardly any moves (`docs/design/placement.md`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Margin {
    /// The heat of a sample.
    pub sample: u16,
    /// Samples more than the other has, at least: one made the leaf a candidate.
    pub base: f64,
    /// The same for each square root of the other's samples.
    pub root: f64,
    /// Samples, whatever the other has.
    pub least: f64,
    /// Whether at the fast tier the least follows from how many samples leaves have by chance.
    pub by_chance: bool,
}

impl Margin {
    /// For leaves with dozens of records.
    pub const OF_NODES: Margin = Margin {
        sample: SAMPLE,
        base: 2.0,
        root: 0.5,
        least: 2.0,
        by_chance: false,
    };

    /// For leaves with some records, of which there are many, with a few samples each.
    pub const OF_FEW: Margin = Margin {
        sample: SAMPLE,
        base: 1.0,
        root: 1.0,
        least: 1.0,
        by_chance: false,
    };

    /// For leaves that are records. Millions of them have a sample or two by chance, so these may
    /// tell nothing.
    pub const OF_RECORDS: Margin = Margin {
        least: 4.0,
        by_chance: true,
        ..Margin::OF_FEW
    };

    /// The least heat with which a slow leaf replaces a fast one this cold.
    pub fn worth_it(self, cold: u16) -> u16 {
        let sample = f64::from(self.sample);
        let margin = self.base + self.root * (f64::from(cold) / sample).sqrt();
        (f64::from(cold) + margin * sample).max(self.least * sample) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyBytes;
    use crate::timberline::Promotable;
    use timberline_tier::TierId;

    const NODES: Margin = Margin::OF_NODES;

    fn candidates(heats: &[u16]) -> Vec<Candidate> {
        heats
            .iter()
            .map(|&heat| Candidate {
                what: Promotable::Leaf(KeyBytes::of_word(heat.into())),
                heat,
                from: TierId::SLOW,
            })
            .collect()
    }

    #[test]
    fn free_slots_are_given_to_the_hottest() {
        let histogram = HeatHistogram::new([100, 200].into_iter());
        let plan = histogram.plan(Pages::default(), &candidates(&[50, 40, 30]), 2, NODES);
        assert_eq!(
            plan,
            Plan {
                promote: 2,
                ..Plan::default()
            }
        );
    }

    #[test]
    fn places_are_exchanged_as_long_as_it_pays() {
        let histogram = HeatHistogram::new([0, 0, 32, 300].into_iter());
        let promoted = |heats: &[u16]| {
            histogram
                .plan(Pages::default(), &candidates(heats), 0, NODES)
                .promote
        };
        // 32 eighths are 4 samples, known to 2: 4 + 2 / 2 + 2 = 7 samples are clearly more.
        let plan = histogram.plan(Pages::default(), &candidates(&[400, 90, 56, 55]), 0, NODES);
        let expected = Plan {
            demote: 3,
            coldest: 32,
            promote: 3,
            ..Plan::default()
        };
        assert_eq!(plan, expected);
        assert_eq!(promoted(&[400, 90, 55]), 2);
        assert_eq!(promoted(&[15]), 0, "two samples are the least");
        assert_eq!(promoted(&[16]), 1);
        // Where samples are finer, a smaller difference is clear: 32 of them, and 2 and 2.8 more.
        let sample_of_1 = Margin { sample: 1, ..NODES };
        let finer = |hot: u16| {
            histogram.plan(
                Pages::default(),
                &candidates(&[400, 90, hot]),
                0,
                sample_of_1,
            )
        };
        assert_eq!([35, 36].map(|hot| finer(hot).promote), [2, 3]);
    }

    #[test]
    fn a_record_needs_some_samples_and_then_a_smaller_margin() {
        let records = Margin::OF_RECORDS;
        let samples = |cold: u16| records.worth_it(cold * SAMPLE) / SAMPLE;
        assert_eq!([0, 1, 4, 9].map(samples), [4, 4, 7, 13]);
        let few = |cold: u16| Margin::OF_FEW.worth_it(cold * SAMPLE) / SAMPLE;
        assert_eq!([0, 1, 4, 9].map(few), [1, 3, 7, 13]);
        let nodes = |cold: u16| NODES.worth_it(cold * SAMPLE) / SAMPLE;
        assert_eq!([0, 1, 4, 9].map(nodes), [2, 3, 7, 12]);
    }

    #[test]
    fn a_deficit_comes_first() {
        let histogram = HeatHistogram::new([7, 5, 90].into_iter());
        let plan = |heats: &[u16], free| {
            let plan = histogram.plan(Pages::default(), &candidates(heats), free, NODES);
            (plan.demote, plan.coldest, plan.promote)
        };
        assert_eq!(plan(&[], -2), (2, 7, 0));
        assert_eq!(plan(&[300, 250], -1), (3, 90, 2));
        assert_eq!(plan(&[], -9), (3, 90, 0), "not more than there are");
    }

    #[test]
    fn pages_go_after_leaves_that_are_not_hotter() {
        let histogram = HeatHistogram::new([10, 20, 20, 400].into_iter());
        let pages = Pages { count: 3, heat: 20 };
        let plan = |count: usize| {
            let plan = histogram.plan(pages, &candidates(&vec![300; count]), 0, NODES);
            assert_eq!(plan.demote + plan.pages, plan.promote);
            (plan.demote, plan.pages)
        };
        assert_eq!(
            [2, 3, 4, 6, 9].map(plan),
            [(2, 0), (3, 0), (3, 1), (3, 3), (3, 3)]
        );
        let plan = histogram.plan(pages, &[], -9, NODES);
        assert_eq!((plan.demote, plan.pages), (4, 3), "all there is");
        // A page takes the place of a colder leaf, and never that of a page.
        let page = Candidate {
            what: Promotable::Page,
            heat: NODES.worth_it(20) - 1,
            from: TierId::SLOW,
        };
        let plan = histogram.plan(pages, &vec![page; 5], 0, NODES);
        assert_eq!((plan.demote, plan.pages, plan.promote), (1, 0, 1));
    }

    #[test]
    fn leaves_come_and_go_and_cool() {
        let mut histogram = HeatHistogram::new([1, 5, 90, 91].into_iter());
        histogram.cool();
        assert_eq!([1, 2, 3].map(|nth| histogram.nth_coldest(nth)), [1, 2, 45]);
        histogram.remove(45);
        histogram.remove(44);
        histogram.add(HOTTEST);
        assert_eq!([3, 4].map(|nth| histogram.nth_coldest(nth)), [45, HOTTEST]);
        assert_eq!(histogram.total(), 4, "of heat 44 there was none");
    }

    #[test]
    fn the_nth_coldest_is_found() {
        let histogram = HeatHistogram::new([5, 3, 9, 3].into_iter());
        assert_eq!(
            [1, 2, 3, 4].map(|nth| histogram.nth_coldest(nth)),
            [3, 3, 5, 9]
        );
        assert_eq!((histogram.total(), histogram.nth_coldest(5)), (4, HOTTEST));
    }
}
