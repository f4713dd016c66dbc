//! The scan that arms pages for hint faults: a number of pages in each period, cyclically (Linux:
//! `task_numa_work`).

use std::time::Duration;

use super::PageTable;

/// The rate of the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanConfig {
    /// Pages in a period: `numa_balancing_scan_size_mb`, 256 MiB.
    pub pages: usize,
    /// The period: `numa_balancing_scan_period_min_ms`, 1 s.
    pub period: Duration,
}

impl Default for ScanConfig {
    fn default() -> Self {
        ScanConfig {
            pages: (256 << 20) / 4096,
            period: Duration::from_secs(1),
        }
    }
}

/// Goes over the pages in use, in the order in which they came. A period's pages are spread evenly
/// over it; all of them are met at most once a period.
pub struct Scanner {
    config: ScanConfig,
    next: usize,
    last: Duration,
    owed: f64,
}

impl Scanner {
    pub fn new(config: ScanConfig) -> Scanner {
        Scanner {
            config,
            next: 0,
            last: Duration::ZERO,
            owed: 0.0,
        }
    }

    /// Visits the pages that are due since the last call.
    pub fn sweep(
        &mut self,
        table: &mut PageTable,
        now: Duration,
        mut visit: impl FnMut(&mut PageTable, usize),
    ) {
        let most = self.config.pages.min(table.in_use().len());
        let periods = now
            .saturating_sub(self.last)
            .div_duration_f64(self.config.period);
        self.last = now;
        self.owed = (self.owed + periods * most as f64).min(most as f64);
        let due = self.owed as usize;
        self.owed -= due as f64;
        for _ in 0..due {
            self.next %= table.in_use().len();
            let page = table.in_use()[self.next];
            visit(table, page);
            self.next += 1;
        }
    }
}
