//! Counts of a thread's accesses, which are equal in every run.

use std::ops::{Add, AddAssign, Sub};

/// Lines read through the emulator by one thread, and the charge for them.
///
/// All but [`waited_ps`](Self::waited_ps) follow from the sequence of accesses alone: for one seed
/// and one thread that starts with an empty cache, they repeat to the digit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineCounts {
    /// Lines of tier 0 that missed in the modelled cache.
    pub fast: u64,
    /// Lines of all other tiers that missed.
    pub slow: u64,
    /// Lines that hit.
    pub cached: u64,
    /// Time charged to accesses by definition, in picoseconds, however long the spinning took.
    pub charged_ps: u64,
    /// Time waited for prefetches in flight and for bandwidth that other threads used, in
    /// picoseconds. It depends on the other work done meanwhile, so it does not repeat. A thread
    /// whose requests overlap counts none.
    pub waited_ps: u64,
    /// Prefetched lines that were not read before their request ended: after a wrong guess, a
    /// restart, or more prefetches than can be in flight.
    pub unvisited: u64,
}

impl LineCounts {
    /// Time charged to accesses by definition, in whole nanoseconds.
    pub fn charged_ns(&self) -> u64 {
        self.charged_ps / 1000
    }

    /// The fraction of missing lines served by tier 0; `None` if no line was missing.
    pub fn fast_share(&self) -> Option<f64> {
        let asked = self.fast + self.slow;
        (asked > 0).then(|| self.fast as f64 / asked as f64)
    }
}

/// The counts between two snapshots.
impl Sub for LineCounts {
    type Output = LineCounts;

    fn sub(self, earlier: LineCounts) -> LineCounts {
        LineCounts {
            fast: self.fast - earlier.fast,
            slow: self.slow - earlier.slow,
            cached: self.cached - earlier.cached,
            charged_ps: self.charged_ps - earlier.charged_ps,
            waited_ps: self.waited_ps - earlier.waited_ps,
            unvisited: self.unvisited - earlier.unvisited,
        }
    }
}

/// The sum of the counts of two threads or of two slices of time.
impl Add for LineCounts {
    type Output = LineCounts;

    fn add(self, other: LineCounts) -> LineCounts {
        LineCounts {
            fast: self.fast + other.fast,
            slow: self.slow + other.slow,
            cached: self.cached + other.cached,
            charged_ps: self.charged_ps + other.charged_ps,
            waited_ps: self.waited_ps + other.waited_ps,
            unvisited: self.unvisited + other.unvisited,
        }
    }
}

impl AddAssign for LineCounts {
    fn add_assign(&mut self, other: LineCounts) {
        *self = *self + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_add_up() {
        let early = LineCounts {
            fast: 1,
            slow: 2,
            cached: 3,
            charged_ps: 4_999,
            waited_ps: 5,
            unvisited: 7,
        };
        let late = LineCounts {
            fast: 4,
            slow: 8,
            cached: 9,
            charged_ps: 9_999,
            waited_ps: 6,
            unvisited: 8,
        };
        let slice = late - early;
        assert_eq!(early + slice, late);
        assert_eq!(slice.charged_ns(), 5);
        assert_eq!(slice.fast_share(), Some(3.0 / 9.0));
        assert_eq!(LineCounts::default().fast_share(), None);
    }
}
