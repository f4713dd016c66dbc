//! `memtis`: MEMTIS (Lee et al., *MEMTIS: Efficient Memory Tiering with Dynamic Page Classification
//! and Page Size Determination*, SOSP 2023; details and constants from its published code).
//!
//! Modelled:
//! - Samples of cache misses, one in `sample_every`; fewer where counting them would take more than
//!   3 % of a CPU.
//! - A histogram of how hot pages are, halved every `cool_every` samples. Every `adapt_every`
//!   samples, the hot threshold becomes the lowest one whose pages fit into fast memory; where they
//!   fill little of it, pages of the bin below are *warm*: they stay where they are.
//! - Hot pages of slow memory are promoted in the background. To make room, cold pages are demoted
//!   first, then warm ones.
//! - Memory comes in huge pages of 2 MiB. If the histogram of base pages shows that more accesses
//!   could be fast without huge pages, the most skewed huge pages are split; their untouched base
//!   pages are freed.
//!
//! Left out: collapsing base pages into huge ones, stores (a sample is of any missing line), the
//! rule that new pages count as hot, and the benefit of huge pages, fewer TLB misses, which the
//! emulator does not model. So a split has no later cost here. Different from the published code:
//! splits are considered every `split_every` adaptations; that code considers them every other
//! cooling, which takes half a minute of requests here.

mod heat;
mod histogram;

use std::cmp::Reverse;
use std::time::Duration;

use timberline_tier::TierId;

use super::{Moment, PageScheme, PageTable};
use heat::{Heat, Piece, Unit};
use histogram::{BINS, Histogram};
use timberline_placement::View;

use crate::table::{Kind, Make, Row, Style, Tiers};

const HUGE_BYTES: usize = 2 << 20;

pub(crate) const MEMTIS: Row = Row {
    paper: Some("MEMTIS"),
    tiers: Tiers::Slow,
    kind: Kind::Adaptive,
    unit_bytes: HUGE_BYTES,
    style: Style::of("#ae4b9c", "#e389d3"),
    ..Row::new(
        "memtis",
        "pages: samples of cache misses make a histogram of pages, which sets the hot threshold",
        Make::Pages(|setup, table| {
            let config = MemtisConfig::for_threads(setup.threads);
            Box::new(Memtis::new(table, config))
        }),
    )
};

/// Parameters of [`Memtis`].
#[derive(Clone, Copy, Debug)]
pub struct MemtisConfig {
    /// Missing lines for a sample, at least: 199.
    pub sample_every: u32,
    /// The fraction of a CPU that counting samples may take: 3 %.
    pub cpu: f64,
    /// Samples until thresholds are adapted: 100,000.
    pub adapt_every: u64,
    /// Samples until all counts are halved: 2,000,000.
    pub cool_every: u64,
    /// If hot pages fill less than this fraction of fast memory, warm ones stay too: 75 %.
    pub warm_below: f64,
    /// How often pages are migrated: 500 ms.
    pub migrate_every: Duration,
    /// Pages migrated at a time, at most: 100 MB/s.
    pub moves: usize,
    /// Adaptations between two decisions on splits.
    pub split_every: u32,
    /// The fraction of the possible gain that one round of splits aims for: 0.4.
    pub split_gain: f64,
    /// A gain below this fraction of the accesses is ignored: 5 %.
    pub split_from: f64,
    /// Slow memory's latency over that of fast memory.
    pub slow_to_fast: f64,
    /// Pages in a huge page: 512.
    pub huge: usize,
    /// How often samples are counted.
    pub period: Duration,
    /// Samples that wait to be counted, at most; further ones are lost.
    pub buffer: usize,
}

impl Default for MemtisConfig {
    fn default() -> Self {
        MemtisConfig {
            sample_every: 199,
            cpu: 0.03,
            adapt_every: 100_000,
            cool_every: 2_000_000,
            warm_below: 0.75,
            migrate_every: Duration::from_millis(500),
            moves: 50_000_000 / 4096,
            split_every: 2,
            split_gain: 0.4,
            split_from: 0.05,
            slow_to_fast: 2.1,
            huge: 512,
            period: Duration::from_millis(10),
            buffer: 1 << 16,
        }
    }
}

