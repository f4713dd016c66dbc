//! A tier's effective capacity: its limit, or what it held when an allocation last failed.
//!
//! With nodes of several sizes, or with blocks, free slots of one size do not help another. So a
//! tier that was full has the capacity that it held then. The estimate recovers as nodes leave the
//! tier, since their chunks may come free, and is back at the limit once as much has left as the
//! tier holds. While nodes leave, calls alone do not raise it: a caller that asks after each node
//! would see free memory that is not there. If nothing leaves, calls must raise it, or one failure
//! would stop all moves for ever.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A call since which nothing left reduces the missing capacity by one part in this many.
const LOOKS: usize = 512;

/// The state of one tier. Races make it slightly older or newer, no more.
pub struct EffectiveCapacity {
    /// Bytes in slots when an allocation last failed.
    full_at: AtomicUsize,
    /// Bytes of nodes that left since.
    left: AtomicUsize,
    /// That count at the last call.
    seen: AtomicUsize,
}

impl Default for EffectiveCapacity {
    /// Never full so far.
    fn default() -> Self {
        EffectiveCapacity {
            full_at: AtomicUsize::new(usize::MAX),
            left: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
        }
    }
}

impl EffectiveCapacity {
    /// An allocation failed, with this many bytes in slots.
    pub fn ran_out(&self, used: usize) {
        self.full_at.store(used, Relaxed);
        self.left.store(0, Relaxed);
    }

    /// A node of this many bytes moved to another tier.
    pub fn left(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    /// The tier's fill, `used` of `usable` bytes. `vacant` bytes are in no chunk yet, so they are
    /// free for any size, whatever allocation failed.
    pub fn limit(&self, used: usize, usable: usize, vacant: usize) -> usize {
        let full_at = self.full_at.load(Relaxed).max(used + vacant).min(usable);
        let left = self.left.load(Relaxed);
        let faded = match self.seen.swap(left, Relaxed) == left {
            true => full_at + (usable - full_at).div_ceil(LOOKS),
            false => full_at,
        };
        self.full_at.store(faded, Relaxed);
        let left = left.min(usable);
        let regained = (usable - full_at) as u128 * left as u128 / usable.max(1) as u128;
        full_at + regained as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_never_was_full_holds_its_limit() {
        let capacity = EffectiveCapacity::default();
        assert_eq!(capacity.limit(10, 1000, 0), 1000);
        capacity.left(500);
        assert_eq!(capacity.limit(10, 1000, 0), 1000);
        assert_eq!(capacity.limit(0, 0, 0), 0);
    }

    #[test]
    fn leavers_find_room_and_looks_between_them_none() {
        let capacity = EffectiveCapacity::default();
        capacity.ran_out(800_000);
        for gone in 1..=1000 {
            capacity.left(1);
            let found = capacity.limit(800_000 - gone, 1_000_000, 0);
            assert_eq!(found, 800_000 + gone / 5);
        }
        capacity.left(499_000);
        assert_eq!(capacity.limit(550_000, 1_000_000, 0), 900_000);
        capacity.left(500_000);
        assert_eq!(capacity.limit(550_000, 1_000_000, 0), 1_000_000);
        capacity.ran_out(900_000);
        assert_eq!(capacity.limit(900_000, 1_000_000, 0), 900_000);
    }

    #[test]
    fn what_failed_once_does_not_for_ever() {
        let capacity = EffectiveCapacity::default();
        capacity.ran_out(100_000);
        assert_eq!(capacity.limit(100_000, 1_000_000, 0), 100_000);
        for _ in 0..10 * LOOKS {
            capacity.limit(100_000, 1_000_000, 0);
        }
        assert!(capacity.limit(100_000, 1_000_000, 0) > 999_000);
    }

    #[test]
    fn what_holds_more_than_it_seemed_to_is_believed() {
        let capacity = EffectiveCapacity::default();
        capacity.ran_out(800);
        assert_eq!(capacity.limit(900, 1000, 0), 900);
        let capacity = EffectiveCapacity::default();
        capacity.ran_out(800);
        assert_eq!(capacity.limit(100, 1000, 750), 850, "chunks came free");
        // Counters of threads can be ahead of the committed bytes.
        assert_eq!(capacity.limit(1001, 1000, 0), 1000);
    }
}
