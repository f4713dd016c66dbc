//! Requests issued on schedule, independent of the map's speed.
//!
//! The latency of a request counts from the time it was due to its response. So a stall delays all
//! requests that were due meanwhile, and each of them shows it. In a closed loop only the stalled
//! request would ("coordinated omission": Tene, "How NOT to Measure Latency", 2013).
//!
//! Invariant: each request that is due before the end is executed, or reported as missed.

use std::time::Duration;

use super::source::Source;
use crate::workload::Request;

pub trait SliceClock {
    /// The time since the slice began.
    fn now(&self) -> Duration;

    /// Returns at `due` or soon after; false if the slice ends before.
    fn wait_until(&self, due: Duration) -> bool;

    /// Whether the slice is over.
    fn is_over(&self) -> bool;
}

/// Requests with their due times, which never decrease.
pub trait Timetable {
    /// When the next request is due.
    fn due(&self) -> Duration;

    fn take(&mut self) -> Request;
}

/// The next step of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Execute a request that was due then.
    Make(Request, Duration),
    /// The slice ended before this request was executed; it was due this long before the end.
    Missed(Duration),
}

/// The steps of one thread in one slice.
pub struct Schedule<'a, T, C> {
    timetable: T,
    clock: &'a C,
    /// When the end of the slice was noticed.
    ended: Option<Duration>,
}

impl<'a, T: Timetable, C: SliceClock> Schedule<'a, T, C> {
    /// All requests due before the clock reports the end of the slice.
    pub fn new(timetable: T, clock: &'a C) -> Self {
        Schedule {
            timetable,
            clock,
            ended: None,
        }
    }

    /// The time since a request was due.
    pub fn since(&self, due: Duration) -> Duration {
        self.clock.now().saturating_sub(due)
    }
}

impl<T: Timetable, C: SliceClock> Iterator for Schedule<'_, T, C> {
    type Item = Due;

    /// Waits for the next step.
    fn next(&mut self) -> Option<Due> {
        let due = self.timetable.due();
        if self.ended.is_none() && self.clock.is_over() {
            self.ended = Some(self.clock.now());
        }
        if let Some(end) = self.ended {
            let waited = end.checked_sub(due)?;
            self.timetable.take();
            return Some(Due::Missed(waited));
        }
        if self.clock.now() < due && !self.clock.wait_until(due) {
            // Later requests are due later still.
            return None;
        }
        Some(Due::Make(self.timetable.take(), due))
    }
}

/// A source whose trace was at `origin` when the slice began.
pub struct Since<'a, 't> {
    pub source: &'a mut Source<'t>,
    /// The trace's time at the start of the slice.
    pub origin: Duration,
}

impl Timetable for Since<'_, '_> {
    fn due(&self) -> Duration {
        let due = self
            .source
            .due()
            .expect("only a source with times has a schedule");
        due.saturating_sub(self.origin)
    }

    fn take(&mut self) -> Request {
        self.source.next()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::workload::Op;

    const MS: Duration = Duration::from_millis(1);
    const US: Duration = Duration::from_micros(1);

    /// A clock that advances only by the test and by waiting.
    struct Fake {
        now: Cell<Duration>,
        end: Duration,
    }

    impl SliceClock for Fake {
        fn now(&self) -> Duration {
            self.now.get()
        }
        fn wait_until(&self, due: Duration) -> bool {
            assert!(due > self.now.get(), "no wait for what is past");
            self.now.set(due.min(self.end));
            due < self.end
        }
        fn is_over(&self) -> bool {
            self.now.get() >= self.end
        }
    }

    /// Request n is due at n ms.
    struct EachMs(u64);

    impl Timetable for EachMs {
        fn due(&self) -> Duration {
            MS * self.0 as u32
        }
        fn take(&mut self) -> Request {
            self.0 += 1;
            let (op, key) = (Op::Read, self.0 - 1);
            Request { op, key }
        }
    }

    /// The latencies of a map that takes 10 µs per request and `stall` for the third, in a slice of
    /// 12 ms; and how long the missed requests had waited.
    fn latencies(stall: Duration) -> (Vec<Duration>, Vec<Duration>) {
        let now = Cell::new(Duration::ZERO);
        let clock = Fake { now, end: 12 * MS };
        let mut schedule = Schedule::new(EachMs(0), &clock);
        let (mut made, mut missed) = (Vec::new(), Vec::new());
        while let Some(turn) = schedule.next() {
            match turn {
                Due::Make(request, due) => {
                    assert!(clock.now() >= due, "none is made too early");
                    let service = if request.key == 2 { stall } else { 10 * US };
                    clock.now.set(clock.now() + service);
                    made.push(schedule.since(due));
                }
                Due::Missed(waited) => missed.push(waited),
            }
        }
        (made, missed)
    }

    #[test]
    fn a_map_that_keeps_up_is_seen_as_fast_as_it_is() {
        assert_eq!(latencies(10 * US), (vec![10 * US; 12], vec![]));
    }

    /// The stall lasts from 2 to 7 ms. Requests 3 to 7 are due meanwhile: each waits for its end,
    /// and for the requests before it.
    #[test]
    fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
        let (made, missed) = latencies(5 * MS);
        let waits = [5_000, 4_010, 3_020, 2_030, 1_040, 50].map(|wait| wait * US);
        let fast = 10 * US;
        let expected = [&[fast; 2][..], &waits, &[fast; 4]].concat();
        assert_eq!((made, missed), (expected, vec![]));
    }

    /// The stall outlasts the slice by 0.5 ms: requests 3 to 12 are missed, after waiting that
    /// long.
    #[test]
    fn what_misses_its_turn_is_told_with_its_wait() {
        let (made, missed) = latencies(10 * MS + 500 * US);
        assert_eq!(made, [10 * US, 10 * US, 10_500 * US]);
        let expected: Vec<_> = (3..=12).map(|ms| 12_500 * US - ms * MS).collect();
        assert_eq!(missed, expected);
    }

    #[test]
    fn a_slice_ends_while_nothing_is_due() {
        let clock = Fake {
            now: Cell::new(Duration::ZERO),
            end: MS / 2,
        };
        let mut schedule = Schedule::new(EachMs(1), &clock);
        assert_eq!(schedule.next(), None);
        assert_eq!(clock.now(), MS / 2);
    }
}
