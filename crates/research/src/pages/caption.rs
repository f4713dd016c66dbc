//! `caption`: tunes the fraction of fast pages by throughput (Sun et al., *Demystifying CXL Memory
//! with Genuine CXL-Ready Systems and Devices*, MICRO 2023, §6).
//!
//! Modelled: pages come into use interleaved, `share` of them fast; each period the throughput is
//! compared with that of the period before, and the share goes on in the direction that it went if
//! that was better, and back by half a step if it was worse.
//!
//! Differences from the paper: throughput is that of the requests; the paper estimates it from
//! counters of the processor, since a kernel knows no requests. The paper's policy applies to
//! allocation: only new pages follow the share. A tree that is loaded and then read has hardly any,
//! so pages in use are moved here to follow it, `moves` a step; with 0 it is as published. The
//! share never exceeds the budget, as the paper has none.
//!
//! Left out: tier 0's bandwidth, which the paper's policy balances, is not emulated. So fast memory
//! is nearly always better here, and the best share is the budget.

use std::time::Duration;

use timberline_tier::TierId;

use super::{Moment, PageScheme, PageTable};

use crate::table::{Kind, Make, Row, Style, Tiers};

pub(crate) const CAPTION: Row = Row {
    paper: Some("Caption §6"),
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    style: Style::of("#6f7e00", "#bccc42"),
    ..Row::new(
        "caption",
        "pages: the fraction of pages in slow memory follows throughput",
        Make::Pages(|setup, _| {
            Box::new(Caption::new(CaptionConfig {
                share: (setup.fast_ratio * 1000.0) as u32,
                ..CaptionConfig::default()
            }))
        }),
    )
};

/// Parameters of [`Caption`]. Shares are in thousandths, so that pages are spread exactly.
#[derive(Clone, Copy, Debug)]
pub struct CaptionConfig {
    /// How often the share is tuned.
    pub period: Duration,
    /// The share of fast pages at first; no more than the budget allows is used.
    pub share: u32,
    /// The first step of the share.
    pub step: u32,
    /// The smallest step; smaller ones are not told from noise.
    pub least_step: u32,
    /// Smaller relative changes of throughput count as none.
    pub noise: f64,
    /// Pages in use that are moved in a step of the worker, at most.
    pub moves: usize,
}

impl Default for CaptionConfig {
    fn default() -> Self {
        CaptionConfig {
            period: Duration::from_secs(1),
            share: WHOLE,
            step: 100,
            least_step: 10,
            noise: 0.02,
            moves: 256,
        }
    }
}

const WHOLE: u32 = 1000;

/// How often pages are moved to follow the share.
const MOVE_EVERY: Duration = Duration::from_millis(10);

/// The scheme `caption`: the share of fast pages goes where throughput rises.
pub struct Caption {
    config: CaptionConfig,
    share: u32,
    /// The last change of the share.
    step: i32,
    /// Requests a second in the period before.
    before: Option<f64>,
    /// When this period began, and the requests before it.
    start: Moment,
    /// The next page in use to check, and the number of pages still to be checked.
    hand: usize,
    left: usize,
}

/// Whether the `nth` page is fast where `share` of them are: where a line of this slope passes a
/// whole number.
fn is_fast(nth: usize, share: u32) -> bool {
    let before = |pages: usize| pages * share as usize / WHOLE as usize;
    before(nth + 1) > before(nth)
}

impl Caption {
    /// A scheme without pages.
    pub fn new(config: CaptionConfig) -> Caption {
        Caption {
            config,
            share: config.share.min(WHOLE),
            // Towards slow memory first: the first fraction may be the most that the budget allows.
            step: -(config.step as i32),
            before: None,
            start: Moment::default(),
            hand: 0,
            left: 0,
        }
    }

    fn tune(&mut self, table: &PageTable, at: Moment) {
        let time = at.now.saturating_sub(self.start.now);
        if time < self.config.period {
            return;
        }
        let now = at.done.saturating_sub(self.start.done) as f64 / time.as_secs_f64();
        self.start = at;
        if let Some(before) = self.before.replace(now) {
            let change = (now - before) / before.max(1.0);
            if change.abs() <= self.config.noise {
                return;
            }
            if change < 0.0 {
                let half = (self.step.abs() / 2).max(self.config.least_step as i32);
                self.step = -self.step.signum() * half;
            }
        }
        let in_use = table.in_use().len();
        let most = (table.limit() * WHOLE as usize / in_use.max(1)).min(WHOLE as usize);
        self.share = self.share.saturating_add_signed(self.step).min(most as u32);
        // Two passes: pages that do not fit in the first one fit in the second.
        self.left = 2 * in_use;
    }

    /// Checks the pages in use, and moves those that are in the wrong tier.
    fn follow(&mut self, table: &mut PageTable) {
        let mut moves = 0;
        while self.left > 0 && moves < self.config.moves {
            self.left -= 1;
            self.hand = (self.hand + 1) % table.in_use().len();
            let page = table.in_use()[self.hand];
            let moved = match is_fast(self.hand, self.share) {
                true => table.promote(page),
                false => table.demote(page),
            };
            moves += usize::from(moved);
        }
    }
}

impl PageScheme for Caption {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        let tier = match is_fast(table.in_use().len(), self.share) {
            true => TierId::FAST,
            false => TierId::SLOW,
        };
        table.place(page, tier);
    }

    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration {
        self.tune(table, at);
        self.follow(table);
        MOVE_EVERY
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fake::Rig;
    use super::*;

    const PERIOD: Duration = Duration::from_millis(1010);

    fn rig(share: u32, moves: usize) -> Rig {
        let config = CaptionConfig {
            share,
            moves,
            ..CaptionConfig::default()
        };
        Rig::new(100, 40, |_| Box::new(Caption::new(config)))
    }

    /// A period, and a moment for the moves, with this many completed requests.
    fn period_of(rig: &mut Rig, requests: u64) -> usize {
        rig.done += requests;
        rig.run_for(PERIOD);
        rig.fast().len()
    }

    #[test]
    fn pages_come_interleaved() {
        assert_eq!(
            rig(250, 256).fast(),
            (3..100).step_by(4).collect::<Vec<_>>()
        );
        assert_eq!(rig(1000, 256).fast().len(), 40, "no more than the budget");
    }

    /// 30 fast at first; one step of 10 down, as there is nothing to compare with yet. Worse: half
    /// a step back. Better: on.
    #[test]
    fn the_share_goes_where_throughput_grows() {
        let mut rig = rig(300, 256);
        assert_eq!(period_of(&mut rig, 1000), 20);
        assert_eq!(period_of(&mut rig, 900), 25);
        assert_eq!(period_of(&mut rig, 950), 30);
        assert_eq!(period_of(&mut rig, 1000), 35);
        assert_eq!(period_of(&mut rig, 1050), 40);
        assert_eq!(period_of(&mut rig, 1100), 40, "the budget");
        assert_eq!(period_of(&mut rig, 1101), 40, "noise");
    }

    #[test]
    fn without_moves_only_new_pages_follow() {
        let mut rig = rig(300, 0);
        for requests in [1000, 900, 950] {
            assert_eq!(period_of(&mut rig, requests), 30);
        }
        assert_eq!(rig.moves(), (0, 0));
    }
}
