//! Finds the accessed regions of a tier, at a cost that does not grow with the tier (Linux,
//! `mm/damon/core.c`).
//!
//! Frames lie in regions whose frames are taken to be accessed alike. In each *sampling interval*,
//! one random frame of each region is checked for an access; hits are counted for an *aggregation
//! interval* of 20 sampling intervals. Then adjacent regions with similar counts are merged, and,
//! if there are at most half of the maximum, each is split in two at random.
//!
//! Intervals are tuned (`monitoring_intervals_goal`): every three aggregations, they grow if fewer
//! than 4 % of the possible hits were counted, and shrink if more were.
//!
//! Invariants: regions are in order, next to one another, not empty, and cover all frames; there
//! are no more than the most.

use std::ops::Range;
use std::time::Duration;

use super::quota::feed;

/// Samples in an aggregation interval.
const SAMPLES: u32 = 20;

/// Parameters of a monitor.
#[derive(Clone, Copy, Debug)]
pub struct MonitorConfig {
    /// The intended minimum of regions: 10.
    pub min_regions: usize,
    /// The most regions: 1000.
    pub max_regions: usize,
    /// The shortest sampling interval, and the first: 5 ms.
    pub min_sampling: Duration,
    /// The longest sampling interval: 10 s.
    pub max_sampling: Duration,
    /// The intended fraction of possible hits: 4 %.
    pub accesses_goal: f64,
    /// Aggregations until intervals are tuned again: 3.
    pub tune_every: u32,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig {
            min_regions: 10,
            max_regions: 1000,
            min_sampling: Duration::from_millis(5),
            max_sampling: Duration::from_secs(10),
            accesses_goal: 0.04,
            tune_every: 3,
        }
    }
}

/// Frames that are taken to be accessed alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    pub frames: Range<usize>,
    /// Samples of this aggregation interval that were accessed.
    pub hits: u32,
    /// For how many aggregation intervals the hits have been about the same.
    pub age: u32,
    /// The same of the last interval.
    last_hits: u32,
    /// The frame to check next.
    sample: usize,
}

impl Region {
    fn new(frames: Range<usize>) -> Region {
        Region {
            sample: frames.start,
            frames,
            hits: 0,
            age: 0,
            last_hits: 0,
        }
    }

    /// The fraction of its samples that were accessed.
    pub fn rate(&self) -> f64 {
        f64::from(self.hits) / f64::from(SAMPLES)
    }

    /// The order of regions if the quota does not cover all (`damon_hot_score`, frequency and age
    /// weighted equally). More hits are hotter; among regions with hits older ones are hotter,
    /// among those without hits younger ones.
    pub fn hotness(&self) -> i64 {
        const MAX_SCORE: i64 = 100;
        const LONGEST: i64 = 32;
        let frequency = MAX_SCORE * i64::from(self.hits) / i64::from(SAMPLES);
        let log = i64::from(u32::BITS - self.age.leading_zeros());
        let age = if self.hits == 0 { -log } else { log };
        frequency + (age + LONGEST) * MAX_SCORE / (2 * LONGEST)
    }

    /// Takes in the region behind it: counts are means by size.
    fn merge(&mut self, next: &Region) {
        let (mine, others) = (self.frames.len() as u64, next.frames.len() as u64);
        let mean = |a: u32, b: u32| {
            ((u64::from(a) * mine + u64::from(b) * others) / (mine + others)) as u32
        };
        self.hits = mean(self.hits, next.hits);
        self.age = mean(self.age, next.age);
        self.frames.end = next.frames.end;
    }
}

pub struct Monitor {
    config: MonitorConfig,
    frames: usize,
    regions: Vec<Region>,
    sampling: Duration,
    /// When the next sample is due.
    due: Duration,
    samples: u32,
    aggregations: u32,
    /// Hits since the intervals were tuned over possible hits, summed over aggregations.
    seen: f64,
    random: u64,
}

