//! `damon`: data access monitoring with the actions `migrate_hot` and `migrate_cold` (Park et al.,
//! *Profiling Dynamic Data Access Patterns with Controlled Overhead and Quality*, Middleware 2019;
//! Linux, `mm/damon`), set up as Taneja (§2.2.2, Listing 2) ran it.
//!
//! Modelled: two monitors, one over the page frames of each tier ([`Monitor`]: regions, sampling,
//! merging, splitting, age, tuned intervals). Once a second, regions of fast memory without
//! accesses are migrated to slow memory, the oldest first, except for pages whose accessed bit is
//! set. Regions of slow memory with an access rate of 5 % or more are migrated to fast memory, the
//! hottest first, but only pages whose accessed bit is set. Each action has a quota ([`Quota`])
//! that is tuned to its goal: 99.7 % of fast memory used, 0.5 % free. A page that moves gets
//! another frame, since physical memory is monitored.
//!
//! Left out: quotas by time, and promotions that stop halfway through a region for reasons other
//! than a full tier. Different from Linux: tuned quotas begin at their cap and end at a page. Linux
//! begins at one byte and doubles it each second at most, so that the first page would move after
//! 12 seconds and the cap be reached after half a minute.

mod frames;
mod monitor;
mod quota;

use std::collections::VecDeque;
use std::time::Duration;

use timberline_tier::TierId;

use super::{Moment, PageScheme, PageTable};
use frames::Frames;
use monitor::{Monitor, Region};
use quota::Quota;

pub use monitor::MonitorConfig;

use crate::table::{Kind, Make, Row, Style, Tiers};

const STYLE: Style = Style::of("#96573a", "#d39b7c");

pub(crate) const DAMON: Row = Row {
    paper: Some("DAMON"),
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    style: STYLE,
    ..Row::new(
        "damon",
        "pages: regions of pages, sampled by accessed bits, migrated hot and cold",
        Make::Pages(|_, table| Box::new(Damon::new(table, DamonConfig::default()))),
    )
};

pub(crate) const COLDEST: Row = Row {
    style: STYLE.pale(70),
    ..Row {
        name: "damon-coldest",
        about: "damon that demotes the least accessed regions even if all have accesses",
        make: Make::Pages(|_, table| {
            Box::new(Damon::new(table, DamonConfig::coldest(table.limit())))
        }),
        ..DAMON
    }
};

/// Parameters of [`Damon`].
#[derive(Clone, Copy, Debug)]
pub struct DamonConfig {
    /// How accesses are monitored.
    pub monitor: MonitorConfig,
    /// How often the two actions are applied: `damos_apply_interval`, and `damos_quota_interval`.
    pub apply_every: Duration,
    /// The access rate from which a region is hot: `damos_access_rate`, 5 %.
    pub hot_rate: f64,
    /// The access rate up to which a region of fast memory is cold: 0.
    pub cold_rate: f64,
    /// Whether pages that were accessed since they were last looked at are not demoted:
    /// `damos_filter` of young pages.
    pub spares_young: bool,
    /// Pages that each action is tried on in an interval, at most: `damos_quota_space`, 200 MB.
    pub quota: usize,
    /// The share of fast memory that promotion aims to use: `node_mem_used_bp`, 99.7 %.
    pub used_goal: f64,
    /// The share of fast memory that demotion aims to have free: `node_mem_free_bp`, 0.5 %.
    pub free_goal: f64,
    /// Pages that a step of the worker tries an action on, at most.
    pub batch: usize,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Default for DamonConfig {
    fn default() -> Self {
        DamonConfig {
            monitor: MonitorConfig::default(),
            apply_every: Duration::from_secs(1),
            hot_rate: 0.05,
            cold_rate: 0.0,
            spares_young: true,
            quota: 200_000_000 / 4096,
            used_goal: 0.997,
            free_goal: 0.005,
            batch: 256,
            seed: 42,
        }
    }
}

impl DamonConfig {
    /// Demotes the least accessed regions also where none is without accesses, as in a small map:
    /// without the rate and the filter by which the published setup demotes nothing there. An
    /// action is tried on at most a quarter of fast memory, of `limit` pages, in an interval.
    pub fn coldest(limit: usize) -> DamonConfig {
        DamonConfig {
            cold_rate: 1.0,
            spares_young: false,
            quota: limit.div_ceil(4),
            ..DamonConfig::default()
        }
    }
}

/// One tier: its frames, their monitor, and the action on them.
struct Node {
    frames: Frames,
    monitor: Monitor,
    quota: Quota,
    apply_at: Duration,
    /// Frames on which the action is still due.
    due: VecDeque<usize>,
}

/// The scheme `damon`: promotes regions whose sampled pages were accessed and demotes regions
/// without accesses, within quotas.
pub struct Damon {
    config: DamonConfig,
    fast: Node,
    slow: Node,
}

impl Damon {
    /// The scheme for all pages of a table.
    pub fn new(table: &PageTable, config: DamonConfig) -> Damon {
        let node = |frames: usize, seed: u64| Node {
            frames: Frames::new(frames, table.pages()),
            monitor: Monitor::new(frames, config.monitor, seed),
            quota: Quota::new(config.quota),
            apply_at: config.apply_every,
            due: VecDeque::new(),
        };
        Damon {
            config,
            fast: node(table.limit(), config.seed),
            slow: node(table.pages(), !config.seed),
        }
    }

