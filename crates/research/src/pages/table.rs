//! The pages of one map, with what holds for every scheme: the budget, the counts, and the bill.
//!
//! Invariants: the pages in the fast tier are never more than the limit; they are exactly those
//! that the table counts; only the table changes a page's tier.

use std::sync::Arc;

use timberline_tier::TierId;

use super::{PageCosts, Pages};

/// The pages of one map: which are fast, within the budget, and what moving them has cost.
pub struct PageTable {
    pages: Arc<dyn Pages>,
    costs: PageCosts,
    /// Pages in use, in the order in which they came.
    in_use: Vec<usize>,
    is_in_use: Vec<bool>,
    /// Pages that fit into fast memory.
    limit: usize,
    fast: usize,
    peak: usize,
    promoted: u64,
    demoted: u64,
    /// The cost of work since the bill was last taken, ns.
    bill: u64,
    wakes: bool,
    /// What a page's move costs the current thread, ns.
    copy_ns: u64,
}

impl PageTable {
    /// A table in which no page is in use, and none is fast, with room for `limit` fast ones.
    pub fn new(pages: Arc<dyn Pages>, limit: usize, costs: PageCosts) -> PageTable {
        let count = pages.pages();
        for page in 0..count {
            pages.set_tier(page, TierId::SLOW);
        }
        PageTable {
            pages,
            costs,
            in_use: Vec::new(),
            is_in_use: vec![false; count],
            limit,
            fast: 0,
            peak: 0,
            promoted: 0,
            demoted: 0,
            bill: 0,
            wakes: false,
            copy_ns: costs.copy_ns,
        }
    }

    /// All pages, used or not.
    pub fn pages(&self) -> usize {
        self.is_in_use.len()
    }

    /// The pages in use, in the order in which they came.
    pub fn in_use(&self) -> &[usize] {
        &self.in_use
    }

    /// Whether a page is in use.
    pub fn is_in_use(&self, page: usize) -> bool {
        self.is_in_use[page]
    }

    /// The tier of a page.
    pub fn tier(&self, page: usize) -> TierId {
        self.pages.tier(page)
    }

    /// Whether a page is fast.
    pub fn is_fast(&self, page: usize) -> bool {
        self.tier(page).is_fast()
    }

    /// Pages that fit into fast memory.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Pages in fast memory.
    pub fn fast(&self) -> usize {
        self.fast
    }

    /// The most pages that were in fast memory at any moment.
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// Pages that still fit into fast memory.
    pub fn free(&self) -> usize {
        self.limit - self.fast
    }

    /// Pages moved to fast and to slow memory so far.
    pub fn moves(&self) -> (u64, u64) {
        (self.promoted, self.demoted)
    }

    /// What work costs.
    pub fn costs(&self) -> PageCosts {
        self.costs
    }

    /// Whether pages are moved many at a time from now on, in the background, or one by one by the
    /// thread that waits for it.
    pub(super) fn move_in_batches(&mut self, batches: bool) {
        self.copy_ns = match batches {
            true => self.costs.batched_copy_ns,
            false => self.costs.copy_ns,
        };
    }

    /// Adds to the bill of the current thread.
    pub fn charge(&mut self, ns: u64) {
        self.bill += ns;
    }

    /// The cost of work since the last call, ns.
    pub fn take_bill(&mut self) -> u64 {
        std::mem::take(&mut self.bill)
    }

    /// Asks for the scheme's next step at once.
    pub fn wake(&mut self) {
        self.wakes = true;
    }

    /// Whether that was asked for since the last call.
    pub fn take_wake(&mut self) -> bool {
        std::mem::take(&mut self.wakes)
    }

    /// Takes a page into use, in `tier` or, where that is the fast one and full, in the slow one.
    pub fn place(&mut self, page: usize, tier: TierId) -> TierId {
        if !self.is_in_use[page] {
            self.is_in_use[page] = true;
            self.in_use.push(page);
            self.pages.arm(page, false);
        }
        if !self.put(page, tier) {
            self.put(page, TierId::SLOW);
        }
        self.tier(page)
    }

    /// Moves a page to the fast tier; false where it has no room, or the page is there.
    pub fn promote(&mut self, page: usize) -> bool {
        let moves = !self.is_fast(page) && self.put(page, TierId::FAST);
        if moves {
            self.promoted += 1;
            self.bill += self.copy_ns;
        }
        moves
    }

    /// Moves a page to the slow tier; false where it is there.
    pub fn demote(&mut self, page: usize) -> bool {
        let moves = self.is_fast(page) && self.put(page, TierId::SLOW);
        if moves {
            self.demoted += 1;
            self.bill += self.copy_ns;
        }
        moves
    }

    /// Moves pages that are all in the other tier, as one huge page; false where they don't fit.
    pub fn move_huge(&mut self, pages: std::ops::Range<usize>, tier: TierId) -> bool {
        if tier.is_fast() && pages.len() > self.free() {
            return false;
        }
        let moved = pages.len() as u64;
        for page in pages {
            self.put(page, tier);
        }
        match tier.is_fast() {
            true => self.promoted += moved,
            false => self.demoted += moved,
        }
        self.bill += self.costs.huge_copy_ns;
        true
    }

    /// Puts a page into a tier at no cost: its content is new or freed, so nothing is copied. False
    /// where it does not fit.
    pub fn put(&mut self, page: usize, tier: TierId) -> bool {
        match (self.is_fast(page), tier.is_fast()) {
            (false, true) if self.fast == self.limit => return false,
            (false, true) => self.fast += 1,
            (true, false) => self.fast -= 1,
            _ => {}
        }
        self.peak = self.peak.max(self.fast);
        self.pages.set_tier(page, tier);
        true
    }

    /// Makes the next access to a page a fault.
    pub fn arm(&mut self, page: usize) {
        self.bill += self.costs.arm_ns;
        self.pages.arm(page, true);
    }

    /// Reads and clears a page's accessed bit.
    pub fn take_accessed(&mut self, page: usize) -> bool {
        self.bill += self.costs.check_ns;
        self.pages.take_accessed(page)
    }

    /// Counts accesses to all pages.
    pub fn count_all(&mut self) {
        for page in 0..self.pages() {
            self.pages.count(page, true);
        }
    }

    /// The interval between sampled accesses from now on.
    pub fn sample_every(&mut self, accesses: u32) {
        self.pages.sample_every(accesses);
    }

    /// Faults report pages that come into use.
    pub(super) fn await_first_accesses(&self) {
        for page in 0..self.pages() {
            self.pages.arm(page, !self.is_in_use[page]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::FakePages;
    use super::*;

    #[test]
    fn a_move_in_the_background_costs_what_one_of_many_does() {
        let mut table = PageTable::new(Arc::new(FakePages::new(4)), 2, PageCosts::default());
        table.place(0, TierId::SLOW);
        assert!(table.promote(0));
        assert_eq!(table.take_bill(), 5_500);
        table.move_in_batches(true);
        assert!(table.demote(0));
        assert_eq!(table.take_bill(), 1_400);
    }
}
