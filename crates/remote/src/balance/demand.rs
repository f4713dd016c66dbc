//! What a compute server is asked for: how many requests, and a sample of their keys.
//!
//! A request adds to a count in a cache line that its thread shares with few others, and one in so
//! many stores its key beside it. So it costs a few nanoseconds, and writes nothing that
//! all threads write.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counts, of which each thread uses one.
const STRIPES: usize = 8;
/// Keys of a stripe: with its count they fill 4 KiB.
const KEYS: usize = 511;

/// Requests so far. Empty, it counts nothing.
pub(crate) struct Demand {
    stripes: Box<[Stripe]>,
    sampled: u64,
}

#[repr(align(64))]
struct Stripe {
    requests: AtomicU64,
    /// Of the latest sampled requests.
    keys: [AtomicU64; KEYS],
}

/// What had been counted at some time, by stripes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen([u64; STRIPES]);

/// A key, and the requests that it stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    pub key: u64,
    pub requests: f64,
}

impl Demand {
    /// Counts nothing, or samples one request in so many.
    pub fn new(sampled: Option<u32>) -> Demand {
        let stripe = |_| Stripe {
            requests: AtomicU64::new(0),
            keys: [const { AtomicU64::new(0) }; KEYS],
        };
        let stripes = sampled.map_or(0, |_| STRIPES);
        Demand {
            stripes: (0..stripes).map(stripe).collect(),
            sampled: sampled.unwrap_or(1).max(1).into(),
        }
    }

    /// The bytes that it takes if it counts.
    pub const BYTES: usize = STRIPES * size_of::<Stripe>();

    /// Counts a request.
    #[inline]
    pub fn count(&self, key: u64) {
        if !self.stripes.is_empty() {
            self.count_in(&self.stripes[of_thread()], key);
        }
    }

    fn count_in(&self, stripe: &Stripe, key: u64) {
        let number = stripe.requests.fetch_add(1, Relaxed);
        if number.is_multiple_of(self.sampled) {
            let at = number / self.sampled % KEYS as u64;
            stripe.keys[at as usize].store(key, Relaxed);
        }
    }

    /// How many requests came since something was seen, and samples of them in the order of their
    /// keys. That is seen then. A sample may be a moment older, if its request is just counted.
    pub fn since(&self, seen: &mut Seen) -> (u64, Vec<Sample>) {
        let (mut all, mut samples) = (0, Vec::new());
        for (stripe, seen) in self.stripes.iter().zip(&mut seen.0) {
            let now = stripe.requests.load(Relaxed);
            let requests = now - std::mem::replace(seen, now);
            let numbers = (now - requests).div_ceil(self.sampled)..now.div_ceil(self.sampled);
            let kept = numbers.start.max(numbers.end.saturating_sub(KEYS as u64))..numbers.end;
            let weight = requests as f64 / (kept.end - kept.start) as f64;
            samples.extend(kept.map(|number| Sample {
                key: stripe.keys[(number % KEYS as u64) as usize].load(Relaxed),
                requests: weight,
            }));
            all += requests;
        }
        samples.sort_unstable_by_key(|sample| sample.key);
        (all, samples)
    }
}

/// The stripe of the calling thread.
fn of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: usize = NEXT.fetch_add(1, Relaxed) % STRIPES);
    // A thread that is just ending has none.
    MINE.try_with(|mine| *mine).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_fills_pages() {
        assert_eq!(size_of::<Stripe>(), 4_096);
    }

    #[test]
    fn requests_are_counted_and_sampled() {
        let (demand, mut seen) = (Demand::new(Some(4)), Seen::default());
        assert_eq!(demand.since(&mut seen), (0, vec![]));
        for threads in 1..20 {
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let demand = &demand;
                    scope.spawn(move || (0..100).for_each(|key| demand.count(thread * 100 + key)));
                }
            });
            let (requests, samples) = demand.since(&mut seen);
            assert_eq!(requests, 100 * threads);
            assert!(samples.iter().all(|sample| sample.key < 100 * threads));
            let stood_for: f64 = samples.iter().map(|sample| sample.requests).sum();
            assert!((stood_for - requests as f64).abs() < 1e-6, "{stood_for}");
            assert!(samples.is_sorted_by_key(|sample| sample.key));
        }
        // The latest are kept.
        (0..10_000).for_each(|key| demand.count(key));
        let (requests, samples) = demand.since(&mut seen);
        assert_eq!((requests, samples.len()), (10_000, KEYS));
        assert!(samples[0].key > 10_000 - 4 * (KEYS as u64 + 1));
    }

    #[test]
    fn what_does_not_count_costs_nothing() {
        let demand = Demand::new(None);
        demand.count(1);
        assert_eq!(demand.since(&mut Seen::default()), (0, vec![]));
        assert_eq!(size_of_val(&*demand.stripes), 0);
    }
}
