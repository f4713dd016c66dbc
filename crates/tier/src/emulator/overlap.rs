//! Overlapping requests of one thread. A request is a chain of accesses, each of which waits for
//! the one before. Chains do not wait for one another.
//!
//! Without overlap the thread spins for a charge at once. With overlap a charge only moves the end
//! of the current request's chain, and the thread continues. When the limit of requests in flight
//! is reached, it waits for the oldest. A core retires its instructions in order, so a younger
//! request that has finished makes no room before the oldest.
//!
//! This is an upper bound: a real core holds a few hundred instructions, so it looks ahead one or
//! two requests, and only where it predicts their branches.
//!
//! All times are ticks of one clock, which the caller reads.

use std::collections::VecDeque;

/// The requests of one thread.
#[derive(Default)]
pub struct Overlap {
    /// The limit of requests in flight, the current one included; 0 for no overlap.
    limit: usize,
    /// When all lines that the current request has read so far have arrived.
    at: u64,
    /// The same for earlier requests, in order, at their ends.
    ends: VecDeque<u64>,
}

impl Overlap {
    /// Overlap of up to `limit` requests; none at 0. No request is in flight.
    pub fn new(limit: usize) -> Overlap {
        Overlap {
            limit,
            ..Overlap::default()
        }
    }

    /// Whether requests overlap.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// When the current request's next access can begin: after its previous one.
    pub fn begin(&self, now: u64) -> u64 {
        self.at.max(now)
    }

    /// An access of the current request waits until `ready`, unless that is past.
    pub fn wait(&mut self, ready: u64) {
        self.at = self.at.max(ready);
    }

    /// The current request's next access takes this many ticks.
    pub fn access(&mut self, now: u64, ticks: u64) {
        self.at = self.begin(now) + ticks;
    }

    /// Ends the current request. Returns when all its lines have arrived, and when the next request
    /// may begin. Neither is before `now`.
    pub fn end(&mut self, now: u64) -> (u64, u64) {
        let end = self.begin(now);
        self.at = 0;
        self.ends.push_back(end);
        let mut next = now;
        while self.ends.len() >= self.limit.max(1) || self.ends.front().is_some_and(|&it| it <= now)
        {
            next = next.max(self.ends.pop_front().unwrap_or(now));
        }
        (end, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `requests` of three accesses of 100 ticks each, and 5 ticks of work between requests,
    /// on a clock of its own. Returns when the last one is finished, and each one's latency.
    fn run(limit: usize, requests: usize) -> (u64, Vec<u64>) {
        let mut overlap = Overlap::new(limit);
        let (mut now, mut last) = (1000, 0);
        let latency = |_| {
            now += 5;
            let begin = now;
            (0..3).for_each(|_| overlap.access(now, 100));
            let (end, next) = overlap.end(now);
            last = end;
            now = next;
            end - begin
        };
        let latencies = (0..requests).map(latency).collect();
        (last - 1000, latencies)
    }

    #[test]
    fn one_at_a_time_is_no_overlap() {
        assert_eq!(run(1, 10), (10 * 305, vec![300; 10]));
    }

    #[test]
    fn as_many_as_may_be_under_way_overlap_and_no_more() {
        for limit in [2, 4, 8] {
            let (time, latencies) = run(limit, 80);
            let least = 80 * 305 / limit as u64;
            assert!((least..least + 400).contains(&time), "{limit}: {time}");
            assert!(
                latencies.iter().all(|&it| it == 300),
                "accesses of one request do not overlap"
            );
        }
    }

    #[test]
    fn short_requests_are_limited_by_their_own_work() {
        assert_eq!(run(100, 80).0, 80 * 5 + 300);
    }

    #[test]
    fn a_request_waits_for_its_prefetch() {
        let mut overlap = Overlap::new(2);
        overlap.wait(170);
        overlap.wait(150);
        assert_eq!(overlap.begin(100), 170);
        overlap.access(100, 10);
        assert_eq!(overlap.end(100), (180, 100), "one more may be under way");
        assert_eq!(overlap.begin(100), 100, "the next one waits for nothing");
        assert_eq!(overlap.end(120), (120, 180), "the oldest has to end first");
    }
}
