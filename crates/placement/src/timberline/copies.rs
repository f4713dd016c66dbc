//! How much fast memory the record cache gets, against whole leaves.
//!
//! A hash spreads records over pages, so all pages are about equally hot, and so would be one more.
//! New pages are promotion candidates, as hot as the existing ones on average, and where leaves are
//! hotter than that, pages are victims like cold leaves. Where there are no pages, a few are added
//! occasionally, as probes, to measure their value.
//!
//! A page learns which of its records are hot: it takes some accesses to each. Until there was one
//! for each slow record, pages are not judged, and are victims only of leaves that are four times
//! as hot.
//!
//! While there is a page, every lookup pays for it, in a fast leaf or not: it computes the place of
//! a copy. So all pages go where even as many as beat leaves would answer too few accesses. That is
//! known of a few pages: each answers the same part of all accesses.

use std::time::Duration;

use super::backoff::Backoff;
use super::exchange::Margin;
use super::heat::{HOTTEST, SAMPLE};

/// One page in this many of those there may be is enough to measure the value of pages.
const PROBE: usize = 64;
/// The pause from one probe to the next, doubled after each that failed.
const MIN_BACKOFF: Duration = Duration::from_secs(2);
const MAX_BACKOFF: Duration = Duration::from_secs(16);
/// The factor by which a round's weight decays with each later round.
const REMEMBERED: f64 = 0.8;
/// A round adds at most one page for this many existing ones.
const GROWTH: usize = 4;
/// Warm-up: a page is warm after one to two times this long, and then holds the hottest records.
const WARM_UP: Duration = Duration::from_millis(500);
/// Copies pay where they answer this fraction of all accesses. A lookup takes some 20 instructions
/// and the bandwidth of a line to look for one, and saves a wait for slow memory if it finds one.
const PAYS: f64 = 1.0 / 32.0;
/// The verdict waits until copies that barely pay would have answered so many samples.
const ENOUGH: f64 = 16.0;
/// Pages that have learned answer so many times as much as while they learn, at most.
const LEARNED: u16 = 4;

pub struct Copies {
    /// Samples of all accesses, halved whenever heat is.
    samples: f64,
    /// Recent samples that a warm page served.
    saved: f64,
    /// The sum of warm pages over recent samples.
    exposure: f64,
    /// The same two since the last verdict, without decay.
    saved_since: f64,
    exposure_since: f64,
    /// Warm pages.
    mature: usize,
    /// Pages that will be warm when the warm-up ends.
    warming: usize,
    warm_up_ends: Duration,
    /// Accesses so far, by the samples.
    accesses: u64,
    /// The same when the number of pages had last grown much, and the number of pages then.
    learn_since: u64,
    learners: usize,
    /// Pages learn for so many accesses.
    lesson: u64,
    /// Of probes.
    backoff: Backoff,
}

impl Default for Copies {
    fn default() -> Self {
        Copies {
            samples: 0.0,
            saved: 0.0,
            exposure: 0.0,
            saved_since: 0.0,
            exposure_since: 0.0,
            mature: 0,
            warming: 0,
            warm_up_ends: Duration::ZERO,
            accesses: 0,
            learn_since: 0,
            learners: 0,
            lesson: 0,
            backoff: Backoff::new(MIN_BACKOFF, MAX_BACKOFF),
        }
    }
}

impl Copies {
    /// Takes in a round: its samples, how many of them warm pages served, and the number of pages
    /// now. Returns how many are warm from now on.
    pub fn observe(&mut self, samples: u64, saved: f64, pages: usize, now: Duration) -> usize {
        // Without samples the estimates stay.
        if samples > 0 {
            let exposure = samples as f64 * self.mature as f64;
            self.samples += samples as f64;
            self.saved = REMEMBERED * self.saved + saved;
            self.exposure = REMEMBERED * self.exposure + exposure;
            self.saved_since += saved;
            self.exposure_since += exposure;
        }
        // A clock that was set back must not end this for good.
        self.warm_up_ends = self.warm_up_ends.min(now.saturating_add(WARM_UP));
        if now >= self.warm_up_ends {
            self.mature = self.warming;
            self.warming = pages;
            self.warm_up_ends = now.saturating_add(WARM_UP);
        }
        self.warming = self.warming.min(pages);
        self.mature = self.mature.min(pages);
        if self.mature == 0 {
            self.forget();
        }
        self.mature
    }

    /// Takes in how many accesses a round had, the number of pages now, and how many records are
    /// slow.
    pub fn learn(&mut self, accesses: u64, pages: usize, records: usize) {
        self.accesses += accesses;
        if pages > self.learners + self.learners / GROWTH / 2 {
            (self.learn_since, self.learners) = (self.accesses, pages);
        }
        self.lesson = records as u64;
        self.learners = self.learners.min(pages);
    }

    /// Whether pages still learn which records are hot: they are not judged.
    pub fn is_learning(&self) -> bool {
        self.accesses - self.learn_since < self.lesson
    }

