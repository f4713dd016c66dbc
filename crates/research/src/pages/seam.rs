//! The two traits between page schemes and the pages that they move.

use std::time::Duration;

use timberline_tier::TierId;
use timberline_tier::emulator::PageMap;

use super::PageTable;
use timberline_placement::View;

/// Pages, as a kernel has them: entries of a page table. All of it may be called beside any access.
pub trait Pages: Send + Sync {
    /// How many there are, used or not. Their numbers are those below.
    fn pages(&self) -> usize;

    /// The tier of a page.
    fn tier(&self, page: usize) -> TierId;

    /// Puts a page into a tier.
    fn set_tier(&self, page: usize, tier: TierId);

    /// Arms a page, so that its next access faults, or disarms it.
    fn arm(&self, page: usize, armed: bool);

    /// Turns the sampling of accesses to a page on or off.
    fn count(&self, page: usize, counted: bool);

    /// Reads and clears a page's accessed bit.
    fn take_accessed(&self, page: usize) -> bool;

    /// The interval between sampled accesses from now on.
    fn sample_every(&self, accesses: u32);
}

impl Pages for PageMap {
    fn pages(&self) -> usize {
        self.pages()
    }

    fn tier(&self, page: usize) -> TierId {
        self.tier(page)
    }

    fn set_tier(&self, page: usize, tier: TierId) {
        self.set_tier(page, tier);
    }

    fn arm(&self, page: usize, armed: bool) {
        self.arm(page, armed);
    }

    fn count(&self, page: usize, counted: bool) {
        self.count(page, counted);
    }

    fn take_accessed(&self, page: usize) -> bool {
        self.take_accessed(page)
    }

    fn sample_every(&self, accesses: u32) {
        self.sample_every(accesses);
    }
}

/// When a step is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// For how long the pages have been in use.
    pub now: Duration,
    /// How many requests were done with them until then.
    pub done: u64,
}

/// Decides which tier each page is in. One call at a time; the table charges its work to the
/// calling thread.
pub trait PageScheme: Send {
    /// A page comes into use: it is to be [`place`](PageTable::place)d.
    fn place(&mut self, table: &mut PageTable, page: usize);

    /// A thread faulted on an armed page, and waits.
    fn faulted(&mut self, table: &mut PageTable, page: usize, now: Duration) {
        let _ = (table, page, now);
    }

    /// The processor took a sample: an access to this page.
    fn sampled(&mut self, table: &mut PageTable, page: usize) {
        let _ = (table, page);
    }

    /// Its current estimates, if it keeps heat of pages, or watermarks.
    fn view(&self) -> Option<View> {
        None
    }

    /// A bounded piece of work in the background. Returns how long after its end the next one is
    /// due.
    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration;
}
