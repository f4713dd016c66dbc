//! The requests of a trace, packed: a key each, one bit that says whether it writes, and perhaps
//! the time at which it came.
//!
//! Invariants: all requests have a time or none has; times start at 0 and never fall.

use crate::workload::{Op, Request, Rng};

/// Requests in the order of the trace.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    keys: Vec<u64>,
    /// Bit i % 64 of word i / 64; words past the last write are left out.
    writes: Vec<u64>,
    /// When each was made, ns after the first; empty where the trace does not say.
    times: Vec<u64>,
    /// What the trace's clock showed at the first, ns.
    start: Option<u64>,
    /// The share of the requests whose kind the trace does not say that write, and what decides.
    share: f64,
    coin: Rng,
}

impl Requests {
    /// None yet. `share` of those added without a kind will write, the same ones each time.
    pub fn new(share: f64) -> Requests {
        Requests {
            keys: Vec::new(),
            writes: Vec::new(),
            times: Vec::new(),
            start: None,
            share,
            coin: Rng::new(0, 0),
        }
    }

    /// Adds a request; `write` is `None` where the trace does not say.
    pub fn push(&mut self, key: u64, write: Option<bool>) {
        let index = self.keys.len();
        self.keys.push(key);
        if write.unwrap_or_else(|| self.coin.unit() < self.share) {
            self.writes.resize(index / 64 + 1, 0);
            self.writes[index / 64] |= 1 << (index % 64);
        }
    }

    /// Says when the requests were made that were added and have no time yet: when the trace's
    /// clock showed `ns`. One that seems to be earlier than the one before was made together with
    /// it.
    pub fn set_time(&mut self, ns: u64) {
        let start = *self.start.get_or_insert(ns);
        let before = self.times.last().copied().unwrap_or(0);
        let time = ns.saturating_sub(start).max(before);
        self.times.resize(self.keys.len(), time);
    }

    /// When a request was made, ns after the first, if the trace says.
    #[inline]
    pub fn time(&self, index: usize) -> Option<u64> {
        self.times.get(index).copied()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Each request's key.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// How many write.
    pub fn writes(&self) -> usize {
        self.writes
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// The request at `index`, which must be below [`Requests::len`].
    #[inline]
    pub fn get(&self, index: usize) -> Request {
        let writes = self
            .writes
            .get(index / 64)
            .is_some_and(|word| word >> (index % 64) & 1 == 1);
        Request {
            op: if writes { Op::Update } else { Op::Read },
            key: self.keys[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_back() {
        let mut requests = Requests::new(0.0);
        let writes = |i: u64| i.is_multiple_of(67) || (128..140).contains(&i);
        for i in 0..300 {
            requests.push(i * 3, Some(writes(i)));
        }
        for i in 0..300 {
            let op = if writes(i) { Op::Update } else { Op::Read };
            assert_eq!(requests.get(i as usize), Request { op, key: i * 3 });
        }
        assert_eq!(requests.writes(), (0..300).filter(|&i| writes(i)).count());
    }

    #[test]
    fn times_start_at_0_and_never_fall() {
        let mut requests = Requests::new(0.0);
        for (key, ns) in [(1, 5_000), (2, 5_200), (3, 5_100), (4, 4_000), (5, 6_000)] {
            requests.push(key, None);
            requests.set_time(ns);
        }
        requests.push(6, None);
        requests.push(7, None);
        requests.set_time(6_001);
        let times: Vec<_> = (0..8).map(|index| requests.time(index)).collect();
        let expected = [0, 200, 200, 200, 1_000, 1_001, 1_001].map(Some);
        assert_eq!(times, [&expected[..], &[None]].concat());
    }

    #[test]
    fn a_share_of_the_undecided_write() {
        for (share, range) in [(0.0, 0..=0), (0.25, 2350..=2650), (1.0, 10_000..=10_000)] {
            let mut requests = Requests::new(share);
            (0..10_000).for_each(|key| requests.push(key, None));
            assert!(
                range.contains(&requests.writes()),
                "{share}: {}",
                requests.writes()
            );
        }
    }
}
