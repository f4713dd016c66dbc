//! How much of fast memory copies of hot records get, against whole leaves.
//!
//! A hash spreads records over pages, so each page is about as hot as any other, and one more would
//! be, too. So pages ask for places like slow leaves do, as hot as those there are on average, and
//! where leaves are hotter than that, pages go like cold leaves. What no page tells is learned from
//! a few, which come now and then whatever they are worth.

use std::time::Duration;

use super::exchange::worth_it;
use super::heat::{HOTTEST, SAMPLE};
use super::rest::Rest;

/// One in so many of the pages there may be tell what pages are worth.
const PROBE: usize = 64;
/// From one probe to the next; doubled each time that it came to nothing.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// What is left of a round's weight with each round that follows.
const REMEMBERED: f64 = 0.8;
/// No more pages come in a round than this part of those there are.
const GROWTH: usize = 4;
/// A page is mature that was there this long, and no longer than twice as long: it knows most of
/// what is hot then.
const CHILDHOOD: Duration = Duration::from_millis(500);

/// See the [module's text](self).
pub struct Copies {
    /// Samples of all accesses, halved whenever heat is.
    samples: f64,
    /// Samples that found a copy in a mature page lately, less those that changed a record with a
    /// copy there: a record that is read to be changed is fetched from its leaf all the same.
    saved: f64,
    /// Mature pages, each counted for all samples lately.
    exposure: f64,
    /// How many there are, and of how many it will be so next.
    mature: usize,
    children: usize,
    grown_up_at: Duration,
    /// From one probe to the next.
    rest: Rest,
}

impl Default for Copies {
    fn default() -> Self {
        Copies {
            samples: 0.0,
            saved: 0.0,
            exposure: 0.0,
            mature: 0,
            children: 0,
            grown_up_at: Duration::ZERO,
            rest: Rest::new(PAUSE, LONGEST_PAUSE),
        }
    }
}

impl Copies {
    /// Takes in a round's samples, how many of them were saved a slow leaf by mature pages (less
    /// than none, if changes undid it), and that there are so many pages now. Returns how many are
    /// mature from now on.
    pub fn observe(&mut self, samples: u64, saved: f64, pages: usize, now: Duration) -> usize {
        // Where nobody asks, nothing is learned, and nothing forgotten.
        if samples > 0 {
            self.samples += samples as f64;
            self.saved = REMEMBERED * self.saved + saved;
            self.exposure = REMEMBERED * self.exposure + samples as f64 * self.mature as f64;
        }
        // A clock that was set back must not end this for good.
        self.grown_up_at = self.grown_up_at.min(now.saturating_add(CHILDHOOD));
        if now >= self.grown_up_at {
            self.mature = self.children;
            self.children = pages;
            self.grown_up_at = now.saturating_add(CHILDHOOD);
        }
        self.children = self.children.min(pages);
        self.mature = self.mature.min(pages);
        if self.mature == 0 {
            (self.saved, self.exposure) = (0.0, 0.0);
        }
        self.mature
    }

    /// All heat was halved.
    pub fn cooled(&mut self) {
        self.samples /= 2.0;
    }

    /// How hot a mature page is on average, as if it had been there as long as anything is known;
    /// `None` as long as nothing tells.
    pub fn heat(&self) -> Option<u16> {
        (self.exposure > 0.0).then(|| {
            let samples = self.saved * self.samples / self.exposure;
            (samples * f64::from(SAMPLE)).clamp(0.0, HOTTEST.into()) as u16
        })
    }

    /// How many pages ask for places, and how hot each is, where there are some, may be others, and
    /// a leaf of the heat `enough` would get a place.
    pub fn asking(
        &mut self,
        (pages, most): (usize, usize),
        enough: u16,
        now: Duration,
    ) -> (usize, u16) {
        let probe = most.div_ceil(PROBE);
        if pages >= probe {
            if pages >= 2 * probe {
                self.rest.shorten();
            }
            return match self.heat() {
                None | Some(0) => (0, 0),
                // Samples of all pages tell: no margin, but that pages don't take the place of
                // pages.
                Some(heat) => {
                    let more = (pages / GROWTH).max(1).min(most - pages);
                    (more, worth_it(heat) - 1)
                }
            };
        }
        if !self.rest.is_over(now) {
            return (0, 0);
        }
        self.rest.begin(now);
        self.rest.lengthen();
        (probe - pages, enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_tree_without_copies_is_asked_for_none() {
        assert_eq!(Copies::default().asking((0, 0), 16, SECOND).0, 0);
    }

    #[test]
    fn some_pages_come_whatever_they_are_worth_but_ever_more_rarely() {
        let mut copies = Copies::default();
        let mut probes = Vec::new();
        for second in 0..60 {
            // Each probe is soon gone.
            let (pages, heat) = copies.asking((0, 640), 99, second * SECOND);
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
        let mut mature = |pages, halves| copies.observe(100, 0.0, pages, halves * CHILDHOOD);
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
        assert_eq!(copies.asking((10, 640), 99, SECOND), (0, 0));
        assert_eq!(copies.observe(500, 0.0, 10, SECOND), 10);
        // 5 samples a page in half of the time: 10 for one that was always there.
        copies.observe(1000, 50.0, 20, SECOND);
        let at_ten = worth_it(10 * SAMPLE) - 1;
        assert_eq!(copies.asking((10, 640), 99, SECOND), (2, at_ten));
        assert_eq!(copies.observe(0, 0.0, 20, 2 * SECOND), 10);
        assert_eq!(copies.observe(0, 0.0, 20, 3 * SECOND), 20);
        // 0.8 × 50 and 320 samples, on 0.8 × 10 × 1000 and 20 × 2000 pages times samples, of 4000
        // samples in all: 30 a page.
        copies.observe(2000, 320.0, 20, 3 * SECOND);
        let at_thirty = worth_it(30 * SAMPLE) - 1;
        assert_eq!(copies.asking((20, 640), 99, SECOND), (5, at_thirty));
        copies.cooled();
        let at_fifteen = worth_it(15 * SAMPLE) - 1;
        assert_eq!(copies.asking((20, 640), 99, SECOND), (5, at_fifteen));
        assert_eq!(copies.asking((638, 640), 99, SECOND), (2, at_fifteen));
        assert_eq!(copies.asking((640, 640), 99, SECOND).0, 0);
    }
}
