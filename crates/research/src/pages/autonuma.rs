//! `autonuma`: NUMA balancing in memory-tiering mode, `numa_balancing=2` with `demotion_enabled`
//! (Linux, `kernel/sched/fair.c`; Huang Ying's commits `33024536bafd` hot page selection with hint
//! page fault latency, `c6833e10008f` rate limit, `c959924b0dc5` threshold adjusted automatically),
//! as Taneja (§2.2.1) ran it.
//!
//! Modelled:
//! - Slow pages are armed for hint faults. The time from then to the fault is the *hint fault
//!   latency*: where it is shorter than the hot threshold, the page is hot and promoted at once by
//!   the thread that faulted. It stands for the time between two accesses: a page that is touched
//!   before the scan and again within the threshold after it is promoted, one that is touched once,
//!   before the scan, is not.
//! - While `enough` of fast memory is free, whatever faults is promoted.
//! - No more candidates than the rate limit are promoted in a second; every period the threshold
//!   moves by a sixteenth of its range towards as many candidates as the limit allows.
//! - A promotion that finds no room wakes demotion, which goes by Linux's two lists ([`Lru`]) until
//!   `high` is free.
//!
//! Left out: the adaptation of the scan's period, the handling of threads on several NUMA nodes,
//! and the absolute bound (1 GiB) of enough free memory, which exceeds the memory of emulated
//! machines.

use std::time::Duration;

use timberline_tier::TierId;

use super::lru::{Lru, SOON};
use super::scan::{ScanConfig, Scanner};
use super::{Moment, PageScheme, PageTable};

use crate::table::{Kind, Make, Row, Style, Tiers};

pub(crate) const AUTONUMA: Row = Row {
    paper: Some("AutoNUMA"),
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    style: Style::of("#008591", "#45c5ce"),
    ..Row::new(
        "autonuma",
        "pages: Linux NUMA balancing in memory-tiering mode",
        Make::Pages(|_, table| Box::new(Autonuma::new(table, AutonumaConfig::default()))),
    )
};

/// Steps from the lowest threshold to the highest: `NUMA_MIGRATION_ADJUST_STEPS`.
const STEPS: u32 = 16;

const SECOND: Duration = Duration::from_secs(1);

/// Parameters of [`Autonuma`].
#[derive(Clone, Copy, Debug)]
pub struct AutonumaConfig {
    /// How slow pages are scanned.
    pub scan: ScanConfig,
    /// The hint fault latency below which a page is hot: `hot_threshold_ms`, 1 s.
    pub hot_threshold: Duration,
    /// Pages promoted in a second, at most: `numa_balancing_promote_rate_limit_MBps`, 65536 MB/s.
    pub rate_limit: usize,
    /// How often the threshold is adjusted: `numa_balancing_scan_period_max_ms`, 60 s.
    pub adjust_every: Duration,
    /// If a larger fraction of fast memory is free, every faulting page is promoted: 1/16.
    pub enough: f64,
    /// The free fraction of fast memory below which demotion begins: the low watermark, 0.1 %.
    pub low: f64,
    /// The free fraction at which it ends: the promotion watermark, 0.3 %.
    pub high: f64,
    /// Pages that are demoted at a time at least: `SWAP_CLUSTER_MAX`.
    pub cluster: usize,
    /// How often the worker looks.
    pub period: Duration,
    /// Pages that a step looks at for demotion, at most.
    pub looks: usize,
}

impl Default for AutonumaConfig {
    fn default() -> Self {
        AutonumaConfig {
            scan: ScanConfig::default(),
            hot_threshold: SECOND,
            rate_limit: (65_536 << 20) / 4096,
            adjust_every: Duration::from_secs(60),
            enough: 1.0 / 16.0,
            low: 0.001,
            high: 0.003,
            cluster: 32,
            period: Duration::from_millis(10),
            looks: 128,
        }
    }
}

/// The scheme `autonuma`: promotes slow pages that are touched twice within a threshold, at a
/// limited rate.
pub struct Autonuma {
    config: AutonumaConfig,
    scanner: Scanner,
    lru: Lru,
    /// When each page was armed.
    armed_at: Vec<Duration>,
    threshold: Duration,
    /// Hot pages so far, promoted or not.
    candidates: usize,
    /// When this second of the rate limit began, and the candidates before it.
    second: (Duration, usize),
    /// The same of the threshold's period.
    adjusted: (Duration, usize),
    /// Promotions found no room since the last step.
    refused: bool,
}

impl Autonuma {
    /// The scheme for all pages of a table.
    pub fn new(table: &PageTable, config: AutonumaConfig) -> Autonuma {
        Autonuma {
            config,
            scanner: Scanner::new(config.scan),
            lru: Lru::default(),
            armed_at: vec![Duration::ZERO; table.pages()],
            threshold: config.hot_threshold,
            candidates: 0,
            second: (Duration::ZERO, 0),
            adjusted: (Duration::ZERO, 0),
            refused: false,
        }
    }

    /// `numa_promotion_adjust_threshold`.
    fn adjust(&mut self, now: Duration) {
        let (start, before) = self.adjusted;
        if now.saturating_sub(start) <= self.config.adjust_every {
            return;
        }
        let wanted = self.config.rate_limit as f64 * self.config.adjust_every.as_secs_f64();
        let found = (self.candidates - before) as f64;
        let most = 2 * self.config.hot_threshold;
        let unit = most / STEPS;
        if found > wanted * 1.1 {
            self.threshold = self.threshold.saturating_sub(unit).max(unit);
        } else if found < wanted * 0.9 {
            self.threshold = (self.threshold + unit).min(most);
        }
        self.adjusted = (now, self.candidates);
    }

