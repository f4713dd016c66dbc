//! How much a tier holds: by its limit, and by what it held when it had no room for a node.
//!
//! Where nodes have several sizes, or blocks beside them, free slots of one size are no room for another. So a tier that was full is as large as
//! what it held then. That is believed less as nodes leave it, for what leaves together may give back whole chunks; once as much has left
//! as the tier holds, it is not believed at all. While nodes leave, a look counts for nothing: who looks after each would find room that is not
//! there. But where nobody has anything to move away, looks must do in the end, or what failed once would for ever.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A look after which nothing left makes the room that is not believed in smaller by one part in so many.
const LOOKS: usize = 512;

/// What is known of one tier's room. Races make it a little older or newer, no more.
pub struct Room {
    /// Bytes in slots when there was last no room for one more.
    full_at: AtomicUsize,
    /// Bytes of nodes that moved elsewhere since.
    left: AtomicUsize,
    /// As much of that as there was at the last look.
    seen: AtomicUsize,
}

impl Default for Room {
    /// Never full so far.
    fn default() -> Self {
        Room {
            full_at: AtomicUsize::new(usize::MAX),
            left: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
        }
    }
}

impl Room {
    /// There was no room, with so many bytes in slots.
    pub fn ran_out(&self, used: usize) {
        self.full_at.store(used, Relaxed);
        self.left.store(0, Relaxed);
    }

    /// A node of so many bytes moved to another tier.
    pub fn left(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    /// What the tier holds, `used` to `usable` bytes. `vacant` ones are in no chunk yet, which is room for any size, whatever was refused.
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
        let room = Room::default();
        assert_eq!(room.limit(10, 1000, 0), 1000);
        room.left(500);
        assert_eq!(room.limit(10, 1000, 0), 1000);
        assert_eq!(room.limit(0, 0, 0), 0);
    }

    #[test]
    fn leavers_find_room_and_looks_between_them_none() {
        let room = Room::default();
        room.ran_out(800_000);
        for gone in 1..=1000 {
            room.left(1);
            let found = room.limit(800_000 - gone, 1_000_000, 0);
            assert_eq!(found, 800_000 + gone / 5);
        }
        room.left(499_000);
        assert_eq!(room.limit(550_000, 1_000_000, 0), 900_000);
        room.left(500_000);
        assert_eq!(room.limit(550_000, 1_000_000, 0), 1_000_000);
        room.ran_out(900_000);
        assert_eq!(room.limit(900_000, 1_000_000, 0), 900_000);
    }

    #[test]
    fn what_failed_once_does_not_for_ever() {
        let room = Room::default();
        room.ran_out(100_000);
        assert_eq!(room.limit(100_000, 1_000_000, 0), 100_000);
        for _ in 0..10 * LOOKS {
            room.limit(100_000, 1_000_000, 0);
        }
        assert!(room.limit(100_000, 1_000_000, 0) > 999_000);
    }

    #[test]
    fn what_holds_more_than_it_seemed_to_is_believed() {
        let room = Room::default();
        room.ran_out(800);
        assert_eq!(room.limit(900, 1000, 0), 900);
        let room = Room::default();
        room.ran_out(800);
        assert_eq!(room.limit(100, 1000, 750), 850, "chunks came free");
        // Counts of threads can be ahead of what is committed.
        assert_eq!(room.limit(1001, 1000, 0), 1000);
    }
}
