//! Requests made when they are due, not when the map has time for them.
//!
//! A request's latency is counted from the moment it was due to its answer. So a map that stalls is
//! late for all requests that were due meanwhile, and each of them shows it; in a closed loop only
//! the one that stalled would ("coordinated omission": Tene, "How NOT to Measure Latency", 2013).
//!
//! Invariant: each request that is due before the end has a turn, or is told to have missed it.

use std::time::Duration;

use super::source::Source;
use crate::workload::Request;

/// The time since a slice began.
pub trait Clock {
    /// Now.
    fn now(&self) -> Duration;

    /// Returns at `due`, or soon after it; false if the slice ends before.
    fn wait_until(&self, due: Duration) -> bool;

    /// Whether the slice is over.
    fn is_over(&self) -> bool;
}

/// Requests with the time at which each is due, which never falls.
pub trait Timetable {
    /// When the next request is due.
    fn due(&self) -> Duration;

    /// The next request.
    fn take(&mut self) -> Request;
}

/// What is to be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Make a request, which was due then.
    Make(Request, Duration),
    /// Nothing any more: a request's turn had not come when the slice ended, so long after it was
    /// due.
    Missed(Duration),
}

/// The turns of one thread in one slice.
pub struct Schedule<'a, T, C> {
    timetable: T,
    clock: &'a C,
    /// When the slice was seen to be over.
    ended: Option<Duration>,
}

impl<'a, T: Timetable, C: Clock> Schedule<'a, T, C> {
    /// All that is due until the clock says that the slice is over.
    pub fn new(timetable: T, clock: &'a C) -> Self {
        Schedule {
            timetable,
            clock,
            ended: None,
        }
    }

    /// How long ago a request was due.
    pub fn since(&self, due: Duration) -> Duration {
        self.clock.now().saturating_sub(due)
    }
}

impl<T: Timetable, C: Clock> Iterator for Schedule<'_, T, C> {
    type Item = Due;

    /// The next turn, when it is time for it.
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
            // What comes later is due even later.
            return None;
        }
        Some(Due::Make(self.timetable.take(), due))
    }
}

/// A source whose trace was at `origin` when the slice began.
pub struct Since<'a, 't> {
    /// Where requests come from.
    pub source: &'a mut Source<'t>,
    /// The time of the trace that is the slice's 0.
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

    /// Time that only the test and waiting move.
    struct Fake {
        now: Cell<Duration>,
        end: Duration,
    }

    impl Clock for Fake {
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

    /// The latencies of a map that takes 10 µs for a request and `stall` for the third, in a slice
    /// of 12 ms; and how long those waited that missed their turn.
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

    /// The stall is from 2 to 7 ms. Requests 3 to 7 were due meanwhile: each waits for its end, and
    /// for those before it.
    #[test]
    fn a_stall_shows_in_all_requests_that_were_due_meanwhile() {
        let (made, missed) = latencies(5 * MS);
        let waits = [5_000, 4_010, 3_020, 2_030, 1_040, 50].map(|wait| wait * US);
        let fast = 10 * US;
        let expected = [&[fast; 2][..], &waits, &[fast; 4]].concat();
        assert_eq!((made, missed), (expected, vec![]));
    }

    /// The stall outlasts the slice by 0.5 ms: requests 3 to 12 never had their turn, and had
    /// waited for so long.
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
