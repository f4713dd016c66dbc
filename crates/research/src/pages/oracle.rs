//! `oracle-pages`: static placement of pages from exact frequencies. It is told the number of cache
//! misses of each page, puts the pages with the most into fast memory, as many as fit, and never
//! moves them again.
//!
//! All pages have one size and no page depends on another, so this choice is the best there is, for
//! these frequencies. They come from a rehearsal, in which [`PageCounts`] samples missing lines.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_tier::TierId;
use timberline_tier::emulator::{PageEvent, PageWatch};

use crate::table::{Kind, Make, Row, Style, Tiers};

use super::{Moment, PageScheme, PageTable, Paged};

pub(crate) const ORACLE: Row = Row {
    tiers: Tiers::Slow,
    kind: Kind::Oracle,
    style: Style::of("#7b4bb8", "#c09bf0").pale(50),
    ..Row::new(
        "oracle-pages",
        "pages: static placement from exact frequencies, the best of its kind",
        Make::Pages(|_, _| Box::new(PageOracle)),
    )
};

/// Samples of each page.
pub struct PageCounts(Box<[AtomicU64]>);

impl PageCounts {
    /// For this many pages.
    pub fn new(pages: usize) -> PageCounts {
        PageCounts((0..pages).map(|_| AtomicU64::new(0)).collect())
    }

    /// Puts the pages with the most samples into fast memory, of those in use. Returns the share of
    /// the samples that these pages have: the best that any placement of pages can reach within the
    /// budget. `None` without samples.
    pub fn arrange(&self, paged: &Paged) -> Option<f64> {
        let count = |page: usize| self.0[page].load(Relaxed);
        paged.with_table(|table| {
            let mut pages = table.in_use().to_vec();
            pages.sort_by_key(|&page| (Reverse(count(page)), page));
            let (best, rest) = pages.split_at(table.limit().min(pages.len()));
            for &page in rest {
                table.put(page, TierId::SLOW);
            }
            for &page in best {
                table.put(page, TierId::FAST);
            }
            let sum = |pages: &[usize]| pages.iter().map(|&page| count(page)).sum::<u64>() as f64;
            let all = sum(&pages);
            (all > 0.0).then(|| sum(best) / all)
        })
    }
}

impl PageWatch for PageCounts {
    fn on_event(&self, page: usize, event: PageEvent, _: Duration) -> u64 {
        if event == PageEvent::Sample {
            self.0[page].fetch_add(1, Relaxed);
        }
        0
    }
}

/// The scheme before and after [`PageCounts::arrange`]: nothing moves, and pages that come later
/// are slow.
pub struct PageOracle;

impl PageScheme for PageOracle {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        table.place(page, TierId::SLOW);
    }

    fn step(&mut self, _: &mut PageTable, _: Moment) -> Duration {
        Duration::from_secs(3600)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::Rig;
    use super::*;

    /// Pages 0 to 9 are sampled 0 to 9 times, 45 in all: the best three have 24.
    #[test]
    fn the_best_pages_under_the_budget_are_fast() {
        let rig = Rig::new(10, 3, |_| Box::new(PageOracle));
        let counts = PageCounts::new(10);
        assert_eq!(counts.arrange(&rig.paged), None);
        for page in 0..10 {
            for _ in 0..page {
                counts.on_event(page, PageEvent::Sample, Duration::ZERO);
            }
            counts.on_event(page, PageEvent::Fault, Duration::ZERO);
        }
        assert_eq!(counts.arrange(&rig.paged), Some(24.0 / 45.0));
        assert_eq!(rig.fast(), [7, 8, 9]);
        assert_eq!(rig.moves(), (0, 0));
    }

    #[test]
    fn pages_that_nobody_uses_get_nothing() {
        let rig = Rig::with_unused(10, 4, 8, |_| Box::new(PageOracle));
        let counts = PageCounts::new(10);
        counts.on_event(9, PageEvent::Sample, Duration::ZERO);
        counts.on_event(2, PageEvent::Sample, Duration::ZERO);
        assert_eq!(counts.arrange(&rig.paged), Some(1.0));
        assert_eq!(rig.fast(), [0, 1, 2, 3]);
    }
}