    /// `numa_promotion_rate_limit`: counts a candidate. Returns whether it exceeds the limit.
    fn is_over_limit(&mut self, now: Duration) -> bool {
        self.candidates += 1;
        if now.saturating_sub(self.second.0) > SECOND {
            self.second = (now, self.candidates);
        }
        self.candidates - self.second.1 >= self.config.rate_limit
    }

    fn is_to_be_promoted(&mut self, table: &PageTable, page: usize, now: Duration) -> bool {
        if table.free() as f64 > table.limit() as f64 * self.config.enough {
            return true;
        }
        self.adjust(now);
        let latency = now.saturating_sub(self.armed_at[page]);
        latency < self.threshold && !self.is_over_limit(now)
    }
}

impl PageScheme for Autonuma {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        if table.place(page, TierId::FAST).is_fast() {
            self.lru.push_inactive(page);
        }
    }

    fn faulted(&mut self, table: &mut PageTable, page: usize, now: Duration) {
        if table.is_fast(page) || !self.is_to_be_promoted(table, page, now) {
            return;
        }
        if table.promote(page) {
            self.lru.push_active(page);
        } else {
            self.refused = true;
            table.wake();
        }
    }

    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration {
        let armed_at = &mut self.armed_at;
        self.scanner.sweep(table, at.now, |table, page| {
            if !table.is_fast(page) {
                armed_at[page] = at.now;
                table.arm(page);
            }
        });
        let share = |share: f64| (table.limit() as f64 * share) as usize;
        let (low, high) = (share(self.config.low), share(self.config.high));
        if self.refused || table.free() < low {
            let want = high.max(self.config.cluster).min(table.limit());
            let want = want.saturating_sub(table.free());
            let went = self.lru.reclaim(table, want, self.config.looks, |_| {});
            // A refused page faults again only after the next scan. So demotion continues until
            // there is room.
            self.refused &= !went;
            if !went {
                return SOON;
            }
        }
        self.config.period
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::Rig;
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Ten fast pages of twenty; all pages are scanned in the first moment of each ten seconds; two
    /// pages are demoted at a time.
    fn config() -> AutonumaConfig {
        AutonumaConfig {
            scan: ScanConfig {
                pages: 1 << 20,
                period: ms(10_000),
            },
            period: ms(10_000),
            cluster: 2,
            ..AutonumaConfig::default()
        }
    }

    /// With free memory for one batch of promotions, made by demoting pages 0 and 1 unless others
    /// are given.
    fn rig(config: AutonumaConfig) -> Rig {
        let mut rig = Rig::new(20, 10, |table| Box::new(Autonuma::new(table, config)));
        rig.arm_all();
        rig.access(15);
        assert!(!rig.is_fast(15) && rig.is_woken(), "no room");
        rig.run_for(ms(10_000));
        assert_eq!(rig.fast(), (config.cluster..10).collect::<Vec<_>>());
        rig
    }

    /// The scan is at 10 s.
    #[test]
    fn touched_twice_within_the_threshold_a_page_is_promoted_and_once_it_is_not() {
        let mut rig = Rig::new(20, 10, |table| {
            Box::new(Autonuma::new(
                table,
                AutonumaConfig {
                    enough: 1.0,
                    ..config()
                },
            ))
        });
        rig.arm_all();
        rig.access(19);
        rig.run_for(ms(9_900));
        rig.access_all([15, 16, 17]);
        rig.run_for(ms(100));
        rig.run_for(ms(700));
        assert!(rig.access(15) > 0, "0.8 s after the first touch");
        assert!(rig.is_fast(15));
        assert!(!rig.is_fast(16), "touched once");
        rig.run_for(ms(300));
        rig.access(17);
        assert!(!rig.is_fast(17), "1 s after the scan");
        assert_eq!(rig.moves(), (1, 2));
    }

    #[test]
    fn a_fault_without_promotion_costs_a_fault_and_one_with_it_a_copy_too() {
        let mut rig = rig(AutonumaConfig {
            enough: 1.0,
            ..config()
        });
        assert_eq!(rig.access(15), 1_000 + 5_500);
        rig.run_for(ms(2_000));
        assert_eq!(rig.access(16), 1_000);
        assert_eq!(rig.access(16), 0);
    }

    #[test]
    fn while_much_is_free_everything_that_faults_is_promoted() {
        let mut rig = rig(config());
        rig.run_for(ms(5_000));
        rig.access(15);
        assert!(rig.is_fast(15), "2 of 10 were free");
        rig.access(16);
        assert!(rig.is_fast(16), "1 of 10 was");
    }

    #[test]
    fn the_rate_limit_holds_for_each_second() {
        let mut rig = rig(AutonumaConfig {
            enough: 1.0,
            rate_limit: 2,
            cluster: 3,
            ..config()
        });
        rig.access_all([15, 16, 17]);
        assert_eq!((rig.is_fast(15), rig.is_fast(16)), (true, true));
        assert!(!rig.is_fast(17), "there is room, but it is the third");
        rig.run_for(ms(10_000));
        rig.access(17);
        assert!(rig.is_fast(17));
    }

    /// The limit allows 120 candidates in a minute; there is one. So the threshold grows by an
    /// eighth of a second, from 1 s.
    #[test]
    fn the_threshold_moves_towards_the_limit() {
        let mut rig = rig(AutonumaConfig {
            enough: 1.0,
            rate_limit: 2,
            ..config()
        });
        rig.run_for(ms(60_000));
        rig.run_for(ms(1_100));
        rig.access(15);
        assert!(rig.is_fast(15), "1.1 s after the scan at 70 s");
        rig.run_for(ms(50));
        rig.access(16);
        assert!(!rig.is_fast(16), "1.15 s after it");
    }
}
