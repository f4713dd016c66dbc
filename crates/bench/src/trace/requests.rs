//! The requests of a trace, packed: a key each, and one bit that says whether it writes.

use crate::workload::{Op, Request, Rng};

/// Requests in the order of the trace.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    keys: Vec<u64>,
    /// Bit i % 64 of word i / 64; words past the last write are left out.
    writes: Vec<u64>,
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
