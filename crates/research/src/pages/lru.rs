//! The two lists by which Linux finds cold pages of fast memory: active and inactive, each a queue
//! (`mm/vmscan.c`; TPP, ASPLOS 2023, §5.1).
//!
//! Modelled: a page at the end of the inactive list goes to the active list if it was
//! accessed since the last check, and is demoted if not; the active list gives pages to the
//! inactive one, without regard to their accessed bit, as long as it is the longer one (Linux's
//! ratio for nodes below 1 GiB). Left out: the multi-generational LRU, refault distances, batches
//! and priorities of a scan, file pages.
//!
//! Invariant: a page that was added here is in exactly one list as long as it is fast; demotion
//! here removes it.

use std::collections::VecDeque;
use std::time::Duration;

use super::PageTable;

/// The delay until demotion continues when a step could not check enough pages. Steps are short,
/// since faulting threads wait for their end.
pub const SOON: Duration = Duration::from_millis(1);

#[derive(Default)]
pub struct Lru {
    active: VecDeque<usize>,
    inactive: VecDeque<usize>,
}

impl Lru {
    /// A page that became fast and has yet to be accessed again.
    pub fn push_inactive(&mut self, page: usize) {
        self.inactive.push_back(page);
    }

    /// A page that became fast because it is accessed.
    pub fn push_active(&mut self, page: usize) {
        self.active.push_back(page);
    }

    /// Demotes up to `want` pages, looking at no more than `looks`; calls `demoted` for each.
    /// Returns whether all that were wanted went.
    pub fn reclaim(
        &mut self,
        table: &mut PageTable,
        want: usize,
        looks: usize,
        mut demoted: impl FnMut(usize),
    ) -> bool {
        let mut went = 0;
        for _ in 0..looks {
            if went == want {
                break;
            }
            if self.active.len() > self.inactive.len()
                && let Some(page) = self.active.pop_front()
            {
                table.take_accessed(page);
                self.inactive.push_back(page);
            }
            let Some(page) = self.inactive.pop_front() else {
                continue;
            };
            if table.take_accessed(page) {
                self.active.push_back(page);
            } else {
                table.demote(page);
                demoted(page);
                went += 1;
            }
        }
        went == want
    }
}
