//! Prefetches under way: what a thread asked for and has not visited yet.
//!
//! A request is what one prefetch asked for, at most [`PIECE`] lines, and has one time at which
//! all of it is there. Their number is limited, as a core's fill buffers are: seed
//! `004_5d045c5d1aff9643.txt` §3.1.3 calls it the prefetch depth P and puts it at about 10. A
//! request holds its place until its lines are visited or it is the oldest and its place is
//! needed; who takes its place then waits until it is there. So which lines a request still has
//! to its name follows from the sequence of calls alone, never from the clock.
//!
//! Invariants: requests are in order of age; each has at least one line that is not yet visited.

/// The most lines of one request: a page.
pub const PIECE: u64 = 64;

struct Request {
    first: u64,
    /// The lines that memory was asked for and that are not visited yet; bit 0 is `first`.
    expected: u64,
    /// When all of it is there; 0 once somebody has waited for it.
    ready: u64,
}

/// Lines that a visit finds under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Of the visited lines, those that were asked for before; bit 0 is the first one visited.
    pub lines: u64,
    /// When they are there; 0 if somebody has waited for them already.
    pub ready: u64,
}

/// The requests of one thread.
#[derive(Default)]
pub struct InFlight(Vec<Request>);

impl InFlight {
    /// Whether nothing is under way.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Makes room for one more request if `limit` are under way. Returns when the request that
    /// went is there, for the caller to wait until then.
    pub fn make_room(&mut self, limit: usize) -> u64 {
        let surplus = (self.0.len() + 1).saturating_sub(limit.max(1));
        self.0
            .drain(..surplus)
            .map(|request| request.ready)
            .max()
            .unwrap_or(0)
    }

    /// Notes a request for the lines `first` + i of all bits i in `expected`, there at `ready`.
    pub fn start(&mut self, first: u64, expected: u64, ready: u64) {
        debug_assert!(expected != 0, "nothing was asked for");
        self.0.push(Request {
            first,
            expected,
            ready,
        });
    }

    /// Takes what a visit of `count` lines (at most [`PIECE`]) from `first` on finds under way.
    pub fn claim(&mut self, first: u64, count: u64) -> Arrival {
        let visited = u64::MAX >> (PIECE - count);
        let mut arrival = Arrival::default();
        self.0.retain_mut(|request| {
            let lines = slide(request.expected, request.first, first) & visited;
            if lines != 0 {
                arrival.lines |= lines;
                arrival.ready = arrival.ready.max(request.ready);
                request.ready = 0;
                request.expected &= !slide(lines, first, request.first);
            }
            request.expected != 0
        });
        arrival
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
        assert!(queue.is_empty());
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
        assert!(queue.is_empty());
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
        assert!(queue.is_empty());
    }
}
