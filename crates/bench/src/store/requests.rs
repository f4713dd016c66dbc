//! Requests in flight on one task, and how long each takes.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;

/// Times from a request's start to its end, up to a minute.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = Histogram::new_with_bounds(100, 60_000_000_000, 3);
        Latencies(histogram.expect("the bounds are right"))
    }
}

impl Latencies {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Another one.
    pub fn record(&mut self, took: Duration) {
        self.0.saturating_record(took.as_nanos() as u64);
    }

    /// All of another thread.
    pub fn add(&mut self, others: &Latencies) {
        self.0.add(&others.0).expect("the bounds are the same");
    }

    /// The time that half of them took at most, in microseconds.
    pub fn p50_us(&self) -> f64 {
        self.0.value_at_quantile(0.5) as f64 / 1e3
    }

    /// The time that 99 % took at most, in microseconds.
    pub fn p99_us(&self) -> f64 {
        self.0.value_at_quantile(0.99) as f64 / 1e3
    }
}

/// Keeps futures in flight until `is_enough` says so of the number that ended, and then ends those
/// that were begun. Returns how many ended.
///
/// # Errors
/// The first of a future.
pub async fn in_flight<F: Future<Output = Result<(), E>>, E>(
    depth: usize,
    latencies: &mut Latencies,
    mut make: impl FnMut() -> F,
    mut is_enough: impl FnMut(u64) -> bool,
) -> Result<u64, E> {
    let mut ended = 0;
    let mut begin = || {
        let (start, request) = (Instant::now(), make());
        async move { request.await.map(|()| start) }
    };
    // Only those that were woken are polled.
    let mut under_way: FuturesUnordered<_> = (0..depth).map(|_| begin()).collect();
    while let Some(done) = under_way.next().await {
        latencies.record(done?.elapsed());
        ended += 1;
        if !is_enough(ended) {
            under_way.push(begin());
        }
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Poll;

    use timberline_io::wait_for;

    use super::*;

    #[test]
    fn as_many_as_asked_for_are_in_flight_and_all_end() {
        let (begun, ended) = (&Cell::new(0), &Cell::new(0));
        let make = || {
            begun.set(begun.get() + 1);
            let mut polled = 0;
            std::future::poll_fn(move |context| {
                // Each ends when it is polled the second time.
                polled += 1;
                context.waker().wake_by_ref();
                assert!(begun.get() - ended.get() <= 4);
                match polled {
                    1 => Poll::Pending,
                    _ => {
                        ended.set(ended.get() + 1);
                        Poll::Ready(Ok::<(), ()>(()))
                    }
                }
            })
        };
        let mut latencies = Latencies::default();
        let done = wait_for(in_flight(4, &mut latencies, make, |done| done >= 10));
        assert_eq!(done, Ok(begun.get()));
        assert!(begun.get() >= 10 && begun.get() <= 14, "{}", begun.get());
    }

    #[test]
    fn the_first_error_ends_it() {
        let make = || std::future::ready(Err::<(), _>("no"));
        let mut latencies = Latencies::default();
        let done = wait_for(in_flight(4, &mut latencies, make, |_| false));
        assert_eq!(done, Err("no"));
    }
}
