//! Events that somebody else could cause as often as they like.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::shared::millis_since_1970;

/// Milliseconds between two events.
const PAUSE: i64 = 1000;

/// Lets one event a second pass, and counts the others.
pub(crate) struct Seldom {
    /// From when on the next one passes.
    next: AtomicI64,
    held_back: AtomicU64,
}

impl Seldom {
    pub const fn new() -> Seldom {
        Seldom {
            next: AtomicI64::new(0),
            held_back: AtomicU64::new(0),
        }
    }

    /// Whether an event passes now; then how many did not since the last one that did.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(millis_since_1970())
    }

    fn pass_at(&self, now: i64) -> Option<u64> {
        let next = self.next.load(Relaxed);
        let passes = now >= next
            && self
                .next
                .compare_exchange(next, now + PAUSE, Relaxed, Relaxed)
                .is_ok();
        if !passes {
            self.held_back.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.held_back.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_passes_and_the_others_are_counted() {
        let seldom = Seldom::new();
        assert_eq!(seldom.pass_at(5000), Some(0));
        assert_eq!(seldom.pass_at(5000), None);
        assert_eq!(seldom.pass_at(5999), None);
        assert_eq!(seldom.pass_at(6000), Some(2));
        assert_eq!(seldom.pass_at(9000), Some(0));
    }
}