impl MemtisConfig {
    /// The defaults for this many threads. The paper's intervals in samples are for 20 cores. Fewer
    /// threads take fewer samples, so the intervals shrink in proportion, to adapt in the same
    /// time.
    pub fn for_threads(threads: usize) -> Self {
        const CORES: u64 = 20;
        let all = MemtisConfig::default();
        let share = (threads as u64).clamp(1, CORES);
        MemtisConfig {
            adapt_every: all.adapt_every * share / CORES,
            cool_every: all.cool_every * share / CORES,
            ..all
        }
    }
}

/// The scheme `memtis`: promotes the most sampled pages, as many as fit into fast memory; splits
/// huge pages of which few base pages are hot.
pub struct Memtis {
    config: MemtisConfig,
    heat: Heat,
    /// Bins from which a piece is hot or at least warm, and a page would be hot if none were huge.
    hot: usize,
    warm: usize,
    base_hot: usize,
    /// The histogram that these bins were computed from.
    histogram: Histogram,
    waiting: Vec<usize>,
    interval: u32,
    samples: u64,
    /// Samples since the last look at splits; of these, those that were fast, and would be if no
    /// page were huge.
    seen: u64,
    were_fast: u64,
    could_be: u64,
    migrate_at: Duration,
    /// The start of the current measurement of the counting cost, and the samples before it.
    watched: (Duration, u64),
}

impl Memtis {
    /// The scheme for all pages of a table.
    pub fn new(table: &mut PageTable, config: MemtisConfig) -> Memtis {
        table.count_all();
        table.sample_every(config.sample_every);
        Memtis {
            config,
            heat: Heat::new(table.pages(), config.huge),
            hot: 1,
            warm: 1,
            base_hot: 1,
            histogram: Histogram::default(),
            waiting: Vec::new(),
            interval: config.sample_every,
            samples: 0,
            seen: 0,
            were_fast: 0,
            could_be: 0,
            migrate_at: config.migrate_every,
            watched: (Duration::ZERO, 0),
        }
    }

    /// Counts the samples that wait.
    fn count(&mut self, table: &mut PageTable) {
        for page in std::mem::take(&mut self.waiting) {
            table.charge(table.costs().count_ns);
            self.seen += 1;
            self.were_fast += u64::from(table.is_fast(page));
            self.could_be += u64::from(self.heat.page_bin(page) >= self.base_hot);
            self.heat.sample(page);
            self.samples += 1;
            if self.samples.is_multiple_of(self.config.cool_every) {
                self.heat.cool();
            }
            if self.samples.is_multiple_of(self.config.adapt_every) {
                self.adapt(table);
            }
        }
    }

    fn adapt(&mut self, table: &mut PageTable) {
        let (real, base) = self.heat.histograms(table);
        let (hot, pages) = real.threshold(table.limit());
        self.hot = hot;
        let fills = pages as f64 >= self.config.warm_below * table.limit() as f64;
        self.warm = if fills { hot } else { (hot - 1).max(1) };
        self.base_hot = base.threshold(table.limit()).0;
        self.histogram = real;
        let adaptations = self.samples / self.config.adapt_every;
        if adaptations.is_multiple_of(u64::from(self.config.split_every)) {
            self.split_some(table);
        }
    }

    /// Splits the most skewed huge pages, as many as the gain is worth.
    fn split_some(&mut self, table: &mut PageTable) {
        let seen = std::mem::take(&mut self.seen).max(1) as f64;
        let could_be = std::mem::take(&mut self.could_be) as f64 / seen;
        let gain = could_be - std::mem::take(&mut self.were_fast) as f64 / seen;
        if gain <= self.config.split_from * could_be {
            return;
        }
        let skewed = |unit| (self.heat.skewness(unit, self.base_hot), unit);
        let mut units: Vec<(f64, usize)> = self.heat.huge().map(skewed).collect();
        units.retain(|&(skewness, _)| skewness > 0.0);
        units.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
        let worth = gain * (self.config.slow_to_fast - 1.0) * self.config.split_gain;
        let count = (units.len() as f64 * worth).ceil() as usize;
        for (_, unit) in units.into_iter().take(count) {
            self.heat.set_unit(unit, Unit::Split);
            table.charge(table.costs().split_ns);
            for page in self.heat.pages_of(unit) {
                if !table.is_in_use(page) {
                    table.put(page, TierId::SLOW);
                }
            }
        }
    }

