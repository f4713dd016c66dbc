//! A trace's requests with their due times.

use std::time::Duration;

use super::replay::Replay;
use crate::workload::Request;

/// One thread's requests with their due times, repeated. Times never decrease: after its last
/// request, the trace starts again after its average gap between requests.
#[derive(Clone, Debug)]
pub struct Timed<'a> {
    whole: Replay<'a>,
    left: Replay<'a>,
    /// The length of one replay of the trace, ns.
    period: u64,
    /// Start of the current replay, ns.
    began: u64,
    speed: f64,
}

impl<'a> Timed<'a> {
    pub(super) fn new(whole: Replay<'a>, span: u64, requests: usize, speed: f64) -> Timed<'a> {
        let apart = span / (requests as u64 - 1).max(1);
        Timed {
            left: whole.clone(),
            whole,
            period: span + apart.max(1),
            began: 0,
            speed,
        }
    }

    /// When the next request is due, since the first start.
    #[inline]
    pub fn due(&self) -> Duration {
        let time = match self.left.next_time() {
            Some(time) => self.began + time,
            None => self.began + self.period + self.whole.next_time().unwrap_or(0),
        };
        Duration::from_nanos((time as f64 / self.speed) as u64)
    }

    /// The next request.
    ///
    /// # Panics
    ///
    /// If this thread has no requests.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "endless: an Option would be checked for nothing"
    )]
    pub fn next(&mut self) -> Request {
        if let Some(request) = self.left.next() {
            return request;
        }
        self.began += self.period;
        self.left = self.whole.clone();
        self.left.next().expect("a share of a trace is not empty")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::sample::Sample;
    use crate::trace::{Trace, TraceFormat};

    fn take(timed: &mut Timed<'_>, n: usize) -> Vec<(u64, u128)> {
        let one = |_| {
            let due = timed.due().as_micros();
            (timed.next().key, due)
        };
        (0..n).map(one).collect()
    }

    /// Requests at 0, 1, 1 and 9 ms, so an average gap of 3 ms.
    #[test]
    fn requests_are_due_when_the_trace_made_them_and_faster_if_asked() {
        let text = b"time,key\n100,7\n101,8\n101,9\n109,7\n";
        let format = TraceFormat::parse("csv:unit=ms").unwrap();
        let trace = Trace::open(Sample::new("a.csv", text).path(), &format).unwrap();
        assert_eq!(trace.span_ns(), Some(9_000_000));
        assert_eq!(trace.frequencies(), [2.0, 1.0, 1.0]);
        let whole = take(&mut trace.timed(0, 1, 1.0).unwrap(), 6);
        let expected = [
            (7, 0),
            (8, 1_000),
            (9, 1_000),
            (7, 9_000),
            (7, 12_000),
            (8, 13_000),
        ];
        assert_eq!(whole, expected);
        let second = take(&mut trace.timed(1, 2, 4.0).unwrap(), 3);
        assert_eq!(second, [(8, 250), (7, 2_250), (8, 3_250)]);
    }

    #[test]
    fn a_trace_without_times_is_not_timed() {
        let untold = TraceFormat::parse("csv").unwrap();
        let text = b"time,key\n100,7\n101,8\n";
        let trace = Trace::open(Sample::new("a.csv", text).path(), &untold).unwrap();
        assert!(trace.timed(0, 1, 1.0).is_none() && trace.span_ns().is_none());
    }
}
