//! The bytes a tier may commit, and how many it has.
//!
//! Invariant: [`Budget::charge`] is the only way up and refuses what would pass the limit. So as
//! long as the limit is not lowered, `peak <= limit`; after it was, `used` only falls until it is
//! within the limit again.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A limit on committed bytes.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Budget {
    /// A budget of `limit` bytes, nothing used.
    pub(crate) const fn new(limit: usize) -> Self {
        Budget {
            limit: AtomicUsize::new(limit),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes`, or nothing and `false` where that would pass the limit.
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        self.charge_leaving(bytes, 0)
    }

    /// The same, but where less than `left` bytes would be left it takes nothing either.
    pub(crate) fn charge_leaving(&self, bytes: usize, left: usize) -> bool {
        let within = |sum: &usize| sum.saturating_add(left) <= self.limit.load(SeqCst);
        let taken = self.used.fetch_update(SeqCst, SeqCst, |used| {
            used.checked_add(bytes).filter(within)
        });
        let Ok(before) = taken else { return false };
        // The limit may have been lowered in between. Either this sees that, or the thread that
        // lowered it sees these bytes in use.
        if !within(&(before + bytes)) {
            self.release(bytes);
            return false;
        }
        self.peak.fetch_max(before + bytes, Relaxed);
        true
    }

    /// Gives back `bytes` taken before.
    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before} bytes");
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Sets another limit, and starts the peak anew. What is in use beyond it stays so until it is
    /// released.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, SeqCst);
        self.peak.store(self.used(), Relaxed);
    }

    /// Bytes in use beyond the limit, which was lowered.
    pub(crate) fn excess(&self) -> usize {
        self.used.load(SeqCst).saturating_sub(self.limit())
    }

    /// Bytes in use now.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The most bytes that were ever in use.
    pub fn peak(&self) -> usize {
        self.peak.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn refuses_the_first_byte_too_many() {
        let budget = Budget::new(10);
        assert!(budget.charge(10));
        assert!(!budget.charge(1));
        budget.release(4);
        assert!(!budget.charge(5));
        assert!(budget.charge(4));
        assert_eq!((budget.used(), budget.peak()), (10, 10));
        assert!(
            !budget.charge(usize::MAX),
            "a sum that wraps is refused too"
        );
    }

    #[test]
    fn what_has_to_be_left_is_left() {
        let budget = Budget::new(10);
        assert!(!budget.charge_leaving(8, 3) && budget.charge_leaving(7, 3));
        assert!(!budget.charge_leaving(1, 3) && !budget.charge_leaving(1, usize::MAX));
        assert!(budget.charge(3));
        assert_eq!((budget.used(), budget.peak()), (10, 10));
    }

    #[test]
    fn a_lower_limit_lets_nothing_in_until_there_is_room_within_it() {
        let budget = Budget::new(100);
        assert!(budget.charge(80));
        budget.set_limit(50);
        assert_eq!((budget.limit(), budget.excess()), (50, 30));
        assert!(!budget.charge(1));
        budget.release(40);
        assert_eq!(budget.excess(), 0);
        assert!(budget.charge(10) && !budget.charge(1));
        budget.set_limit(60);
        assert!(budget.charge(10));
    }

    #[test]
    fn threads_together_stay_within_a_limit_that_is_lowered() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for step in 0..10_000 {
                        let bytes = step % 400;
                        if budget.charge(bytes) {
                            budget.release(bytes);
                        }
                    }
                });
            }
            for step in 0..1000 {
                let limit = 300 + step % 700;
                budget.set_limit(limit);
                while budget.excess() > 0 {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn threads_together_stay_within_the_limit() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for step in 0..10_000 {
                        let bytes = step % 400;
                        if budget.charge(bytes) {
                            budget.release(bytes);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
        assert!(budget.peak() <= 1000);
    }
}
