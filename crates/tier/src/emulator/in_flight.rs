//! Prefetches in flight: lines that a thread has requested and not visited yet.
//!
//! A request is one prefetch, of at most [`PIECE`] lines, and all of it arrives at one time. The
//! number of requests is limited, as a core's fill buffers are. A request ends when its last line
//! is visited, when it is the oldest and a new one needs its place (the new one then waits until
//! the old one has arrived), or after [`MAX_VISITS`] visits. Which lines are in flight therefore
//! follows from the sequence of calls alone, never from the clock.
//!
//! Most reads are of lines that are not in flight. [`InFlight::may_hold`] tells so by one bit of
//! a filter, at the same cost with and without requests in flight: a request that nobody visits
//! must not tax the reads after it.
//!
//! Invariants: requests are in order of age; each has at least one line that is not yet visited;
//! the filter has the bits of all of them.

use std::ops::RangeInclusive;

/// The most lines of one request: a page.
pub const PIECE: u64 = 64;

/// A request ends after this many visits, whether its lines were visited or not: by then the line
/// has arrived, and the reader has gone another way (a wrong guess, a restart).
///
/// A ring of 64 lookups, the deepest there is, makes 64 visits between a prefetch and the visit
/// it was for, and some more where a lookup reads a copy or searches twice. In 256 there is room
/// for three times that.
const MAX_VISITS: u64 = 256;

/// Lines that share a bit of the filter: a node of 1 KiB.
const BLOCK: u64 = 16;

/// Words of the filter: wide enough that the requests of a full list, of three blocks each, leave
/// nine bits of ten unset.
const WORDS: usize = 8;

struct Request {
    first: u64,
    /// The requested lines that are not visited yet; bit 0 is `first`.
    expected: u64,
    /// When all of it is there; 0 once a visit has waited for it.
    ready: u64,
    /// Its visit number: [`InFlight::visits`] when it started.
    started: u64,
}

impl Request {
    /// All blocks in which a read of up to [`BLOCK`] lines can begin that has a line of this
    /// request.
    fn blocks(&self) -> RangeInclusive<u64> {
        let last = self.first + u64::from(self.expected.ilog2());
        (self.first / BLOCK).saturating_sub(1)..=last / BLOCK
    }
}

/// Lines that a visit finds in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Of the visited lines, those that were in flight; bit 0 is the first one visited.
    pub lines: u64,
    /// When they are there; 0 if an earlier visit has waited for them.
    pub ready: u64,
}

/// A Bloom filter of one hash: which blocks of lines may have a request.
#[derive(Default)]
struct Filter([u64; WORDS]);

impl Filter {
    #[inline(always)]
    fn may_have(&self, block: u64) -> bool {
        self.0[Self::word_of(block)] >> (block % 64) & 1 != 0
    }

    fn add(&mut self, request: &Request) {
        for block in request.blocks() {
            self.0[Self::word_of(block)] |= 1 << (block % 64);
        }
    }

    #[inline(always)]
    fn word_of(block: u64) -> usize {
        (block / 64) as usize % WORDS
    }
}

/// The requests of one thread.
#[derive(Default)]
pub struct InFlight {
    requests: Vec<Request>,
    filter: Filter,
    /// Visits so far.
    visits: u64,
    /// Lines of requests that ended before these lines were visited.
    unvisited: u64,
}

impl InFlight {
    /// Whether some of these `count` lines from `first` on may be in flight. Usually `false` where
    /// none is.
    #[inline(always)]
    pub fn may_hold(&self, first: u64, count: u64) -> bool {
        self.filter.may_have(first / BLOCK) || (count > BLOCK && !self.requests.is_empty())
    }

    /// Counts a visit, if one `begins`.
    #[inline(always)]
    pub fn count_visit(&mut self, begins: bool) {
        self.visits += u64::from(begins);
    }

    /// Ends all requests.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.renew_filter();
    }

    /// Makes room for one more request if `limit` are in flight. Returns when the request that
    /// had to end arrives: the caller waits until then.
    pub fn make_room(&mut self, limit: usize) -> u64 {
        self.expire();
        let surplus = (self.requests.len() + 1).saturating_sub(limit.max(1));
        let ready = self.requests[..surplus].iter().map(|request| request.ready);
        let ready = ready.max().unwrap_or(0);
        self.end_oldest(surplus);
        ready
    }

    /// Notes a request for the lines `first` + i of all bits i in `expected`, there at `ready`.
    pub fn start(&mut self, first: u64, expected: u64, ready: u64) {
        debug_assert!(expected != 0, "an empty request");
        let request = Request {
            first,
            expected,
            ready,
            started: self.visits,
        };
        self.filter.add(&request);
        self.requests.push(request);
    }

    /// Takes those of `count` lines (at most [`PIECE`]) from `first` on that are in flight, for a
    /// visit to them.
    pub fn claim(&mut self, first: u64, count: u64) -> Arrival {
        self.expire();
        let visited = u64::MAX >> (PIECE - count);
        let mut arrival = Arrival::default();
        let mut at = 0;
        while let Some(request) = self.requests.get_mut(at) {
            let lines = slide(request.expected, request.first, first) & visited;
            if lines != 0 {
                arrival.lines |= lines;
                arrival.ready = arrival.ready.max(request.ready);
                request.ready = 0;
                request.expected &= !slide(lines, first, request.first);
            }
            if request.expected == 0 {
                self.requests.remove(at);
            } else {
                at += 1;
            }
        }
        if arrival.lines != 0 {
            self.renew_filter();
        }
        arrival
    }

    /// Lines so far that were prefetched and whose request ended before they were visited.
    pub fn unvisited(&self) -> u64 {
        self.unvisited
    }

    /// Ends the requests that are too old.
    fn expire(&mut self) {
        let is_old = |request: &Request| self.visits - request.started > MAX_VISITS;
        let old = self.requests.iter().take_while(|request| is_old(request));
        self.end_oldest(old.count());
    }

    fn end_oldest(&mut self, count: usize) {
        if count > 0 {
            let ended = self.requests.drain(..count);
            self.unvisited += ended
                .map(|request| u64::from(request.expected.count_ones()))
                .sum::<u64>();
            self.renew_filter();
        }
    }

    fn renew_filter(&mut self) {
        self.filter = Filter::default();
        for request in &self.requests {
            self.filter.add(request);
        }
    }
}

