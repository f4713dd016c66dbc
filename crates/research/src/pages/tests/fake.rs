//! Pages for tests of schemes: accessed by hand, with a time that only the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use timberline_tier::TierId;
use timberline_tier::emulator::{PageEvent, PageWatch};

use crate::pages::{Moment, PageCosts, PageScheme, PageTable, Paged, Pages, Tally};
use timberline_placement::workers::Waker;

const FAST: u8 = 1;
const ARMED: u8 = 2;
const ACCESSED: u8 = 4;
const COUNTED: u8 = 8;

/// Pages that are accessed when a test says so.
pub struct FakePages {
    pages: Vec<AtomicU8>,
    interval: AtomicU32,
    until_sample: AtomicU32,
}

impl FakePages {
    pub fn new(pages: usize) -> FakePages {
        FakePages {
            pages: (0..pages).map(|_| AtomicU8::new(0)).collect(),
            interval: AtomicU32::new(u32::MAX),
            until_sample: AtomicU32::new(u32::MAX),
        }
    }

    fn mark(&self, page: usize, mark: u8, on: bool) {
        match on {
            true => self.pages[page].fetch_or(mark, Relaxed),
            false => self.pages[page].fetch_and(!mark, Relaxed),
        };
    }

    /// What an access to a page brings about.
    fn access(&self, page: usize) -> Vec<PageEvent> {
        let before = self.pages[page].load(Relaxed);
        self.mark(page, ARMED, false);
        self.mark(page, ACCESSED, true);
        let mut events = Vec::new();
        if before & ARMED != 0 {
            events.push(PageEvent::Fault);
        }
        if before & COUNTED != 0 {
            let interval = self.interval.load(Relaxed);
            let left = self.until_sample.load(Relaxed).min(interval) - 1;
            if left == 0 {
                events.push(PageEvent::Sample);
            }
            self.until_sample
                .store(if left == 0 { interval } else { left }, Relaxed);
        }
        events
    }
}

impl Pages for FakePages {
    fn pages(&self) -> usize {
        self.pages.len()
    }

    fn tier(&self, page: usize) -> TierId {
        match self.pages[page].load(Relaxed) & FAST {
            0 => TierId::SLOW,
            _ => TierId::FAST,
        }
    }

    fn set_tier(&self, page: usize, tier: TierId) {
        self.mark(page, FAST, tier.is_fast());
    }

    fn arm(&self, page: usize, armed: bool) {
        self.mark(page, ARMED, armed);
    }

    fn count(&self, page: usize, counted: bool) {
        self.mark(page, COUNTED, counted);
    }

    fn take_accessed(&self, page: usize) -> bool {
        self.pages[page].fetch_and(!ACCESSED, Relaxed) & ACCESSED != 0
    }

    fn sample_every(&self, accesses: u32) {
        self.interval.store(accesses, Relaxed);
    }
}

/// A scheme on fake pages, stepped by hand. After each call the budget and the table's own count
/// are checked.
pub struct Rig {
    pub pages: Arc<FakePages>,
    pub paged: Paged,
    waker: Waker,
    now: Duration,
    due: Duration,
    /// Requests done so far; a test may add to it.
    pub done: u64,
    /// What steps cost so far.
    pub cost: Duration,
}

impl Rig {
    /// Pages that are all in use, `limit` of which may be fast.
    pub fn new(
        pages: usize,
        limit: usize,
        scheme: impl FnOnce(&mut PageTable) -> Box<dyn PageScheme>,
    ) -> Rig {
        Rig::with_unused(pages, pages, limit, scheme)
    }

    /// The first `used` of these pages are in use.
    pub fn with_unused(
        pages: usize,
        used: usize,
        limit: usize,
        scheme: impl FnOnce(&mut PageTable) -> Box<dyn PageScheme>,
    ) -> Rig {
        let pages = Arc::new(FakePages::new(pages));
        let mut table = PageTable::new(pages.clone(), limit, PageCosts::default());
        let scheme = scheme(&mut table);
        let paged = Paged::new(scheme, table);
        paged.place(0..used);
        let waker = paged.waker();
        let rig = Rig {
            pages,
            paged,
            waker,
            now: Duration::ZERO,
            due: Duration::ZERO,
            done: 0,
            cost: Duration::ZERO,
        };
        rig.check();
        rig
    }

    /// One access. Returns the delay of the accessing thread, ns.
    pub fn access(&mut self, page: usize) -> u64 {
        let events = self.pages.access(page);
        let delay = |event| self.paged.on_event(page, event, self.now);
        let held_up = events.into_iter().map(delay).sum();
        self.check();
        held_up
    }

    /// One access to each.
    pub fn access_all(&mut self, pages: impl IntoIterator<Item = usize>) {
        for page in pages {
            self.access(page);
        }
    }

    /// Takes the steps that come due within `time`.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.waker.take();
        while self.due <= end {
            self.now = self.now.max(self.due);
            let turn = self.paged.step(Moment {
                now: self.now,
                done: self.done,
            });
            self.cost += turn.cost;
            self.due = self.now + turn.next;
            self.check();
        }
        self.now = end;
    }

    pub fn arm_all(&self) {
        for page in 0..self.pages.pages() {
            self.pages.arm(page, true);
        }
    }

    pub fn is_woken(&self) -> bool {
        self.waker.take()
    }

    pub fn is_fast(&self, page: usize) -> bool {
        self.pages.tier(page).is_fast()
    }

    /// The fast pages.
    pub fn fast(&self) -> Vec<usize> {
        let pages = 0..self.pages.pages();
        pages.filter(|&page| self.is_fast(page)).collect()
    }

    /// Pages promoted and demoted.
    pub fn moves(&self) -> (u64, u64) {
        let Tally {
            promoted, demoted, ..
        } = self.paged.tally();
        (promoted, demoted)
    }

    fn check(&self) {
        let Tally {
            fast, peak, limit, ..
        } = self.paged.tally();
        assert_eq!(fast, self.fast().len(), "the table's count is true");
        assert!(peak <= limit && fast <= peak, "{fast}, {peak} of {limit}");
    }
}
