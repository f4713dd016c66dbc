//! One thread's requests, drawn one at a time.

use super::distribution::Sampler;
use super::key_space::KeySpace;
use super::mix::Mix;
use super::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Look up the key, which exists.
    Read,
    /// Update the value of the key, which exists.
    Update,
    /// Insert the key, which is new.
    Insert,
    /// Read up to this many records in key order, from the key (which exists) on.
    Scan(u16),
    /// Look up the key, which exists, then update its value.
    ReadModifyWrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub op: Op,
    pub key: u64,
}

/// The numbers of one thread's inserts: the k-th is `thread + k * threads`, so that threads use
/// disjoint numbers without a shared counter.
#[derive(Clone, Debug)]
pub(super) struct Inserts {
    pub made: u64,
    pub thread: u64,
    pub threads: u64,
}

impl Inserts {
    #[inline]
    pub fn number(&self, nth: u64) -> u64 {
        self.thread + nth * self.threads
    }

    #[inline]
    fn take(&mut self) -> u64 {
        self.made += 1;
        self.number(self.made - 1)
    }
}

/// An endless sequence of requests; see [`Workload::stream`](super::Workload::stream).
///
/// A clone continues from the same position with the same requests, and a new stream with the same
/// parameters starts over. Both let a placement count the requests in advance.
///
/// Streams share no cache line, as each request writes to one.
#[derive(Clone, Debug)]
#[repr(align(128))]
pub struct Stream {
    rng: Rng,
    mix: Mix,
    sampler: Sampler,
    space: KeySpace,
    inserts: Inserts,
}

impl Stream {
    pub(super) fn new(
        mix: Mix,
        sampler: Sampler,
        space: KeySpace,
        seed: u64,
        thread: u64,
        threads: u64,
    ) -> Stream {
        assert!(thread < threads, "thread {thread} of {threads}");
        Stream {
            rng: Rng::new(seed, thread),
            mix,
            sampler,
            space,
            inserts: Inserts {
                made: 0,
                thread,
                threads,
            },
        }
    }

    /// The next request. Not an `Iterator`'s `next`, because the stream never ends.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "endless: an Option would be checked for nothing"
    )]
    pub fn next(&mut self) -> Request {
        let op = self.mix.draw(&mut self.rng);
        let key = if op == Op::Insert {
            self.space.inserted_key(self.inserts.take())
        } else {
            self.sampler.key(&mut self.rng, &self.space, &self.inserts)
        };
        Request { op, key }
    }

    /// The next request's key, to count accesses.
    #[inline]
    pub fn next_key(&mut self) -> u64 {
        self.next().key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::workload::tests::chi_square;
    use crate::workload::{Distribution, Workload};

    const SEED: u64 = 2024;

    fn take(stream: &mut Stream, n: usize) -> Vec<Request> {
        (0..n).map(|_| stream.next()).collect()
    }

    #[test]
    fn every_key_asked_for_is_loaded_or_was_inserted_by_the_same_stream() {
        let space = KeySpace::new(500).unwrap();
        for name in Workload::names() {
            let workload = Workload::parse(name).unwrap();
            for thread in 0..3 {
                let mut there: HashSet<u64> = (0..500).map(|id| space.key(id)).collect();
                for request in take(&mut workload.stream(&space, SEED, thread, 3), 20_000) {
                    if request.op == Op::Insert {
                        assert!(there.insert(request.key), "{name} inserts what is there");
                    } else {
                        assert!(
                            there.contains(&request.key),
                            "{name} asks for what is not there"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn threads_insert_different_keys() {
        let space = KeySpace::new(500).unwrap();
        let workload = Workload::parse("ycsb-d").unwrap();
        let mut all = HashSet::new();
        for thread in 0..4 {
            let requests = take(&mut workload.stream(&space, SEED, thread, 4), 20_000);
            let inserted = requests.iter().filter(|request| request.op == Op::Insert);
            assert!(
                inserted
                    .map(|request| request.key)
                    .all(|key| all.insert(key))
            );
        }
        assert!(
            (3600..4400).contains(&all.len()),
            "{} inserts in 80,000",
            all.len()
        );
    }

    #[test]
    fn a_stream_repeats_from_its_seed_and_threads_differ() {
        let space = KeySpace::new(10_000).unwrap();
        for name in Workload::names() {
            let workload = Workload::parse(name).unwrap();
            let requests = take(&mut workload.stream(&space, SEED, 1, 2), 500);
            let again = Workload::parse(name).unwrap();
            assert_eq!(take(&mut again.stream(&space, SEED, 1, 2), 500), requests);
            assert_ne!(
                take(&mut workload.stream(&space, SEED, 0, 2), 500),
                requests
            );
            assert_ne!(
                take(&mut workload.stream(&space, SEED + 1, 1, 2), 500),
                requests
            );
            let mut keys = workload.stream(&space, SEED, 1, 2);
            assert!(
                requests
                    .iter()
                    .all(|request| request.key == keys.next_key()),
                "{name}"
            );
        }
    }

    /// The requests must not depend on whether the region moved away and came back.
    #[test]
    fn a_moved_region_changes_keys_and_nothing_else() {
        let space = KeySpace::new(10_000).unwrap();
        let workload = Workload::parse("hs-a").unwrap();
        let region = workload.hot_region(&space, SEED).unwrap();
        let (mut stays, mut moves) = (
            workload.stream(&space, SEED, 0, 1),
            workload.stream(&space, SEED, 0, 1),
        );
        let still = take(&mut stays, 1000);
        workload.hot_epoch().advance();
        let moved = take(&mut moves, 1000);
        workload.hot_epoch().set(0);
        assert!(
            still
                .iter()
                .zip(&moved)
                .all(|(a, b)| a.op == b.op && a.key != b.key)
        );
        let hot_keys: HashSet<u64> = (0..10_000)
            .filter(|&id| region.contains(1, id))
            .map(|id| space.key(id))
            .collect();
        let hot = moved
            .iter()
            .filter(|request| hot_keys.contains(&request.key))
            .count();
        assert!((860..940).contains(&hot), "{hot} of 1000");
        assert_eq!(take(&mut stays, 1000), take(&mut moves, 1000));
    }

    #[test]
    fn threads_agree_on_what_is_hot() {
        let space = KeySpace::new(1000).unwrap();
        let workload = Workload::parse("ycsb-c").unwrap();
        let hottest = |thread| {
            let mut counts = std::collections::HashMap::new();
            let mut stream = workload.stream(&space, SEED, thread, 2);
            (0..20_000).for_each(|_| *counts.entry(stream.next_key()).or_insert(0) += 1);
            counts
                .into_iter()
                .max_by_key(|(_, count)| *count)
                .unwrap()
                .0
        };
        assert_eq!(hottest(0), hottest(1));
    }

    #[test]
    fn uniform_is_uniform() {
        let space = KeySpace::new(64).unwrap();
        let workload = Workload::parse("hs-b")
            .unwrap()
            .with_distribution(Distribution::Uniform);
        let mut stream = workload.stream(&space, SEED, 0, 1);
        let keys: Vec<u64> = (0..64).map(|id| space.key(id)).collect();
        let mut counts = [0; 64];
        (0..64_000).for_each(|_| counts[keys.binary_search(&stream.next_key()).unwrap()] += 1);
        chi_square::assert_fits(&counts, &[1.0 / 64.0; 64]);
    }
}