    fn node(&mut self, tier: TierId) -> &mut Node {
        match tier.is_fast() {
            true => &mut self.fast,
            false => &mut self.slow,
        }
    }

    /// Lists the frames to migrate from one tier, within its quota.
    fn plan(&mut self, table: &PageTable, tier: TierId, now: Duration) {
        let config = self.config;
        let node = self.node(tier);
        if now < node.apply_at {
            return;
        }
        node.apply_at = now + config.apply_every;
        let used = table.fast() as f64 / table.limit().max(1) as f64;
        let most = node.quota.renew(match tier.is_fast() {
            true => (1.0 - used) / config.free_goal,
            false => used / config.used_goal,
        });
        let is_meant = |region: &&Region| match tier.is_fast() {
            true => region.rate() <= config.cold_rate,
            false => region.rate() >= config.hot_rate,
        };
        let mut regions: Vec<&Region> = node.monitor.regions().iter().filter(is_meant).collect();
        regions.sort_by_key(|region| match tier.is_fast() {
            true => region.hotness(),
            false => -region.hotness(),
        });
        let frames = regions.into_iter().flat_map(|region| region.frames.clone());
        node.due = frames.take(most).collect();
    }

    /// Tries the actions on some of the frames that are due.
    fn migrate(&mut self, table: &mut PageTable) {
        for _ in 0..self.config.batch {
            if let Some(frame) = self.fast.due.pop_front() {
                if let Some(page) = self.fast.frames.page(frame)
                    && !(self.config.spares_young && table.take_accessed(page))
                    && table.demote(page)
                {
                    self.fast.frames.leave(page);
                    self.slow.frames.enter(page);
                }
            } else if let Some(frame) = self.slow.due.pop_front() {
                if let Some(page) = self.slow.frames.page(frame)
                    && table.take_accessed(page)
                    && table.promote(page)
                {
                    self.slow.frames.leave(page);
                    self.fast.frames.enter(page);
                }
            } else {
                break;
            }
        }
    }
}

impl PageScheme for Damon {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        match table.place(page, TierId::FAST).is_fast() {
            true => self.fast.frames.enter(page),
            false => self.slow.frames.enter(page),
        }
    }

    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration {
        for tier in [TierId::FAST, TierId::SLOW] {
            if at.now < self.node(tier).monitor.due() {
                continue;
            }
            let Node {
                frames, monitor, ..
            } = self.node(tier);
            if monitor.end_sampling(|frame| frames.take_accessed(table, frame)) {
                self.plan(table, tier, at.now);
                self.node(tier).monitor.begin_aggregation();
            }
            let Node {
                frames, monitor, ..
            } = self.node(tier);
            monitor.begin_sampling(at.now, |frame| frames.take_accessed(table, frame));
        }
        self.migrate(table);
        if !(self.fast.due.is_empty() && self.slow.due.is_empty()) {
            return Duration::ZERO;
        }
        let next = self.fast.monitor.due().min(self.slow.monitor.due());
        next.saturating_sub(at.now)
    }
}

#[cfg(test)]
mod tests;
