//! The requests of a trace, packed: a key each, one bit for writes, and perhaps a timestamp.
//!
//! Invariants: all requests have a timestamp or none has; times start at 0 and never decrease.

use crate::workload::{Op, Request, Rng};

/// Requests in the order of the trace.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    keys: Vec<u64>,
    /// Bit i % 64 of word i / 64; words after the last write are omitted.
    writes: Vec<u64>,
    /// Timestamps, ns after the first; empty if the trace has none.
    times: Vec<u64>,
    /// The first timestamp on the trace's own clock, ns.
    start: Option<u64>,
    /// The fraction of writes among requests of unknown kind, and the generator that chooses them.
    share: f64,
    coin: Rng,
}

impl Requests {
    /// An empty list. Of the requests of unknown kind, `share` write, the same ones each time.
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

    /// Adds a request; `write` is `None` if the trace does not tell.
    pub fn push(&mut self, key: u64, write: Option<bool>) {
        let index = self.keys.len();
        self.keys.push(key);
        if write.unwrap_or_else(|| self.coin.unit() < self.share) {
            self.writes.resize(index / 64 + 1, 0);
            self.writes[index / 64] |= 1 << (index % 64);
        }
    }

    /// Gives all added requests without a timestamp the time `ns` on the trace's clock. A time
    /// before the previous one becomes equal to it.
    pub fn set_time(&mut self, ns: u64) {
        let start = *self.start.get_or_insert(ns);
        let before = self.times.last().copied().unwrap_or(0);
        let time = ns.saturating_sub(start).max(before);
        self.times.resize(self.keys.len(), time);
    }

    /// The timestamp of a request, ns after the first, if the trace has timestamps.
    #[inline]
    pub fn time(&self, index: usize) -> Option<u64> {
        self.times.get(index).copied()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

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
