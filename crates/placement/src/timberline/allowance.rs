//! How many more leaves may be made in a tier before the worker's next round.
//!
//! Every new leaf takes one, so threads take them in shares: a count that all of them wrote for
//! each leaf cost a load of ART 5 % of its time with two threads. A share ends with its round.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_tier::Striped;

/// The most of a share.
const MOST: i64 = 64;
/// A share is at most one part in this many of what is left, so that none is out of reach at the
/// end.
const PARTS: i64 = 16;

pub struct Allowance {
    /// In no share yet.
    left: AtomicI64,
    round: AtomicU32,
    /// By thread: the round of its share in the upper half, the rest of it in the lower one. Two
    /// threads of one stripe may both take what one of them counts.
    shares: Striped<AtomicU64>,
}

impl Allowance {
    pub fn new(leaves: i64) -> Allowance {
        Allowance {
            left: AtomicI64::new(leaves),
            round: AtomicU32::new(0),
            shares: Striped::default(),
        }
    }

    /// Starts a round in which this many may be made.
    pub fn renew(&self, leaves: i64) {
        self.round.fetch_add(1, Relaxed);
        self.left.store(leaves, Relaxed);
    }

    /// Takes one, if any is left.
    pub fn take(&self) -> bool {
        let round = u64::from(self.round.load(Relaxed)) << 32;
        let share = self.shares.assigned();
        let mine = share.load(Relaxed);
        if mine > round && mine - round <= MOST as u64 {
            share.store(mine - 1, Relaxed);
            return true;
        }
        let left = self.left.load(Relaxed);
        if left <= 0 {
            return false;
        }
        let wanted = (left / PARTS).clamp(1, MOST);
        let taken = wanted.min(self.left.fetch_sub(wanted, Relaxed));
        if taken > 0 {
            share.store(round + (taken as u64 - 1), Relaxed);
        }
        taken > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(allowance: &Allowance) -> usize {
        (0..10_000).take_while(|_| allowance.take()).count()
    }

    #[test]
    fn all_are_taken_and_no_more() {
        let allowance = Allowance::new(1_000);
        assert_eq!((taken(&allowance), allowance.take()), (1_000, false));
        allowance.renew(7);
        assert_eq!(taken(&allowance), 7);
        allowance.renew(-3);
        assert_eq!(taken(&allowance), 0);
    }

    #[test]
    fn a_share_ends_with_its_round() {
        let allowance = Allowance::new(1 << 20);
        assert!(allowance.take());
        allowance.renew(0);
        assert!(!allowance.take());
    }

    #[test]
    fn threads_take_each_once() {
        let allowance = Allowance::new(5_000);
        let all: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| taken(&allowance))).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        // Where threads share a stripe, as many other tests can make them do, they may take what
        // one of them counts, or write over the other's share.
        assert!((2_500..=10_000).contains(&all), "{all}");
    }
}