impl Monitor {
    pub fn new(frames: usize, config: MonitorConfig, seed: u64) -> Monitor {
        let parts = config.min_regions.clamp(1, frames.max(1));
        let bound = |part: usize| frames * part / parts;
        let regions = (0..parts).map(|part| bound(part)..bound(part + 1));
        Monitor {
            config,
            frames,
            regions: regions
                .filter(|frames| !frames.is_empty())
                .map(Region::new)
                .collect(),
            sampling: config.min_sampling,
            due: Duration::ZERO,
            samples: 0,
            aggregations: 0,
            seen: 0.0,
            random: seed | 1,
        }
    }

    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// When the next step is due.
    pub fn due(&self) -> Duration {
        self.due
    }

    /// Ends a sampling interval: `accessed` reads and clears a frame's bit. Returns whether this
    /// ends an aggregation interval, too: then regions can be looked at until
    /// [`Monitor::begin_aggregation`].
    pub fn end_sampling(&mut self, mut accessed: impl FnMut(usize) -> bool) -> bool {
        let is_first = self.due.is_zero();
        if is_first {
            return false;
        }
        for region in &mut self.regions {
            region.hits += u32::from(accessed(region.sample));
        }
        self.samples += 1;
        if self.samples < SAMPLES {
            return false;
        }
        self.samples = 0;
        self.merge();
        self.tune();
        true
    }

    /// Begins a sampling interval: chooses the frames to check at its end, and clears their bits.
    pub fn begin_sampling(&mut self, now: Duration, mut accessed: impl FnMut(usize) -> bool) {
        self.due = now + self.sampling;
        let random = &mut self.random;
        for region in &mut self.regions {
            region.sample = region.frames.start + draw(random, region.frames.len());
            accessed(region.sample);
        }
    }

    /// Starts counting anew, after splitting regions.
    pub fn begin_aggregation(&mut self) {
        for region in &mut self.regions {
            region.last_hits = std::mem::take(&mut region.hits);
        }
        if self.regions.len() > self.config.max_regions / 2 {
            return;
        }
        let random = &mut self.random;
        let halves = std::mem::take(&mut self.regions).into_iter();
        let halves = halves.flat_map(|region| {
            // Between a tenth and nine tenths of it.
            let share = 1 + draw(random, 9);
            let middle = region.frames.start + region.frames.len() * share / 10;
            let part = |frames: Range<usize>| Region {
                frames,
                ..region.clone()
            };
            [
                part(region.frames.start..middle),
                part(middle..region.frames.end),
            ]
        });
        self.regions = halves.filter(|half| !half.frames.is_empty()).collect();
    }

    /// Regions of like counts become one, and grow older.
    fn merge(&mut self) {
        const THRESHOLD: u32 = SAMPLES / 10;
        let longest = (self.frames / self.config.min_regions.max(1)).max(1);
        let mut merged: Vec<Region> = Vec::with_capacity(self.regions.len());
        for mut region in std::mem::take(&mut self.regions) {
            region.age = match region.hits.abs_diff(region.last_hits) {
                0..=THRESHOLD => region.age + 1,
                _ => 0,
            };
            match merged.last_mut() {
                Some(last)
                    if last.hits.abs_diff(region.hits) <= THRESHOLD
                        && last.frames.len() + region.frames.len() <= longest =>
                {
                    last.merge(&region);
                }
                _ => merged.push(region),
            }
        }
        self.regions = merged;
    }

    fn tune(&mut self) {
        let hits = |region: &Region| region.frames.len() as f64 * region.rate();
        self.seen += self.regions.iter().map(hits).sum::<f64>() / self.frames.max(1) as f64;
        self.aggregations += 1;
        if self.aggregations < self.config.tune_every {
            return;
        }
        let score = self.seen / f64::from(self.aggregations) / self.config.accesses_goal;
        (self.aggregations, self.seen) = (0, 0.0);
        let change = feed(1.0, score, 0.0);
        // Not too fast a reduction.
        let change = if change <= 1.0 {
            0.5 + change / 2.0
        } else {
            change
        };
        let sampling = self.sampling.mul_f64(change);
        self.sampling = sampling.clamp(self.config.min_sampling, self.config.max_sampling);
    }
}

