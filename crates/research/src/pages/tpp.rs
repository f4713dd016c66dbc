//! `tpp`: Transparent Page Placement (Maruf et al., *TPP: Transparent Page Placement for
//! CXL-Enabled Tiered-Memory*, ASPLOS 2023).
//!
//! Modelled, by the paper's sections:
//! - §5.1 demotion: cold pages of fast memory, by Linux's two lists ([`Lru`]), go to slow memory.
//! - §5.2 allocation and reclamation have watermarks of their own: demotion begins when less than
//!   `headroom` of fast memory is free, and new pages may use the last of it.
//! - §5.3 promotion: only slow pages are armed for hint faults. A page that faults and is not on
//!   its active list is put there; one that is there already is promoted, at once, by the thread
//!   that faulted.
//!
//! Left out: page types (all are anonymous, §5.4), the active list of slow memory growing old
//! (nothing reclaims slow memory here), several NUMA nodes of CPUs, and promotions that fail for
//! reasons other than a full tier.

use std::time::Duration;

use timberline_tier::TierId;

use super::lru::{Lru, SOON};
use super::scan::{ScanConfig, Scanner};
use super::{Moment, PageScheme, PageTable};
use timberline_placement::View;

use crate::table::{Kind, Make, Row, Style, Tiers};

pub(crate) const TPP: Row = Row {
    paper: Some("TPP §5"),
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    style: Style::of("#c23a5b", "#f27d97"),
    ..Row::new(
        "tpp",
        "pages: hint faults on slow pages promote, Linux's LRU lists demote",
        Make::Pages(|_, table| Box::new(Tpp::new(table, TppConfig::default()))),
    )
};

/// Parameters of [`Tpp`].
#[derive(Clone, Copy, Debug)]
pub struct TppConfig {
    /// How slow pages are scanned.
    pub scan: ScanConfig,
    /// The fraction of fast memory that demotion keeps free: `demote_scale_factor`, 2 %.
    pub headroom: f64,
    /// How often the worker looks.
    pub period: Duration,
    /// Pages that a step looks at for demotion, at most.
    pub looks: usize,
}

impl Default for TppConfig {
    fn default() -> Self {
        TppConfig {
            scan: ScanConfig::default(),
            headroom: 0.02,
            period: Duration::from_millis(10),
            looks: 128,
        }
    }
}

/// The scheme `tpp`: promotes slow pages that fault while on the active list, and demotes aged
/// pages to keep headroom.
pub struct Tpp {
    config: TppConfig,
    scanner: Scanner,
    lru: Lru,
    /// Slow pages that faulted before.
    active: Vec<bool>,
}

impl Tpp {
    /// The scheme for all pages of a table.
    pub fn new(table: &PageTable, config: TppConfig) -> Tpp {
        Tpp {
            config,
            scanner: Scanner::new(config.scan),
            lru: Lru::default(),
            active: vec![false; table.pages()],
        }
    }

    /// Pages that are to be free.
    fn headroom(&self, table: &PageTable) -> usize {
        (table.limit() as f64 * self.config.headroom).ceil() as usize
    }
}

impl PageScheme for Tpp {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        if table.place(page, TierId::FAST).is_fast() {
            self.lru.push_inactive(page);
        }
    }

    fn faulted(&mut self, table: &mut PageTable, page: usize, _: Duration) {
        if table.is_fast(page) {
            return;
        }
        if !std::mem::replace(&mut self.active[page], true) {
            return;
        }
        if table.promote(page) {
            self.lru.push_active(page);
        }
        // A demotion run for each page would take time from the threads that fault.
        if 2 * table.free() < self.headroom(table) {
            table.wake();
        }
    }

    fn view(&self) -> Option<View> {
        let headroom = self.config.headroom;
        let (until, from) = (1.0 - headroom, 1.0 - headroom / 2.0);
        Some(View {
            watermarks: vec![("demotion ends", until), ("demotion begins", from)],
            ..View::default()
        })
    }

    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration {
        self.scanner.sweep(table, at.now, |table, page| {
            if !table.is_fast(page) {
                table.arm(page);
            }
        });
        let want = self.headroom(table).saturating_sub(table.free());
        let active = &mut self.active;
        let demoted = |page: usize| active[page] = false;
        match self.lru.reclaim(table, want, self.config.looks, demoted) {
            true => self.config.period,
            false => SOON,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::Rig;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Ten fast pages of twenty, one of ten to be kept free, all scanned once a second.
    fn rig() -> Rig {
        Rig::new(20, 10, |table| {
            Box::new(Tpp::new(
                table,
                TppConfig {
                    headroom: 0.1,
                    ..TppConfig::default()
                },
            ))
        })
    }

    #[test]
    fn a_slow_page_is_promoted_at_its_second_fault() {
        let mut rig = rig();
        assert_eq!(rig.fast(), (0..10).collect::<Vec<_>>(), "first come");
        rig.run_for(SECOND);
        // Page 0 was not accessed after it came, so it was demoted.
        assert_eq!(rig.fast(), (1..10).collect::<Vec<_>>());
        rig.access(15);
        assert!(!rig.is_fast(15), "active, and armed no more");
        rig.access(15);
        assert!(!rig.is_fast(15), "no fault without a scan");
        rig.run_for(SECOND);
        assert!(rig.access(15) > 0, "the thread waits for the copy");
        assert!(rig.is_fast(15));
        assert_eq!(rig.moves(), (1, 1));
    }

    #[test]
    fn what_is_accessed_stays_and_the_first_cold_page_goes() {
        let mut rig = rig();
        rig.run_for(SECOND);
        rig.access_all([1, 2, 3, 15]);
        rig.run_for(SECOND);
        rig.access_all([1, 2, 3, 15]);
        assert!(rig.is_fast(15));
        rig.run_for(SECOND);
        // Pages 1 to 3 were accessed and went to the active list; page 4 was not.
        assert_eq!(rig.fast(), [1, 2, 3, 5, 6, 7, 8, 9, 15]);
        assert_eq!(rig.moves(), (1, 2));
    }

    #[test]
    fn a_new_page_may_use_the_headroom() {
        let mut rig = Rig::with_unused(20, 10, 10, |table| {
            Box::new(Tpp::new(
                table,
                TppConfig {
                    headroom: 0.1,
                    ..TppConfig::default()
                },
            ))
        });
        rig.run_for(SECOND);
        assert_eq!(rig.fast().len(), 9);
        assert_eq!(rig.access(19), 0, "a first access is nobody's fault");
        assert!(rig.is_fast(19));
        assert_eq!(rig.fast().len(), 10);
        rig.access(18);
        assert!(!rig.is_fast(18), "full");
    }

    /// Without room in fast memory a fault promotes nothing, and demotion is asked for at once.
    #[test]
    fn a_full_tier_promotes_nothing() {
        let mut rig = rig();
        rig.arm_all();
        rig.access(15);
        rig.arm_all();
        rig.access(15);
        assert!(!rig.is_fast(15));
        assert!(rig.is_woken());
    }
}
