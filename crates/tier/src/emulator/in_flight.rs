//! Prefetches in flight: lines that a thread has requested and not read yet.
//!
//! A request is one prefetch, of at most [`PIECE`] lines, which arrive together. The number of
//! requests is limited, as a core's fill buffers are. A request ends when its last line is read,
//! when it is the oldest and a new one needs its place (which then waits until the old one has
//! arrived), or after [`MAX_ACCESSES`] accesses. So the lines in flight depend on the sequence of
//! calls alone, never on the clock.
//!
//! Most reads are of lines that are not in flight. [`InFlight::may_hold`] detects these by one bit
//! of a filter, at the same cost with and without requests in flight: a prefetch whose lines are
//! never read must not slow down later reads.
//!
//! Invariants: requests are in order of age; each has at least one unread line; the filter has the
//! bits of all of them.

use std::ops::RangeInclusive;

/// The most lines of one request: a page.
pub const PIECE: u64 = 64;

/// A request ends after this many accesses, even if its lines were not read: by then the lines have
/// arrived, and the reader has taken another path (a wrong guess, a restart).
///
/// A ring of 64 lookups, the deepest there is, makes 64 accesses between a prefetch and the access
/// that it is for, and some more where a lookup reads a record's copy or searches twice. 256 allows
/// for about three times that.
const MAX_ACCESSES: u64 = 256;

/// Lines that share a bit of the filter: a node of 1 KiB.
const BLOCK: u64 = 16;

/// Words of the filter: wide enough that the requests of a full list, of three blocks each, leave
/// nine bits of ten unset.
const WORDS: usize = 8;

struct Request {
    first: u64,
    /// The requested lines that are unread; bit 0 is `first`.
    expected: u64,
    /// The time at which it arrives; 0 once an access has waited for it.
    ready: u64,
    /// [`InFlight::accesses`] at its start.
    started: u64,
}

impl Request {
    /// All blocks in which a read of up to [`BLOCK`] lines that includes a line of this request can
    /// begin.
    fn blocks(&self) -> RangeInclusive<u64> {
        let last = self.first + u64::from(self.expected.ilog2());
        (self.first / BLOCK).saturating_sub(1)..=last / BLOCK
    }
}

/// The lines that an access finds in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// The accessed lines that were in flight; bit 0 is the first accessed line.
    pub lines: u64,
    /// The time at which they arrive; 0 if an earlier access has waited for them.
    pub ready: u64,
}

/// A Bloom filter with one hash function: the blocks of lines that may have a request.
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
    /// Accesses so far.
    accesses: u64,
    /// Prefetched lines whose requests ended before they were read.
    unvisited: u64,
}

impl InFlight {
    /// Whether some of the `count` lines from `first` on may be in flight. Usually `false` if none
    /// is.
    #[inline(always)]
    pub fn may_hold(&self, first: u64, count: u64) -> bool {
        self.filter.may_have(first / BLOCK) || (count > BLOCK && !self.requests.is_empty())
    }

    /// Counts an access, if one `begins`.
    #[inline(always)]
    pub fn count_access(&mut self, begins: bool) {
        self.accesses += u64::from(begins);
    }

