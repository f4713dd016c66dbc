//! A small number for each thread, by which per-thread state inside shared structures is found.
//!
//! Lanes are not unique: there are [`LANES`] of them and any number of threads. State kept per
//! lane must stay correct when two threads share one; it is just slower then.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many lanes there are.
pub const LANES: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// 0 until the thread has asked for a lane of its own; so that looking needs no branch.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// This thread's lane, below [`LANES`]; 0 as long as [`assign`] was not called.
#[inline(always)]
pub fn current() -> usize {
    LANE.with(Cell::get)
}

/// This thread's lane, given out at the first call; never 0.
#[inline]
pub fn assign() -> usize {
    LANE.with(|lane| {
        if lane.get() == 0 {
            lane.set(1 + NEXT.fetch_add(1, Relaxed) % (LANES - 1));
        }
        lane.get()
    })
}

/// A `T` for each lane, so far apart that no two share a line (or a pair that is fetched together).
#[derive(Debug)]
pub struct PerLane<T>([Apart<T>; LANES]);

#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T> PerLane<T> {
    /// One made by `make` for each lane.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        PerLane(std::array::from_fn(|_| Apart(make())))
    }

    /// This thread's. Threads that have no lane yet share one.
    #[inline(always)]
    pub fn mine(&self) -> &T {
        // SAFETY: `current` is below LANES: 0, or what `assign` made of a remainder.
        let Apart(mine) = unsafe { self.0.get_unchecked(current()) };
        mine
    }

    /// This thread's, after giving it a lane of its own.
    #[inline]
    pub fn assigned(&self) -> &T {
        &self.0[assign()].0
    }

    /// That of a lane, by its number.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn of(&self, lane: usize) -> &T {
        &self.0[lane].0
    }

    /// All lanes'.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Apart(lane)| lane)
    }
}

impl<T: Default> Default for PerLane<T> {
    fn default() -> Self {
        PerLane::new(T::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_lane() {
        std::thread::spawn(|| {
            assert_eq!(current(), 0);
            let lane = assign();
            assert!((1..LANES).contains(&lane));
            assert_eq!((current(), assign()), (lane, lane));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_with_lanes_have_places_of_their_own() {
        let lanes = PerLane::new(|| AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| lanes.assigned().fetch_add(1, Relaxed));
            }
        });
        let counts: Vec<usize> = lanes.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!(counts.iter().sum::<usize>(), 4);
        assert_eq!((counts.len(), counts[0]), (LANES, 0));
    }
}