    /// Promotes hot pages, the hottest first, in exchange for colder ones.
    fn migrate(&mut self, table: &mut PageTable) {
        let heat = &self.heat;
        let bin = |piece: Piece| histogram::bin(heat.count(piece));
        let is_fast = |table: &PageTable, piece| table.is_fast(heat.range(piece).start);
        let (fast, slow): (Vec<Piece>, Vec<Piece>) = heat
            .pieces(table)
            .into_iter()
            .partition(|&piece| is_fast(table, piece));
        let mut askers: Vec<Piece> = slow.into_iter().filter(|&it| bin(it) >= self.hot).collect();
        askers.sort_by_key(|&piece| Reverse(heat.count(piece)));
        // The coldest last, to be taken from there.
        let mut victims: Vec<Piece> = fast.into_iter().filter(|&it| bin(it) < self.hot).collect();
        let is_warm = |piece| bin(piece) >= self.warm;
        victims.sort_by_key(|&piece| Reverse((is_warm(piece), heat.count(piece))));
        let mut left = self.config.moves;
        let mut move_to = |table: &mut PageTable, piece: Piece, tier: TierId| {
            let range = heat.range(piece);
            left = left.saturating_sub(range.len());
            match (piece, tier.is_fast()) {
                (Piece::Huge(_), _) => table.move_huge(range, tier),
                (Piece::Base(page), true) => table.promote(page),
                (Piece::Base(page), false) => table.demote(page),
            };
            left > 0
        };
        for asker in askers {
            while table.free() < heat.range(asker).len() {
                let Some(victim) = victims.pop() else { return };
                if !move_to(table, victim, TierId::SLOW) {
                    return;
                }
            }
            if !move_to(table, asker, TierId::FAST) {
                return;
            }
        }
    }

    /// Takes fewer samples where counting them takes too long, and more again where it does not.
    fn pace(&mut self, table: &mut PageTable, now: Duration) {
        let (start, before) = self.watched;
        let time = now.saturating_sub(start);
        if time < Duration::from_secs(1) {
            return;
        }
        self.watched = (now, self.samples);
        let spent = (self.samples - before) as f64 * table.costs().count_ns as f64;
        let used = spent / time.as_nanos() as f64 / self.config.cpu;
        let interval = f64::from(self.interval) * used.clamp(0.5, 16.0);
        let interval = (interval as u32).max(self.config.sample_every);
        if used > 1.0 || interval < self.interval {
            self.interval = interval;
            table.sample_every(interval);
        }
    }
}

impl PageScheme for Memtis {
    fn place(&mut self, table: &mut PageTable, page: usize) {
        let unit = self.heat.unit_of(page);
        if self.heat.unit(unit) == Unit::Absent {
            self.heat.set_unit(unit, Unit::Huge);
            let pages = self.heat.pages_of(unit);
            if pages.len() <= table.free() {
                for page in pages {
                    table.put(page, TierId::FAST);
                }
            }
        }
        let tier = match self.heat.unit(unit) {
            Unit::Huge => table.tier(page),
            _ => TierId::FAST,
        };
        table.place(page, tier);
    }

    fn sampled(&mut self, _: &mut PageTable, page: usize) {
        if self.waiting.len() < self.config.buffer {
            self.waiting.push(page);
        }
    }

    fn view(&self) -> Option<View> {
        let least = |bin| f64::from(histogram::least(bin));
        Some(View {
            unit: "samples, as a huge page counts them",
            bins: (0..BINS).map(histogram::least).collect(),
            counts: vec![("pages", self.histogram.pages())],
            thresholds: vec![("warm", least(self.warm)), ("hot", least(self.hot))],
            figures: vec![("missing lines for a sample", self.interval.into())],
            ..View::default()
        })
    }

    fn step(&mut self, table: &mut PageTable, at: Moment) -> Duration {
        self.count(table);
        self.pace(table, at.now);
        if at.now >= self.migrate_at {
            self.migrate_at = at.now + self.config.migrate_every;
            self.migrate(table);
        }
        self.config.period
    }
}

#[cfg(test)]
mod tests;