/// A number below `end`, from 0 on (xorshift).
fn draw(random: &mut u64, end: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random >> 11) as usize % end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_through(monitor: &mut Monitor, aggregations: u32, is_hot: impl Fn(usize) -> bool) {
        let mut left = aggregations;
        loop {
            if monitor.end_sampling(&is_hot) {
                check(monitor);
                left -= 1;
                if left == 0 {
                    return;
                }
                monitor.begin_aggregation();
                check(monitor);
            }
            monitor.begin_sampling(monitor.due(), &is_hot);
        }
    }

    fn check(monitor: &Monitor) {
        let regions = monitor.regions();
        assert!(regions.len() <= monitor.config.max_regions);
        assert_eq!(regions[0].frames.start, 0);
        assert_eq!(regions.last().unwrap().frames.end, monitor.frames);
        assert!(regions.iter().all(|region| !region.frames.is_empty()));
        assert!(regions.is_sorted_by(|one, two| one.frames.end == two.frames.start));
    }

    /// Frames 500 to 699 of 1000 are always accessed: ten regions of 100 each see it in their first
    /// interval.
    #[test]
    fn regions_that_fit_tell_hot_from_cold_at_once() {
        let mut monitor = Monitor::new(1000, MonitorConfig::default(), 7);
        step_through(&mut monitor, 1, |frame| (500..700).contains(&frame));
        let hits = monitor.regions().iter().map(|region| region.hits);
        let expected = [0, 0, 0, 0, 0, 20, 20, 0, 0, 0];
        assert_eq!(hits.collect::<Vec<_>>(), expected, "100 is the longest");
    }

    /// Frames 503 to 530 are found though no region fits them at first.
    #[test]
    fn regions_come_to_fit_what_is_hot() {
        let mut monitor = Monitor::new(1000, MonitorConfig::default(), 7);
        step_through(&mut monitor, 60, |frame| (503..531).contains(&frame));
        let hot = monitor.regions().iter().filter(|region| region.hits >= 16);
        let frames: usize = hot.map(|region| region.frames.len()).sum();
        assert!((14..=42).contains(&frames), "{frames} of 28");
    }

    /// Half of the possible hits are counted, 12 times the goal: intervals should shrink, but are
    /// the shortest already. Then there are no hits: intervals double every three aggregations.
    #[test]
    fn intervals_are_tuned_to_what_is_seen() {
        let mut monitor = Monitor::new(100, MonitorConfig::default(), 7);
        step_through(&mut monitor, 3, |frame| frame < 50);
        assert_eq!(monitor.sampling, Duration::from_millis(5));
        monitor.begin_aggregation();
        step_through(&mut monitor, 6, |_| false);
        assert_eq!(monitor.sampling, Duration::from_millis(20));
    }

    #[test]
    fn hotter_is_more_hits_then_age() {
        let region = |hits, age| Region {
            hits,
            age,
            ..Region::new(0..1)
        };
        let order = [region(0, 100), region(0, 1), region(5, 0), region(5, 9)];
        assert!(order.is_sorted_by_key(Region::hotness));
        assert_eq!(region(20, 0).hotness(), 100 + 50);
    }

    #[test]
    fn no_frames_are_no_regions() {
        let mut monitor = Monitor::new(0, MonitorConfig::default(), 7);
        for _ in 0..50 {
            if monitor.end_sampling(|_| true) {
                monitor.begin_aggregation();
            }
            monitor.begin_sampling(monitor.due(), |_| true);
        }
        assert!(monitor.regions().is_empty());
    }
}
