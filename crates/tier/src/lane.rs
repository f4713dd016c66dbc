//! A small number for each thread, by which per-thread state inside shared structures is found.
//!
//! Lanes are not unique: there are [`LANES`] of them and any number of threads. State kept per
//! lane must stay correct when two threads share one; it is just slower then.

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
pub fn assign() -> usize {
    LANE.with(|lane| {
        if lane.get() == 0 {
            lane.set(1 + NEXT.fetch_add(1, Relaxed) % (LANES - 1));
        }
        lane.get()
    })
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
}