    /// No page is warm.
    fn forget(&mut self) {
        (self.saved, self.exposure) = (0.0, 0.0);
        (self.saved_since, self.exposure_since) = (0.0, 0.0);
    }

    /// Whether pages pay, or may pay, given how many there would be: those that are there and those
    /// that would replace colder leaves. If not, all of them should go.
    pub fn pay(&mut self, pages: usize, now: Duration) -> bool {
        let barely = PAYS / pages.max(1) as f64 * self.exposure_since;
        if barely < ENOUGH {
            return true;
        }
        if self.is_learning() {
            (self.saved_since, self.exposure_since) = (0.0, 0.0);
            return true;
        }
        let pay = self.saved_since >= barely;
        (self.saved_since, self.exposure_since) = (0.0, 0.0);
        match pay {
            true => self.backoff.succeeded(),
            false => self.backoff.begin(now),
        }
        pay
    }

    /// The hot set has moved: what probes found out before is no longer true.
    pub fn moved(&mut self) {
        self.backoff = Backoff::new(MIN_BACKOFF, MAX_BACKOFF);
        (self.saved_since, self.exposure_since) = (0.0, 0.0);
    }

    /// All heat was halved.
    pub fn cooled(&mut self) {
        self.samples /= 2.0;
    }

    /// The average heat of a warm page, scaled as if it had been there for all samples; `None` if
    /// it is unknown.
    pub fn heat(&self) -> Option<u16> {
        (self.exposure > 0.0).then(|| {
            let samples = self.saved * self.samples / self.exposure;
            (samples * f64::from(SAMPLE)).clamp(0.0, HOTTEST.into()) as u16
        })
    }

    /// The heat below which leaves do not replace pages, given their number and the most that there
    /// may be: while these learn, four times what is known, and a probe is none.
    pub fn heat_as_victims(&self, (pages, most): (usize, usize)) -> Option<u16> {
        let heat = self.heat()?;
        match self.is_learning() {
            true if pages <= most.div_ceil(PROBE) => None,
            true => Some((LEARNED * heat).min(HOTTEST)),
            false => Some(heat),
        }
    }

