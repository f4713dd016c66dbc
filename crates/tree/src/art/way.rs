//! The start of a walk, and the order of positions in each direction.

use std::cmp::Ordering::{Greater, Less};
use std::ops::Bound;

use super::node::{AT_END, DenseLeaf, LAST, Position, Terminal, TerminalKey};
use crate::range::Way;

impl Way {
    /// A node's first position.
    pub fn begin(self) -> Position {
        match self {
            Way::Forward => AT_END,
            Way::Backward => LAST,
        }
    }

    /// The position after this one, if there is one.
    pub fn after(self, at: Position) -> Option<Position> {
        match self {
            Way::Forward => (at < LAST).then_some(at + 1),
            Way::Backward => at.checked_sub(1),
        }
    }

    /// The next of some places, a bit each; there is one.
    #[inline(always)]
    pub fn next_place(self, places: u64) -> u32 {
        match self {
            Way::Forward => places.trailing_zeros(),
            Way::Backward => places.ilog2(),
        }
    }

    /// The next of some places, of as many in a row as `most` or a few less; there is one.
    #[inline(always)]
    pub fn next_places(self, places: u64, most: usize) -> u64 {
        let row: u64 = match most {
            64.. => !0,
            most => (1 << most.max(1)) - 1,
        };
        let next = self.next_place(places);
        places
            & match self {
                Way::Forward => row << next,
                Way::Backward => row.reverse_bits() >> (63 - next),
            }
    }

    /// The last key that a terminal node holds, or may hold.
    pub fn last_of(self, terminal: Terminal<'_>) -> TerminalKey<'_> {
        match self {
            Way::Forward => terminal.greatest(),
            Way::Backward => terminal.key(),
        }
    }
}

/// The start of a walk: at a key, or next to it in the walk's direction.
#[derive(Clone, Copy, Debug)]
pub enum Start<'k> {
    Everything,
    At(TerminalKey<'k>),
    After(TerminalKey<'k>),
}

impl<'k> Start<'k> {
    pub fn at(key: &'k [u8]) -> Self {
        Start::At(TerminalKey::Lent(key))
    }

    pub fn after(key: &'k [u8]) -> Self {
        Start::After(TerminalKey::Lent(key))
    }

    /// From a bound on.
    pub fn of(bound: Bound<&'k [u8]>) -> Self {
        match bound {
            Bound::Included(key) => Start::at(key),
            Bound::Excluded(key) => Start::after(key),
            Bound::Unbounded => Start::Everything,
        }
    }

    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Start::Everything => None,
            Start::At(key) | Start::After(key) => Some(key),
        }
    }

    /// Whether a walk from here skips a record with this key.
    #[inline(always)]
    pub fn leaves_out(&self, way: Way, key: &[u8]) -> bool {
        let order = match self.key() {
            None => return false,
            Some(from) if way == Way::Forward => key.cmp(from),
            Some(from) => from.cmp(key),
        };
        match self {
            Start::After(_) => order != Greater,
            _ => order == Less,
        }
    }

    /// A bit for each of 64 positions of a dense leaf: whether a walk from here visits it.
    pub fn places_in(&self, dense: DenseLeaf<'_>, way: Way, group: u8) -> u64 {
        let Some(at) = self.key().and_then(|key| dense.place_of(key)) else {
            return !0;
        };
        // Places up to here, and that of the key itself.
        let (upto, own) = match at / 64 {
            of if of == group => ((1 << (at % 64)) - 1, 1 << (at % 64)),
            of if of > group => (!0, 0),
            _ => (0, 0),
        };
        let passed = match way {
            Way::Forward => !upto & !own,
            Way::Backward => upto,
        };
        match self {
            Start::After(_) => passed,
            _ => passed | own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_in_the_order_of_the_walk() {
        for places in [1 << 63, 1, !0, 0xf0f0, 1 << 40 | 1 << 3] {
            for way in [Way::Forward, Way::Backward] {
                for most in [1, 3, 63, 64, 500] {
                    let (mut left, mut taken) = (places, Vec::new());
                    while left != 0 {
                        let mut part = way.next_places(left, most);
                        assert!(part & !left == 0 && part.count_ones() as usize <= most);
                        left &= !part;
                        while part != 0 {
                            let at = way.next_place(part);
                            taken.push(at);
                            part &= !(1 << at);
                        }
                    }
                    let mut all: Vec<u32> = (0..64).filter(|at| places >> at & 1 != 0).collect();
                    if way == Way::Backward {
                        all.reverse();
                    }
                    assert_eq!(taken, all, "{places:#x}, {most} at a time");
                }
            }
        }
    }
}
