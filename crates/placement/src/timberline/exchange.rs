//! Which leaves change places: the hottest slow ones with the coldest fast ones, as long as it
//! pays.
//!
//! Pure arithmetic on heat. Input: the heat histogram of fast leaves, the pages of the record cache
//! with their heat, the promotion candidates, and the number of free slots. Output: how many leaves
//! to demote and up to which heat, how many slots of pages to free, and how many candidates to
//! promote.

use super::Candidate;
use super::heat::HOTTEST;

/// The heat histogram: how many fast leaves have each heat.
pub struct HeatHistogram {
    leaves: Box<[u32]>,
    total: usize,
}

/// Pages of the record cache, as the slots of leaves that they take: all are about equally hot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pages {
    /// Slots.
    pub count: usize,
    /// Of a slot.
    pub heat: u16,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Demote this many fast leaves…
    pub demote: usize,
    /// …of at most this heat.
    pub coldest: u16,
    /// Drop pages of the record cache that take this many slots.
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
    /// free first. `sample` is the heat of a sample.
    pub fn plan(&self, pages: Pages, candidates: &[Candidate], free: isize, sample: u16) -> Plan {
        let mut plan = self.plan_for_all(pages, candidates, free, sample);
        // Of equally hot ones leaves are the victims: their records may have copies.
        let leaves = self.leaves().take(usize::from(pages.heat) + 1);
        let leaves: usize = leaves.map(|(_, leaves)| leaves as usize).sum();
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
        sample: u16,
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
                    Some(cold) if hot.heat >= worth_it(cold, sample) => {
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

/// The least heat with which a slow leaf replaces a fast one this cold, where a sample has the heat
/// `sample`.
///
/// Heat is a count of samples, so its error is its square root at best. A margin of half of that,
/// and two samples (one made the leaf a candidate), keeps equally hot leaves from changing places
/// for ever. Wider margins leave warm leaves in slow memory and save hardly any moves
/// (`docs/design/placement.md`).
pub fn worth_it(cold: u16, sample: u16) -> u16 {
    let samples = f64::from(cold) / f64::from(sample);
    let margin = 2.0 + 0.5 * samples.sqrt();
    (f64::from(cold) + margin * f64::from(sample)) as u16
}

#[cfg(test)]
mod tests {
    use super::super::heat::SAMPLE;
    use super::*;
    use crate::KeyBytes;
    use crate::timberline::Promotable;
    use timberline_tier::TierId;

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
        let plan = histogram.plan(Pages::default(), &candidates(&[50, 40, 30]), 2, SAMPLE);
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
                .plan(Pages::default(), &candidates(heats), 0, SAMPLE)
                .promote
        };
        // 32 eighths are 4 samples, known to 2: 4 + 2 / 2 + 2 = 7 samples are clearly more.
        let plan = histogram.plan(Pages::default(), &candidates(&[400, 90, 56, 55]), 0, SAMPLE);
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
        let finer = |hot: u16| histogram.plan(Pages::default(), &candidates(&[400, 90, hot]), 0, 1);
        assert_eq!([35, 36].map(|hot| finer(hot).promote), [2, 3]);
    }

    #[test]
    fn a_deficit_comes_first() {
        let histogram = HeatHistogram::new([7, 5, 90].into_iter());
        let plan = |heats: &[u16], free| {
            let plan = histogram.plan(Pages::default(), &candidates(heats), free, SAMPLE);
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
            let plan = histogram.plan(pages, &candidates(&vec![300; count]), 0, SAMPLE);
            assert_eq!(plan.demote + plan.pages, plan.promote);
            (plan.demote, plan.pages)
        };
        assert_eq!(
            [2, 3, 4, 6, 9].map(plan),
            [(2, 0), (3, 0), (3, 1), (3, 3), (3, 3)]
        );
        let plan = histogram.plan(pages, &[], -9, SAMPLE);
        assert_eq!((plan.demote, plan.pages), (4, 3), "all there is");
        // A page takes the place of a colder leaf, and never that of a page.
        let page = Candidate {
            what: Promotable::Page,
            heat: worth_it(20, SAMPLE) - 1,
            from: TierId::SLOW,
        };
        let plan = histogram.plan(pages, &vec![page; 5], 0, SAMPLE);
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