    /// How many new pages are candidates, and the heat of each, given the number of pages and its
    /// maximum. `enough` is the heat with which a leaf would be promoted.
    pub fn candidates(
        &mut self,
        (pages, most): (usize, usize),
        enough: u16,
        now: Duration,
    ) -> (usize, u16) {
        let probe = most.div_ceil(PROBE);
        if pages >= probe {
            return match self.heat() {
                None | Some(0) => (0, 0),
                // Samples of all pages count, so no margin; but pages must not replace pages.
                Some(heat) => {
                    let more = (pages / GROWTH).max(1).min(most - pages);
                    (more, Margin::OF_NODES.worth_it(heat) - 1)
                }
            };
        }
        if !self.backoff.is_over(now) {
            return (0, 0);
        }
        self.backoff.begin(now);
        self.backoff.failed();
        (probe - pages, enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_tree_without_copies_is_asked_for_none() {
        assert_eq!(Copies::default().candidates((0, 0), 16, SECOND).0, 0);
    }

    #[test]
    fn some_pages_come_whatever_they_are_worth_but_ever_more_rarely() {
        let mut copies = Copies::default();
        let mut probes = Vec::new();
        for second in 0..60 {
            // Each probe is soon gone.
            let (pages, heat) = copies.candidates((0, 640), 99, second * SECOND);
            if pages > 0 {
                assert_eq!((pages, heat), (10, 99));
                probes.push(second);
            }
        }
        assert_eq!(probes, [0, 2, 6, 14, 30, 46]);
    }

    #[test]
    fn a_page_tells_nothing_before_it_is_mature() {
        let mut copies = Copies::default();
        let mut mature = |pages, halves| copies.observe(100, 0.0, pages, halves * WARM_UP);
        assert_eq!(mature(0, 0), 0);
        assert_eq!(mature(10, 1), 0);
        assert_eq!(mature(30, 2), 10);
        assert_eq!(mature(40, 3), 30);
        assert_eq!(mature(20, 3), 20, "those that went");
        assert_eq!(mature(50, 4), 20);
        assert_eq!(mature(50, 5), 50);
        assert_eq!(mature(0, 5), 0);
        assert_eq!(copies.heat(), None);
    }

    #[test]
    fn pages_go_where_all_that_there_may_be_would_answer_too_little() {
        // One access in `every` finds a copy where there are all 640 pages; 10 are there.
        let verdict = |every: f64| {
            let mut copies = Copies::default();
            copies.observe(0, 0.0, 10, Duration::ZERO);
            copies.observe(0, 0.0, 10, SECOND);
            (0..)
                .map(|round| {
                    copies.observe(1000, 1000.0 / every / 64.0, 10, SECOND);
                    (round, copies.pay(640, SECOND), copies.exposure_since)
                })
                .find(|(_, pay, left)| !pay || *left == 0.0)
                .map(|(round, pay, _)| (round, pay))
        };
        // 16 samples, one in 32 of one in 64.
        assert_eq!(verdict(16.0), Some((32, true)));
        assert_eq!(verdict(64.0), Some((32, false)));
    }

    #[test]
    fn the_next_probe_comes_soon_where_copies_paid_and_where_the_hot_set_moved() {
        let mut copies = Copies::default();
        for second in [0, 2, 6, 14] {
            assert_eq!(copies.candidates((0, 640), 99, second * SECOND).0, 10);
        }
        let next = |copies: &mut Copies, from: u32| {
            let asks = |second: &u32| copies.candidates((0, 640), 99, *second * SECOND).0 > 0;
            (from..from + 20).find(asks).map(|second| second - from)
        };
        assert_eq!(next(&mut copies, 20), Some(10), "16 s after the last");
        copies.moved();
        assert_eq!(next(&mut copies, 40), Some(0));
        (copies.exposure_since, copies.saved_since) = (1e9, 1e9);
        assert!(copies.pay(640, 50 * SECOND));
        assert_eq!(next(&mut copies, 50), Some(0));
        (copies.exposure_since, copies.saved_since) = (1e9, 0.0);
        assert!(!copies.pay(640, 51 * SECOND));
        assert_eq!(next(&mut copies, 51), Some(4), "not at once");
    }

    /// Ten warm pages of this many samples each.
    fn known(samples: f64) -> Copies {
        let mut copies = Copies::default();
        for (round, seen) in [(0, 0), (1, 0), (1, 1000)] {
            copies.observe(seen, seen as f64 / 100.0 * samples, 10, round * SECOND);
        }
        assert_eq!(copies.heat(), Some(samples as u16 * SAMPLE));
        copies
    }

    #[test]
    fn pages_learn_for_an_access_to_each_slow_record() {
        let mut copies = Copies::default();
        let mut learns = |accesses: u64, pages| {
            copies.learn(accesses, pages, 5000);
            copies.is_learning()
        };
        assert!(learns(4000, 10));
        assert!(learns(4000, 11), "nearly as many");
        assert!(!learns(4000, 10));
        assert!(learns(0, 20), "new ones");
        assert!(!learns(5000, 20));
        let mut copies = known(7.0);
        assert_eq!(copies.heat_as_victims((10, 640)), Some(7 * SAMPLE));
        copies.learn(0, 10, 5000);
        assert_eq!(copies.heat_as_victims((11, 640)), Some(28 * SAMPLE));
        assert_eq!(copies.heat_as_victims((10, 640)), None, "a probe");
        // Learning pages are not judged, however little they answer.
        let mut copies = known(0.0);
        copies.learn(0, 10, 5000);
        copies.observe(100_000, 0.0, 10, SECOND);
        assert!(copies.pay(640, SECOND));
        copies.learn(8000, 10, 5000);
        copies.observe(100_000, 0.0, 10, SECOND);
        assert!(!copies.pay(640, SECOND));
    }

    #[test]
    fn an_idle_tree_learns_nothing() {
        let mut copies = Copies::default();
        for (round, saved) in [(0, 0.0), (1, 0.0), (2, 50.0)] {
            copies.observe(1000, saved, 10, round * SECOND);
        }
        let known = copies.heat();
        assert!(known.is_some_and(|heat| heat > 0));
        for round in 3..10_000 {
            copies.observe(0, 0.0, 10, round * SECOND);
        }
        assert_eq!(copies.heat(), known);
    }

    #[test]
    fn more_come_as_hot_as_those_that_are_there() {
        let mut copies = Copies::default();
        copies.observe(500, 0.0, 10, Duration::ZERO);
        assert_eq!(copies.candidates((10, 640), 99, SECOND), (0, 0));
        assert_eq!(copies.observe(500, 0.0, 10, SECOND), 10);
        // 5 samples a page in half of the time: 10 for one that was always there.
        copies.observe(1000, 50.0, 20, SECOND);
        let at_ten = Margin::OF_NODES.worth_it(10 * SAMPLE) - 1;
        assert_eq!(copies.candidates((10, 640), 99, SECOND), (2, at_ten));
        assert_eq!(copies.observe(0, 0.0, 20, 2 * SECOND), 10);
        assert_eq!(copies.observe(0, 0.0, 20, 3 * SECOND), 20);
        // 0.8 × 50 and 320 samples, on 0.8 × 10 × 1000 and 20 × 2000 pages times samples, of 4000
        // samples in all: 30 a page.
        copies.observe(2000, 320.0, 20, 3 * SECOND);
        let at_thirty = Margin::OF_NODES.worth_it(30 * SAMPLE) - 1;
        assert_eq!(copies.candidates((20, 640), 99, SECOND), (5, at_thirty));
        copies.cooled();
        let at_fifteen = Margin::OF_NODES.worth_it(15 * SAMPLE) - 1;
        assert_eq!(copies.candidates((20, 640), 99, SECOND), (5, at_fifteen));
        assert_eq!(copies.candidates((638, 640), 99, SECOND), (2, at_fifteen));
        assert_eq!(copies.candidates((640, 640), 99, SECOND).0, 0);
    }
}
