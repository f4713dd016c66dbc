//! The distribution of a trace's requests over threads.

use std::ops::Range;

use super::requests::Requests;
use crate::workload::Request;

/// The requests of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Every n-th, so that all threads are at the same position of the trace.
    #[default]
    RoundRobin,
    /// A contiguous part, so that successive requests stay successive.
    Contiguous,
}

/// One thread's requests, once through; clone it or use `cycle()` to start again.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    requests: &'a Requests,
    positions: Range<usize>,
    step: usize,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        requests: &'a Requests,
        thread: usize,
        threads: usize,
        split: Split,
    ) -> Replay<'a> {
        assert!(thread < threads, "thread {thread} of {threads}");
        let all = requests.len();
        let border = |thread| (all as u128 * thread as u128 / threads as u128) as usize;
        let (positions, step) = match split {
            Split::RoundRobin => (thread.min(all)..all, threads),
            Split::Contiguous => (border(thread)..border(thread + 1), 1),
        };
        Replay {
            requests,
            positions,
            step,
        }
    }
}

impl Replay<'_> {
    /// The time of the next request in the trace, ns after the first, if there is a next request
    /// and the trace has timestamps.
    #[inline]
    pub fn next_time(&self) -> Option<u64> {
        let Range { start, end } = self.positions;
        (start < end).then(|| self.requests.time(start)).flatten()
    }
}

impl Iterator for Replay<'_> {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        let Range { start, end } = self.positions;
        if start >= end {
            return None;
        }
        self.positions.start = start + self.step;
        Some(self.requests.get(start))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let Range { start, end } = self.positions;
        let left = end.saturating_sub(start).div_ceil(self.step);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Replay<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(requests: &Requests, thread: usize, threads: usize, split: Split) -> Vec<u64> {
        let replay = Replay::new(requests, thread, threads, split);
        let expected = replay.len();
        let keys: Vec<u64> = replay.map(|request| request.key).collect();
        assert_eq!(keys.len(), expected);
        keys
    }

    #[test]
    fn threads_make_each_request_once() {
        for (all, threads) in [(1, 1), (1, 4), (10, 3), (64, 8), (100, 7)] {
            let mut requests = Requests::new(0.0);
            (0..all).for_each(|key| requests.push(key, None));
            for split in [Split::RoundRobin, Split::Contiguous] {
                let mut together: Vec<u64> = (0..threads)
                    .flat_map(|thread| keys(&requests, thread, threads, split))
                    .collect();
                if split == Split::Contiguous {
                    assert!(together.is_sorted());
                }
                together.sort_unstable();
                assert!(
                    together.into_iter().eq(0..all),
                    "{all} over {threads}, {split:?}"
                );
            }
        }
    }

    #[test]
    fn shares_keep_the_order() {
        let mut requests = Requests::new(0.0);
        (0..10).for_each(|key| requests.push(key, None));
        assert_eq!(keys(&requests, 1, 3, Split::RoundRobin), [1, 4, 7]);
        assert_eq!(keys(&requests, 1, 3, Split::Contiguous), [3, 4, 5]);
    }
}