    /// Ends all requests.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.renew_filter();
    }

    /// Ends the oldest requests until one more keeps within `limit`. Returns the time at which the
    /// last of these arrives, which the caller waits for.
    pub fn make_room(&mut self, limit: usize) -> u64 {
        self.expire();
        let surplus = (self.requests.len() + 1).saturating_sub(limit.max(1));
        let ready = self.requests[..surplus].iter().map(|request| request.ready);
        let ready = ready.max().unwrap_or(0);
        self.end_oldest(surplus);
        ready
    }

    /// Adds a request for the lines `first` + i of all bits i in `expected`, which arrive at
    /// `ready`.
    pub fn start(&mut self, first: u64, expected: u64, ready: u64) {
        debug_assert!(expected != 0, "an empty request");
        let request = Request {
            first,
            expected,
            ready,
            started: self.accesses,
        };
        self.filter.add(&request);
        self.requests.push(request);
    }

    /// Takes those of `count` lines (at most [`PIECE`]) from `first` on that are in flight, for an
    /// access to them.
    pub fn claim(&mut self, first: u64, count: u64) -> Arrival {
        self.expire();
        let accessed = u64::MAX >> (PIECE - count);
        let mut arrival = Arrival::default();
        let mut at = 0;
        while let Some(request) = self.requests.get_mut(at) {
            let lines = slide(request.expected, request.first, first) & accessed;
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

    /// The number of prefetched lines whose requests ended before they were read.
    pub fn unvisited(&self) -> u64 {
        self.unvisited
    }

    /// Ends the requests that are older than [`MAX_ACCESSES`] accesses.
    fn expire(&mut self) {
        let is_old = |request: &Request| self.accesses - request.started > MAX_ACCESSES;
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

/// Rebases a set of lines: bit 0 is line `from` before and line `to` after.
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

    fn arrival(lines: u64, ready: u64) -> Arrival {
        Arrival { lines, ready }
    }

    #[test]
    fn an_access_takes_its_lines_once_and_the_time_once() {
        let mut queue = InFlight::default();
        queue.start(100, 0b1011, 700);
        queue.start(200, 0b1, 900);
        assert_eq!(queue.claim(98, 2), Arrival::default(), "just before");
        assert_eq!(queue.claim(104, 64), Arrival::default(), "just after");
        assert_eq!(queue.claim(99, 2), arrival(0b10, 700));
        assert_eq!(queue.claim(100, 4), arrival(0b1010, 0), "waited for before");
        assert_eq!(queue.claim(100, 4), Arrival::default());
        assert_eq!(queue.claim(200, 1), arrival(1, 900));
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn one_access_may_take_several_requests() {
        let mut queue = InFlight::default();
        queue.start(10, 0b1, 30);
        queue.start(12, 0b1, 50);
        queue.start(14, 0b1, 40);
        assert_eq!(queue.claim(9, 5), arrival(0b1010, 50));
        assert_eq!(queue.claim(0, 64), arrival(1 << 14, 40));
    }

    #[test]
    fn the_oldest_request_ends_for_a_new_one() {
        let mut queue = InFlight::default();
        for at in 1..=3 {
            assert_eq!(queue.make_room(3), 0, "fewer than the limit");
            queue.start(at, 1, 10 * at);
        }
        assert_eq!(queue.make_room(3), 10);
        queue.start(4, 1, 40);
        assert_eq!(queue.claim(1, 1), Arrival::default(), "it lost its place");
        assert_eq!(queue.claim(2, 1).ready, 20);
        assert_eq!(queue.make_room(3), 0, "a request that was read has ended");
        assert_eq!(queue.make_room(1), 40, "a smaller limit drops all but none");
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn sixty_four_lines_are_one_request() {
        let mut queue = InFlight::default();
        queue.start(0, u64::MAX, 5);
        assert_eq!(queue.claim(0, 64), arrival(u64::MAX, 5));
        assert!(queue.requests.is_empty());
    }

    #[test]
    fn a_request_that_is_not_read_ends_after_max_accesses() {
        let mut queue = InFlight::default();
        queue.start(160, 0b11, 700);
        for _ in 0..MAX_ACCESSES {
            queue.count_access(true);
            queue.count_access(false);
        }
        queue.start(800, 1, 900);
        assert_eq!(queue.claim(160, 1).ready, 700, "not yet");
        queue.count_access(true);
        assert_eq!(queue.claim(161, 1), Arrival::default());
        assert_eq!(queue.unvisited(), 1);
        assert!(!queue.may_hold(160, 2), "its bits are gone");
        assert_eq!(queue.claim(800, 1).ready, 900, "a younger one stays");
    }

    #[test]
    fn an_ended_request_is_not_waited_for() {
        let mut queue = InFlight::default();
        queue.start(160, 1, 700);
        (0..=MAX_ACCESSES).for_each(|_| queue.count_access(true));
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