/// A set of lines whose bit 0 is line `from`, as one whose bit 0 is line `to`.
fn slide(lines: u64, from: u64, to: u64) -> u64 {
    let by = from.abs_diff(to);
    match by {
        PIECE.. => 0,
        _ if from > to => lines << by,
        _ => lines >> by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_takes_its_lines_once_and_the_time_once() {
        let mut queue = InFlight::default();
        queue.start(100, 0b1011, 700);
        queue.start(200, 0b1, 900);
        assert_eq!(queue.claim(98, 2), Arrival::default(), "just before");
        assert_eq!(queue.claim(104, 64), Arrival::default(), "just after");
        assert_eq!(
            queue.claim(99, 2),
            Arrival {
                lines: 0b10,
                ready: 700
            }
        );
        assert_eq!(
            queue.claim(100, 4),
            Arrival {
                lines: 0b1010,
                ready: 0
            },
            "waited for before"
        );
        assert_eq!(queue.claim(100, 4), Arrival::default());
        assert_eq!(
            queue.claim(200, 1),
            Arrival {
                lines: 1,
                ready: 900
            }
        );
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn one_visit_may_take_several_requests() {
        let mut queue = InFlight::default();
        queue.start(10, 0b1, 30);
        queue.start(12, 0b1, 50);
        queue.start(14, 0b1, 40);
        assert_eq!(
            queue.claim(9, 5),
            Arrival {
                lines: 0b1010,
                ready: 50
            }
        );
        assert_eq!(
            queue.claim(0, 64),
            Arrival {
                lines: 1 << 14,
                ready: 40
            }
        );
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut queue = InFlight::default();
        for at in 1..=3 {
            assert_eq!(queue.make_room(3), 0, "there is room");
            queue.start(at, 1, 10 * at);
        }
        assert_eq!(queue.make_room(3), 10);
        queue.start(4, 1, 40);
        assert_eq!(queue.claim(1, 1), Arrival::default(), "it lost its place");
        assert_eq!(queue.claim(2, 1).ready, 20);
        assert_eq!(queue.make_room(3), 0, "a visited one has left");
        assert_eq!(queue.make_room(1), 40, "a smaller limit drops all but none");
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn sixty_four_lines_are_one_request() {
        let mut queue = InFlight::default();
        queue.start(0, u64::MAX, 5);
        assert_eq!(
            queue.claim(0, 64),
            Arrival {
                lines: u64::MAX,
                ready: 5
            }
        );
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn a_request_that_nobody_visits_ends_after_so_many_visits() {
        let mut queue = InFlight::default();
        queue.start(160, 0b11, 700);
        for _ in 0..MAX_VISITS {
            queue.count_visit(true);
            queue.count_visit(false);
        }
        queue.start(800, 1, 900);
        assert_eq!(queue.claim(160, 1).ready, 700, "not yet");
        queue.count_visit(true);
        assert_eq!(queue.claim(161, 1), Arrival::default());
        assert_eq!(queue.unvisited(), 1);
        assert!(!queue.may_hold(160, 2), "its bits are gone");
        assert_eq!(queue.claim(800, 1).ready, 900, "a younger one stays");
    }

    #[test]
    fn an_ended_request_makes_room_and_is_not_waited_for() {
        let mut queue = InFlight::default();
        queue.start(160, 1, 700);
        (0..=MAX_VISITS).for_each(|_| queue.count_visit(true));
        assert_eq!(queue.make_room(1), 0);
    }

    #[test]
    fn the_filter_passes_every_read_that_may_claim_something() {
        for first in 0..200 {
            for expected in [1, 0b1001, 1 << 63 | 1, u64::MAX] {
                let mut queue = InFlight::default();
                queue.start(1000 + first, expected, 1);
                for read in 900..1300 {
                    for count in [1, 5, BLOCK, BLOCK + 1, PIECE] {
                        let lines = slide(expected, 1000 + first, read);
                        let holds = lines & (u64::MAX >> (PIECE - count)) != 0;
                        assert!(queue.may_hold(read, count) || !holds, "{read} + {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn reads_elsewhere_are_told_from_those_of_lines_in_flight() {
        let mut queue = InFlight::default();
        assert!(!queue.may_hold(0, PIECE));
        let all = 64 * WORDS as u64;
        queue.start(all * BLOCK, 0xffff, 1);
        let begins = |queue: &InFlight| (0..all).filter(|b| queue.may_hold(b * BLOCK, 16)).count();
        assert_eq!(begins(&queue), 2, "in its block and in the one before");
        queue.claim(all * BLOCK, 16);
        assert_eq!(begins(&queue), 0);
    }
}
