//! The bytes a tier may commit, and how many it has.
//!
//! Invariant: `used <= limit` and `peak <= limit` at every moment; [`Budget::charge`] is the only
//! way up and refuses what would pass the limit.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A limit on committed bytes that is never exceeded.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
}

impl Budget {
    /// A budget of `limit` bytes, nothing used.
    pub(crate) const fn new(limit: usize) -> Self {
        Budget {
            limit,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes`, or nothing and `false` where that would pass the limit.
    pub(crate) fn charge(&self, bytes: usize) -> bool {
        let taken = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(bytes).filter(|&sum| sum <= self.limit)
        });
        if let Ok(before) = taken {
            self.peak.fetch_max(before + bytes, Relaxed);
        }
        taken.is_ok()
    }

    /// Gives back `bytes` taken before.
    pub(crate) fn release(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "released {bytes} of {before} bytes");
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
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
